package start

import (
	"context"
	stderrors "errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/server"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/logical"
)

// intake is the streams as the HTTP server sees them: its interfaces and its errors on one side, the
// streams' on the other.
type intake struct {
	streams *influxlogical.Streams
	trouble *trouble
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
	_ server.Intake = intake{}
	_ server.Health = intake{}
)

// Bucket implements server.Intake. A bucket's name is its id.
func (in intake) Bucket(_ context.Context, ref string) (server.Bucket, error) {
	if !in.streams.HasBucket(ref) {
		return server.Bucket{}, &server.UnknownBucketError{Ref: ref}
	}
	return server.Bucket{ID: ref, Name: ref}, nil
}

// Write implements server.Intake.
func (in intake) Write(ctx context.Context, bucket string, blocks []lineprotocol.Block) error {
	err := in.streams.Write(ctx, bucket, blocks)
	if err == nil {
		in.trouble.set(nil)
		return nil
	}
	if e, ok := stderrors.AsType[*influxlogical.UnknownBucketError](err); ok {
		return &server.UnknownBucketError{Ref: e.Bucket}
	}
	if e, ok := stderrors.AsType[*queue.FullError](err); ok {
		switch {
		case e.Never:
			return &server.TooLargeError{Reason: e.Error()}
		case e.Scope == "queue":
			return &server.QueueFullError{Stream: e.Queue}
		}
		in.trouble.set(err)
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
	if errors.Is(err, influxlogical.ErrStopping) {
		return &server.UnavailableError{Reason: err.Error()}
	}
	return err
}

// Accepting implements server.Health.
func (in intake) Accepting(context.Context) error {
	if in.streams.Stopping() {
		return influxlogical.ErrStopping
	}
	return in.trouble.get()
}

// stalledAfter is how long something may wait behind a failing loop until the stream counts as stalled:
// longer than a database takes to be restarted.
const stalledAfter = 10 * time.Second

// Streams implements server.Health.
func (in intake) Streams(context.Context) []server.StreamHealth {
	var all []server.StreamHealth
	for _, stream := range in.streams.All() {
		st := stream.Status()
		h := server.StreamHealth{ID: st.ID, Name: st.ID, Bucket: st.Bucket}
		h.Stalled, h.Reason = stalled(st)
		all = append(all, h)
	}
	return all
}

// stalled says whether a stream makes no progress, and why.
func stalled(st influxlogical.Status) (bool, string) {
	if st.Paused {
		return st.Queue.UnsentBytes > 0, "paused"
	}
	waits := st.Loop.Staleness >= stalledAfter
	switch {
	case st.Loop.Err == nil || !waits && st.Loop.State != loops.StateRejecting:
		return false, ""
	case logical.HintOf(st.Loop.Err) != "":
		return true, st.Loop.Err.Error()
	}
	return true, fmt.Sprintf("%s: %v; it is tried again", st.Loop.State, st.Loop.Err)
}
