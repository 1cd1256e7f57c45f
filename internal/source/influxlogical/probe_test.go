package influxlogical

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/sqlite"
	"github.com/tailrace-cdc/tailrace/logical"
)

// distant is a target that can be cut off.
type distant struct {
	*sqlite.Target
	away, refuses *atomic.Bool
	takes         *atomic.Int64
	pings         *atomic.Int64
}

var errAway = errors.New("nobody answers")

func (d distant) Ping(context.Context) error {
	d.pings.Add(1)
	if d.away.Load() {
		return errAway
	}
	return nil
}

func (d distant) Take(ctx context.Context, claim logical.Claim) (logical.Session, error) {
	d.takes.Add(1)
	if d.away.Load() || d.refuses.Load() {
		return nil, errAway
	}
	return d.Target.Take(ctx, claim)
}

// TestTargetThatComesBackIsTriedAtOnce has a loop whose delay is longer than the test.
func TestTargetThatComesBackIsTriedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	defer r.close()
	inner, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "far.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inner.Close() }()
	far := distant{inner, &atomic.Bool{}, &atomic.Bool{}, &atomic.Int64{}, &atomic.Int64{}}
	far.away.Store(true)
	stream, err := r.streams.Add(t.Context(), StreamConfig{
		ID: "far", Bucket: "b", Remote: remoteOf(far, "far"), Loop: logical.Config{RetryDelay: 100 * time.Hour, RetryMax: 100 * time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.write("m v=1i 1\n")
	for far.takes.Load() == 0 || stream.Status().Loop.Err == nil {
		<-time.After(time.Millisecond)
	}
	away := r.streams.probe(t.Context(), nil)
	if !away[stream] || far.takes.Load() != 1 {
		t.Fatalf("it is not away, or was tried %d times", far.takes.Load())
	}
	// It answers, and refuses: it is tried once for the answer, and then left alone.
	far.away.Store(false)
	far.refuses.Store(true)
	for away = r.streams.probe(t.Context(), away); far.takes.Load() < 2; <-time.After(time.Millisecond) {
	}
	for stream.Status().Loop.Err == nil {
		<-time.After(time.Millisecond)
	}
	for range 5 {
		away = r.streams.probe(t.Context(), away)
	}
	if n := far.takes.Load(); n != 2 || away[stream] {
		t.Errorf("it was tried %d times, want 2", n)
	}
	far.away.Store(true)
	away = r.streams.probe(t.Context(), away)
	far.away.Store(false)
	far.refuses.Store(false)
	r.streams.probe(t.Context(), away)
	for deadline := time.Now().Add(30 * time.Second); !stream.Status().Settled(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it is not tried: %+v", stream.Status())
		}
	}
}

// TestOneProbeTellsAboutAllStreamsOfAServer that is away.
func TestOneProbeTellsAboutAllStreamsOfAServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	defer r.close()
	inner, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "far.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = inner.Close() }()
	far := distant{inner, &atomic.Bool{}, &atomic.Bool{}, &atomic.Int64{}, &atomic.Int64{}}
	far.away.Store(true)
	var streams []*Stream
	for _, id := range []string{"a", "b", "c"} {
		remote := remoteOf(far, id)
		remote.Server = "far"
		stream, err := r.streams.Add(t.Context(), StreamConfig{
			ID: id, Bucket: "b", Remote: remote, Loop: logical.Config{RetryDelay: 100 * time.Hour, RetryMax: 100 * time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, stream)
	}
	for _, stream := range streams {
		for stream.Status().Loop.Err == nil {
			<-time.After(time.Millisecond)
		}
	}
	if away := r.streams.probe(t.Context(), nil); len(away) != len(streams) || far.pings.Load() != 1 {
		t.Errorf("%d of %d streams are away, by %d probes", len(away), len(streams), far.pings.Load())
	}
}
