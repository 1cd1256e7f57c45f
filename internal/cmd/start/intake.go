package start

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	stderrors "errors"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/replication"
	"github.com/tailrace-cdc/tailrace/internal/server"
	"github.com/tailrace-cdc/tailrace/internal/server/api"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
)

// intake is the streams as the HTTP server sees them: its interfaces and its errors on one side, the
// streams' on the other.
type intake struct {
	streams  *influxlogical.Streams
	service  *replication.Service
	operator [sha256.Size]byte
	trouble  *trouble
}

// trouble remembers why the last write of each bucket could not be made durable, for as long as that is news.
type trouble struct {
	mu sync.Mutex
	of map[string]failed // by the bucket's id
}

type failed struct {
	err error
	at  time.Time
}

// troubleLasts is how long a server counts as not ready after a write failed and none was tried since.
const troubleLasts = 30 * time.Second

func newTrouble() *trouble { return &trouble{of: map[string]failed{}} }

func (t *trouble) set(bucket string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.of, bucket)
		return
	}
	t.of[bucket] = failed{err, time.Now()}
}

// get returns why no write can be made durable: all of these buckets fail. One that takes writes, or was not tried,
// keeps the server ready (ISOLATED).
func (t *trouble) get(buckets map[string]bool) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for bucket, f := range t.of {
		if !buckets[bucket] || time.Since(f.at) > troubleLasts {
			delete(t.of, bucket)
		}
	}
	if len(t.of) < len(buckets) {
		return nil
	}
	for _, f := range t.of {
		err = f.err
	}
	return err
}

var (
	_ server.Intake     = intake{}
	_ server.Health     = intake{}
	_ server.Databases  = intake{}
	_ server.Authorizer = intake{}
)

// Authorize implements server.Authorizer.
func (in intake) Authorize(_ context.Context, token string) (server.Principal, bool) {
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], in.operator[:]) == 1 {
		return server.Principal{Name: "operator", Manage: true}, true
	}
	return api.Principal(in.service, token)
}

// Bucket implements server.Intake.
func (in intake) Bucket(_ context.Context, org, ref string) (server.Bucket, error) {
	b, err := in.service.FindBucket(org, ref)
	if err != nil {
		return server.Bucket{}, &server.UnknownBucketError{Ref: ref}
	}
	return bucket(b), nil
}

func bucket(b metadata.Bucket) server.Bucket {
	return server.Bucket{ID: b.ID.String(), Name: b.Name, OrgID: b.OrgID.String()}
}

// Owner implements server.Databases.
func (in intake) Owner(_ context.Context, org string) (string, error) {
	if org != "" {
		o, err := in.service.FindOrg(org)
		if err != nil {
			return "", &server.UnknownOrgError{Ref: org}
		}
		return o.ID.String(), nil
	}
	all := in.service.Orgs()
	if len(all) == 0 {
		return "", &server.UnavailableError{Reason: "there is no organization; create one first"}
	}
	return all[0].ID.String(), nil
}

// Create implements server.Databases.
func (in intake) Create(ctx context.Context, owner, name string) error {
	id, err := metadata.ParseID(owner)
	if err != nil {
		return err
	}
	_, err = in.service.CreateBucket(ctx, metadata.Bucket{OrgID: id, Name: name})
	if conflict := new(metadata.ConflictError); errors.As(err, &conflict) {
		return nil // it is there
	}
	return err
}

// List implements server.Databases.
func (in intake) List(context.Context) ([]server.Bucket, error) {
	var all []server.Bucket
	for _, b := range in.service.Buckets() {
		all = append(all, bucket(b))
	}
	return all, nil
}

// Write implements server.Intake.
func (in intake) Write(ctx context.Context, bucket string, blocks []lineprotocol.Block) error {
	err := in.streams.Write(ctx, bucket, blocks)
	if err == nil {
		in.trouble.set(bucket, nil)
		return nil
	}
	if e, ok := stderrors.AsType[*queue.FullError](err); ok {
		switch {
		case e.Never:
			return &server.TooLargeError{Reason: e.Error()}
		case e.Scope == "queue":
			return &server.QueueFullError{Stream: in.name(e.Queue)}
		}
		in.trouble.set(bucket, err)
		return &server.UnavailableError{Reason: e.Error()}
	}
	if e, ok := stderrors.AsType[*influxlogical.BrokenError](err); ok {
		return &server.UnavailableError{Reason: e.Error()}
	}
	if errors.Is(err, syscall.ENOSPC) {
		in.trouble.set(bucket, err)
		return &server.UnavailableError{Reason: "the disk is full: " + err.Error()}
	}
	if e, ok := stderrors.AsType[*influxlogical.WriteError](err); ok {
		in.trouble.set(bucket, err)
		return &server.StoreError{Kept: e.Kept, Failed: e.Failed, Err: e.Err}
	}
	if errors.Is(err, influxlogical.ErrStopping) || errors.Is(err, influxlogical.ErrNoStream) {
		return &server.UnavailableError{Reason: err.Error()}
	}
	return err
}

// name returns a stream's name and id.
func (in intake) name(id string) string {
	if stream := in.streams.Get(id); stream != nil {
		return stream.Status().Name + " (" + id + ")"
	}
	return id
}

// Accepting implements server.Health.
func (in intake) Accepting(context.Context) error {
	if in.streams.Stopping() {
		return influxlogical.ErrStopping
	}
	buckets := map[string]bool{}
	for _, stream := range in.streams.All() {
		buckets[stream.Status().Bucket] = true
	}
	return in.trouble.get(buckets)
}

// Streams implements server.Health.
func (in intake) Streams(context.Context) []server.StreamHealth {
	var all []server.StreamHealth
	for _, h := range in.service.Health() {
		all = append(all, server.StreamHealth{ID: h.ID, Name: h.Name, Bucket: h.Bucket, Stalled: h.Stalled, Reason: h.Reason})
	}
	return all
}
