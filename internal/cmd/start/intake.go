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

// trouble remembers why the last write could not be made durable, for as long as that is news.
type trouble struct {
	mu  sync.Mutex
	err error
	at  time.Time
}

// troubleLasts is how long a server counts as not ready after a write failed and none was tried since.
const troubleLasts = 30 * time.Second

func (t *trouble) set(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err, t.at = err, time.Now()
}

func (t *trouble) get() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.at) > troubleLasts {
		return nil
	}
	return t.err
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

// Create implements server.Databases.
func (in intake) Create(ctx context.Context, org, name string) error {
	owner := in.service.Orgs()
	if org != "" {
		o, err := in.service.FindOrg(org)
		if err != nil {
			return &server.UnavailableError{Reason: err.Error()}
		}
		owner = []metadata.Org{o}
	}
	if len(owner) == 0 {
		return &server.UnavailableError{Reason: "there is no organization; create one first"}
	}
	_, err := in.service.CreateBucket(ctx, metadata.Bucket{OrgID: owner[0].ID, Name: name})
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
		in.trouble.set(nil)
		return nil
	}
	if e, ok := stderrors.AsType[*queue.FullError](err); ok {
		switch {
		case e.Never:
			return &server.TooLargeError{Reason: e.Error()}
		case e.Scope == "queue":
			return &server.QueueFullError{Stream: in.name(e.Queue)}
		}
		in.trouble.set(err)
		return &server.UnavailableError{Reason: e.Error()}
	}
	if e, ok := stderrors.AsType[*influxlogical.BrokenError](err); ok {
		return &server.UnavailableError{Reason: e.Error()}
	}
	if errors.Is(err, syscall.ENOSPC) {
		in.trouble.set(err)
		return &server.UnavailableError{Reason: "the disk is full: " + err.Error()}
	}
	if e, ok := stderrors.AsType[*influxlogical.WriteError](err); ok {
		in.trouble.set(err)
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
	return in.trouble.get()
}

// Streams implements server.Health.
func (in intake) Streams(context.Context) []server.StreamHealth {
	var all []server.StreamHealth
	for _, h := range in.service.Health() {
		all = append(all, server.StreamHealth{ID: h.ID, Name: h.Name, Bucket: h.Bucket, Stalled: h.Stalled, Reason: h.Reason})
	}
	return all
}
