package metadata

import (
	"context"
	"time"
)

// A Stream replicates a bucket to a remote. Settings that are nil are the server's.
type Stream struct {
	ID, OrgID          ID
	Name               string
	Description        *string
	BucketID, RemoteID ID
	// RemoteBucketID and RemoteBucketName say where in the remote; the id goes first.
	RemoteBucketID, RemoteBucketName *string
	// MaxQueueBytes, MaxAgeSeconds (0 is never) and QueueFullPolicy limit the queue.
	MaxQueueBytes   *int64
	MaxAgeSeconds   int64
	QueueFullPolicy *string
	// OnReject, BackfillWindow, FanShards and BytesInFlight are settings of the loop.
	OnReject       *string
	BackfillWindow *time.Duration
	FanShards      *int
	BytesInFlight  *int64
	// Filter says which points it takes, as a JSON document; nil is all.
	Filter *string
	// Paused says that the loop is not to run.
	Paused bool
	// Opened says that the queue has been made.
	Opened bool
	// Deleting says that the stream is being deleted.
	Deleting             bool
	CreatedAt, UpdatedAt time.Time
}

var streams = table[Stream]{
	KindStream, "streams",
	`id, org_id, name, description, bucket_id, remote_id, remote_bucket_id, remote_bucket_name, max_queue_bytes, max_age_seconds,
queue_full_policy, on_reject, backfill_window, fan_shards, bytes_in_flight, filter, paused, opened, deleting, created, updated`,
	func(_ *Store, row func(...any) error) (r Stream, err error) {
		err = row(&r.ID, &r.OrgID, &r.Name, &r.Description, &r.BucketID, &r.RemoteID, &r.RemoteBucketID, &r.RemoteBucketName,
			&r.MaxQueueBytes, &r.MaxAgeSeconds, &r.QueueFullPolicy, &r.OnReject, &r.BackfillWindow, &r.FanShards, &r.BytesInFlight,
			&r.Filter, &r.Paused, &r.Opened, &r.Deleting, (*instant)(&r.CreatedAt), (*instant)(&r.UpdatedAt))
		return r, err
	},
}

// NewStreamID returns an ID for a stream that is to be created, because its queue is made first.
func (s *Store) NewStreamID() ID { return s.ids.next() }

// CreateStream stores a new stream. It gets an ID if it has none.
func (s *Store) CreateStream(ctx context.Context, r Stream) (Stream, error) {
	err := s.do(ctx, func(t tx) (err error) {
		r, err = t.createStream(r)
		return err
	})
	return r, err
}

func (t tx) createStream(r Stream) (Stream, error) {
	if err := t.checkStream(&r); err != nil {
		return r, err
	}
	if r.ID == 0 {
		r.ID = t.s.ids.next()
	}
	r.CreatedAt, r.Deleting = t.s.now().UTC(), false
	r.UpdatedAt = r.CreatedAt
	_, err := t.exec(KindStream, r.Name, `INSERT INTO streams (id, org_id, name, description, bucket_id, remote_id, remote_bucket_id,
remote_bucket_name, max_queue_bytes, max_age_seconds, queue_full_policy, on_reject, backfill_window, fan_shards, bytes_in_flight, filter, paused,
opened, created, updated) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		int64(r.ID), int64(r.OrgID), r.Name, r.Description, int64(r.BucketID), int64(r.RemoteID), r.RemoteBucketID,
		r.RemoteBucketName, r.MaxQueueBytes, r.MaxAgeSeconds, r.QueueFullPolicy, r.OnReject, (*int64)(r.BackfillWindow), r.FanShards,
		r.BytesInFlight, r.Filter, r.Paused, r.Opened, r.CreatedAt.UnixNano(), r.UpdatedAt.UnixNano())
	return r, err
}

// checkStream reports what cannot be stored.
func (t tx) checkStream(r *Stream) error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if r.MaxAgeSeconds < 0 || r.MaxAgeSeconds > int64(maxAge/time.Second) {
		return &InvalidError{Field: "maxAgeSeconds", Reason: "give 0, which means never, or a number of seconds up to 100 years"}
	}
	if _, err := orgs.one(t, r.OrgID.String(), "id = ?", int64(r.OrgID)); err != nil {
		return err
	}
	remote, err := remotes.one(t, r.RemoteID.String(), "id = ?", int64(r.RemoteID))
	if err != nil {
		return err
	}
	bucket, err := buckets.one(t, r.BucketID.String(), "id = ? AND deleting = 0", int64(r.BucketID))
	if err != nil {
		return err
	}
	return CheckOwners(*r, remote, bucket)
}

// CheckOwners reports a remote or a bucket that is not the stream's organisation's.
func CheckOwners(r Stream, remote Remote, bucket Bucket) error {
	switch {
	case remote.OrgID != r.OrgID:
		return &InvalidError{Field: "remoteID", Reason: "the remote belongs to another organization"}
	case bucket.OrgID != r.OrgID:
		return &InvalidError{Field: "localBucketID", Reason: "the bucket belongs to another organization"}
	}
	return nil
}

// maxAge keeps a number of seconds within what a time.Duration can say.
const maxAge = 100 * 365 * 24 * time.Hour

// Stream returns a stream that is not being deleted.
func (s *Store) Stream(ctx context.Context, id ID) (r Stream, err error) {
	err = s.do(ctx, func(t tx) error {
		r, err = streams.one(t, id.String(), "id = ? AND deleting = 0", int64(id))
		return err
	})
	return r, err
}

// A StreamFilter chooses streams; what is zero chooses all.
type StreamFilter struct {
	OrgID              ID
	Name               string
	RemoteID, BucketID ID
	// Deleting chooses those that are being deleted, in place of the others.
	Deleting bool
}

// Streams returns the streams that a filter chooses, the oldest first.
func (s *Store) Streams(ctx context.Context, f StreamFilter) ([]Stream, error) {
	var c condition
	c.and("deleting = ?", f.Deleting)
	c.id("org_id", f.OrgID)
	c.text("name", f.Name)
	c.id("remote_id", f.RemoteID)
	c.id("bucket_id", f.BucketID)
	return streams.all(ctx, s, c.where(), c.args...)
}

// UpdateStream changes a stream; its organisation and its bucket stay.
func (s *Store) UpdateStream(ctx context.Context, id ID, change func(*Stream) error) (r Stream, err error) {
	err = s.do(ctx, func(t tx) error {
		if r, err = streams.one(t, id.String(), "id = ? AND deleting = 0", int64(id)); err != nil {
			return err
		}
		org, bucket := r.OrgID, r.BucketID
		if err := change(&r); err != nil {
			return err
		}
		r.ID, r.OrgID, r.BucketID, r.UpdatedAt = id, org, bucket, s.now().UTC()
		if err := t.checkStream(&r); err != nil {
			return err
		}
		_, err := t.exec(KindStream, r.Name, `UPDATE streams SET name = ?, description = ?, remote_id = ?, remote_bucket_id = ?,
remote_bucket_name = ?, max_queue_bytes = ?, max_age_seconds = ?, queue_full_policy = ?, on_reject = ?, backfill_window = ?, fan_shards = ?,
bytes_in_flight = ?, filter = ?, paused = ?, opened = ?, updated = ? WHERE id = ?`,
			r.Name, r.Description, int64(r.RemoteID), r.RemoteBucketID, r.RemoteBucketName, r.MaxQueueBytes, r.MaxAgeSeconds,
			r.QueueFullPolicy, r.OnReject, (*int64)(r.BackfillWindow), r.FanShards, r.BytesInFlight, r.Filter, r.Paused, r.Opened,
			r.UpdatedAt.UnixNano(), int64(id))
		return err
	})
	return r, err
}

// RetireStream marks a stream as being deleted: after a crash it is clear what is left to be done. Its
// name is free from then on.
func (s *Store) RetireStream(ctx context.Context, id ID) (r Stream, err error) {
	err = s.do(ctx, func(t tx) error {
		if r, err = streams.one(t, id.String(), "id = ? AND deleting = 0", int64(id)); err != nil {
			return err
		}
		r.Deleting = true
		_, err := t.exec(KindStream, r.Name, "UPDATE streams SET deleting = 1, updated = ? WHERE id = ?", s.now().UnixNano(), int64(id))
		return err
	})
	return r, err
}

// DeleteStream removes a stream that was retired. It does nothing if there is none.
func (s *Store) DeleteStream(ctx context.Context, id ID) error {
	return s.do(ctx, func(t tx) error {
		_, err := t.exec(KindStream, id.String(), "DELETE FROM streams WHERE id = ? AND deleting = 1", int64(id))
		return err
	})
}
