package metadata

import (
	"context"
	"time"
)

// A Bucket is a place that clients write to.
type Bucket struct {
	ID, OrgID         ID
	Name, Description string
	// Deleting says that the bucket is being deleted, with its streams.
	Deleting             bool
	CreatedAt, UpdatedAt time.Time
}

var buckets = table[Bucket]{
	KindBucket, "buckets", "id, org_id, name, description, deleting, created, updated",
	func(_ *Store, row func(...any) error) (b Bucket, err error) {
		err = row(&b.ID, &b.OrgID, &b.Name, &b.Description, &b.Deleting, (*instant)(&b.CreatedAt), (*instant)(&b.UpdatedAt))
		return b, err
	},
}

// CreateBucket stores a new bucket, and returns it with its ID.
func (s *Store) CreateBucket(ctx context.Context, b Bucket) (Bucket, error) {
	err := s.do(ctx, func(t tx) (err error) {
		b, err = t.createBucket(b)
		return err
	})
	return b, err
}

func (t tx) createBucket(b Bucket) (Bucket, error) {
	if err := checkName(b.Name); err != nil {
		return b, err
	}
	if _, err := orgs.one(t, b.OrgID.String(), "id = ?", int64(b.OrgID)); err != nil {
		return b, err
	}
	b.ID, b.CreatedAt, b.Deleting = t.s.ids.next(), t.s.now().UTC(), false
	b.UpdatedAt = b.CreatedAt
	_, err := t.exec(KindBucket, b.Name,
		"INSERT INTO buckets (id, org_id, name, description, created, updated) VALUES (?, ?, ?, ?, ?, ?)",
		int64(b.ID), int64(b.OrgID), b.Name, b.Description, b.CreatedAt.UnixNano(), b.UpdatedAt.UnixNano())
	return b, err
}

// Buckets returns all buckets, those that are being deleted included, the oldest first.
func (s *Store) Buckets(ctx context.Context) ([]Bucket, error) { return buckets.all(ctx, s, "true") }

// UpdateBucket changes a bucket's name or description.
func (s *Store) UpdateBucket(ctx context.Context, id ID, change func(*Bucket) error) (b Bucket, err error) {
	err = s.do(ctx, func(t tx) error {
		if b, err = buckets.one(t, id.String(), "id = ? AND deleting = 0", int64(id)); err != nil {
			return err
		}
		if err := change(&b); err != nil {
			return err
		}
		if err := checkName(b.Name); err != nil {
			return err
		}
		b.UpdatedAt = s.now().UTC()
		_, err := t.exec(KindBucket, b.Name, "UPDATE buckets SET name = ?, description = ?, updated = ? WHERE id = ?",
			b.Name, b.Description, b.UpdatedAt.UnixNano(), int64(id))
		return err
	})
	return b, err
}

// RetireBucket marks a bucket and all of its streams as being deleted, and returns the streams: after a crash it is
// clear what is left to be done. It may be called again.
func (s *Store) RetireBucket(ctx context.Context, id ID) (of []Stream, err error) {
	err = s.do(ctx, func(t tx) error {
		if _, err := buckets.one(t, id.String(), "id = ?", int64(id)); err != nil {
			return err
		}
		now := s.now().UnixNano()
		if _, err := t.exec(KindStream, "", "UPDATE streams SET deleting = 1, updated = ? WHERE bucket_id = ?", now, int64(id)); err != nil {
			return err
		}
		if _, err := t.exec(KindBucket, "", "UPDATE buckets SET deleting = 1, updated = ? WHERE id = ?", now, int64(id)); err != nil {
			return err
		}
		of, err = streams.in(t, "bucket_id = ?", int64(id))
		return err
	})
	return of, err
}

// DeleteBucket deletes a bucket that has no streams.
func (s *Store) DeleteBucket(ctx context.Context, id ID) error {
	return s.do(ctx, func(t tx) error {
		b, err := buckets.one(t, id.String(), "id = ?", int64(id))
		if err != nil {
			return err
		}
		by, err := t.list("SELECT 'replication ' || name FROM streams WHERE bucket_id = ?", int64(id))
		if err != nil {
			return err
		}
		if len(by) > 0 {
			return &InUseError{Kind: KindBucket, Name: b.Name, By: by}
		}
		_, err = t.exec(KindBucket, b.Name, "DELETE FROM buckets WHERE id = ?", int64(id))
		return err
	})
}
