package replication

import (
	"context"
	"crypto/sha256"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
)

// A directory is what every request asks for, in memory. It is replaced, never changed.
type directory struct {
	orgs    []metadata.Org    // the oldest first
	all     []metadata.Bucket // those that are being deleted included
	buckets map[metadata.ID]metadata.Bucket
	named   map[string][]metadata.Bucket // the oldest first
	tokens  map[[sha256.Size]byte]metadata.Token
}

// reread reads the directory anew, after something in it was changed.
func (s *Service) reread(ctx context.Context) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	d := &directory{
		buckets: map[metadata.ID]metadata.Bucket{}, named: map[string][]metadata.Bucket{}, tokens: map[[sha256.Size]byte]metadata.Token{},
	}
	var err error
	if d.orgs, err = s.store.Orgs(ctx); err != nil {
		return err
	}
	if d.all, err = s.store.Buckets(ctx); err != nil {
		return err
	}
	for _, b := range d.all {
		if !b.Deleting {
			d.buckets[b.ID] = b
			d.named[b.Name] = append(d.named[b.Name], b)
		}
	}
	tokens, err := s.store.Tokens(ctx)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if t.Active {
			d.tokens[t.Sum] = t
		}
	}
	s.directory.Store(d)
	return nil
}

// changed rereads the directory after a change that succeeded. The change is durable: that it cannot be
// read back is an error all the same, because it is not in force.
func changed[T any](ctx context.Context, s *Service, v T, err error) (T, error) {
	if err == nil {
		err = s.reread(context.WithoutCancel(ctx))
	}
	return v, err
}

// FindOrg finds an organisation by its id or its name; an id goes first.
func (s *Service) FindOrg(ref string) (metadata.Org, error) {
	orgs := s.directory.Load().orgs
	if id, err := metadata.ParseID(ref); err == nil {
		for _, o := range orgs {
			if o.ID == id {
				return o, nil
			}
		}
	}
	for _, o := range orgs {
		if o.Name == ref {
			return o, nil
		}
	}
	return metadata.Org{}, &metadata.NotFoundError{Kind: metadata.KindOrg, Ref: ref}
}

// Orgs returns all organisations, the oldest first.
func (s *Service) Orgs() []metadata.Org { return s.directory.Load().orgs }

// FindBucket finds a bucket by its id or its name; an id goes first. An org (an id or a name) that there is has to
// own the bucket; any other is ignored, because clients that were made for another server bring its names along,
// and the oldest bucket goes first.
func (s *Service) FindBucket(org, ref string) (metadata.Bucket, error) {
	d := s.directory.Load()
	var owner metadata.ID
	if org != "" {
		if o, err := s.FindOrg(org); err == nil {
			owner = o.ID
		}
	}
	if id, err := metadata.ParseID(ref); err == nil {
		if b, ok := d.buckets[id]; ok && (owner == 0 || b.OrgID == owner) {
			return b, nil
		}
	}
	for _, b := range d.named[ref] {
		if owner == 0 || b.OrgID == owner {
			return b, nil
		}
	}
	return metadata.Bucket{}, &metadata.NotFoundError{Kind: metadata.KindBucket, Ref: ref}
}

// Bucket returns a bucket that is not being deleted.
func (s *Service) Bucket(id metadata.ID) (metadata.Bucket, error) {
	b, ok := s.directory.Load().buckets[id]
	if !ok {
		return b, &metadata.NotFoundError{Kind: metadata.KindBucket, Ref: id.String()}
	}
	return b, nil
}

// DeletableBucket returns a bucket, also one that is being deleted: that may have to be gone on with.
func (s *Service) DeletableBucket(id metadata.ID) (metadata.Bucket, error) {
	for _, b := range s.directory.Load().all {
		if b.ID == id {
			return b, nil
		}
	}
	return metadata.Bucket{}, &metadata.NotFoundError{Kind: metadata.KindBucket, Ref: id.String()}
}

// Buckets returns all buckets, the oldest first.
func (s *Service) Buckets() []metadata.Bucket {
	d := s.directory.Load()
	all := make([]metadata.Bucket, 0, len(d.buckets))
	for _, b := range d.all {
		if !b.Deleting {
			all = append(all, b)
		}
	}
	return all
}

// FindToken returns the active token that has this hash.
func (s *Service) FindToken(sum [sha256.Size]byte) (metadata.Token, bool) {
	t, ok := s.directory.Load().tokens[sum]
	return t, ok
}
