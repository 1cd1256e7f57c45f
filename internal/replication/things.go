package replication

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
)

// CreateOrg stores a new organisation.
func (s *Service) CreateOrg(ctx context.Context, o metadata.Org) (metadata.Org, error) {
	o, err := s.store.CreateOrg(ctx, o)
	return changed(ctx, s, o, err)
}

// UpdateOrg changes an organisation.
func (s *Service) UpdateOrg(ctx context.Context, id metadata.ID, change func(*metadata.Org) error) (metadata.Org, error) {
	o, err := s.store.UpdateOrg(ctx, id, change)
	return changed(ctx, s, o, err)
}

// DeleteOrg deletes an organisation that owns nothing.
func (s *Service) DeleteOrg(ctx context.Context, id metadata.ID) error {
	_, err := changed(ctx, s, id, s.store.DeleteOrg(ctx, id))
	return err
}

// CreateBucket stores a new bucket. It takes writes as soon as it has a stream.
func (s *Service) CreateBucket(ctx context.Context, b metadata.Bucket) (metadata.Bucket, error) {
	b, err := s.store.CreateBucket(ctx, b)
	return changed(ctx, s, b, err)
}

// UpdateBucket changes a bucket's name or description.
func (s *Service) UpdateBucket(ctx context.Context, id metadata.ID, change func(*metadata.Bucket) error) (metadata.Bucket, error) {
	b, err := s.store.UpdateBucket(ctx, id, change)
	return changed(ctx, s, b, err)
}

// DeleteBucket deletes a bucket and its streams, each as DeleteStream does, all at once. It goes on with a deletion
// that did not come to its end.
func (s *Service) DeleteBucket(ctx context.Context, id metadata.ID) error {
	streams, err := s.store.RetireBucket(ctx, id)
	if _, err := changed(ctx, s, id, err); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // it is decided
	if err := s.removeAll(ctx, streams); err != nil {
		return err
	}
	_, err = changed(ctx, s, id, s.store.DeleteBucket(ctx, id))
	if gone := new(metadata.NotFoundError); errors.As(err, &gone) {
		return nil // another deletion was faster
	}
	return err
}

// CreateToken makes a token, and returns it beside what is stored of it.
func (s *Service) CreateToken(ctx context.Context, t metadata.Token) (metadata.Token, string, error) {
	t, token, err := s.store.CreateToken(ctx, t)
	t, err = changed(ctx, s, t, err)
	return t, token, err
}

// Token returns what is stored of a token.
func (s *Service) Token(ctx context.Context, id metadata.ID) (metadata.Token, error) {
	return s.store.Token(ctx, id)
}

// Tokens returns what is stored of all tokens, the oldest first.
func (s *Service) Tokens(ctx context.Context) ([]metadata.Token, error) { return s.store.Tokens(ctx) }

// UpdateToken changes a token's description, and whether it is accepted.
func (s *Service) UpdateToken(ctx context.Context, id metadata.ID, change func(*metadata.Token) error) (metadata.Token, error) {
	t, err := s.store.UpdateToken(ctx, id, change)
	return changed(ctx, s, t, err)
}

// DeleteToken deletes a token.
func (s *Service) DeleteToken(ctx context.Context, id metadata.ID) error {
	_, err := changed(ctx, s, id, s.store.DeleteToken(ctx, id))
	return err
}
