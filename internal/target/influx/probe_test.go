package influx_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/logical"
)

// TestProbeEndsOurDelayAndNoRetryAfter has two streams that wait for hours: one because of its own delay, which ends
// when its remote is there again; one because its remote has said so, and which asks that remote nothing meanwhile.
func TestProbeEndsOurDelayAndNoRetryAfter(t *testing.T) {
	t.Parallel()
	asks, away := newFake(t, "v2.7.1"), newFake(t, "v2.7.1")
	var pings atomic.Int64
	asks.behave(say(503, "busy", "Retry-After", "3600"))
	away.behave(reset)
	away.mu.Lock()
	away.question = func(w http.ResponseWriter, r *http.Request, _ []string) bool {
		pings.Add(1)
		return reset(w, r, nil)
	}
	away.mu.Unlock()
	slow := logical.Config{RetryDelay: 100 * time.Hour, RetryMax: 100 * time.Hour}
	r := newRig(t, t.TempDir(), influx.Config{URL: asks.URL, Kind: influx.V2}, slow)
	target, err := influx.Open(influx.Config{URL: away.URL, Kind: influx.V2, Bucket: "b", ID: "two"})
	must(t, err)
	defer func() { must(t, target.Close()) }()
	other, err := r.streams.Add(t.Context(), influxlogical.StreamConfig{
		ID: "two", Bucket: "local", Loop: slow,
		Remote: influxlogical.Remote{Open: func(context.Context) (logical.Target, func(), error) { return target, func() {}, nil }},
	})
	must(t, err)
	r.write("m v=1 1")
	r.until("they do not wait", func(st influxlogical.Status) bool {
		return logical.RetryAfterOf(st.Loop.Err) > 0 && other.Status().Loop.Err != nil
	})
	asks.behave(nil)
	asked, before := len(asks.writes()), pings.Load()
	asks.mu.Lock()
	asks.question = func(http.ResponseWriter, *http.Request, []string) bool {
		t.Error("the remote that wants to be left alone is asked")
		return false
	}
	asks.mu.Unlock()

	ctx, stop := context.WithCancel(t.Context())
	var probing sync.WaitGroup
	probing.Go(func() { r.streams.Probe(ctx, time.Millisecond) })
	defer probing.Wait()
	defer stop()
	eventually(t, func() string { return "it is not asked" }, func() bool { return pings.Load() > before+20 })
	away.behave(nil)
	away.mu.Lock()
	away.question = nil
	away.mu.Unlock()
	eventually(t, func() string { return "its delay does not end" }, func() bool { return other.Status().Settled() })
	r.stream.Flush() // an operator's word does not end it either
	eventually(t, func() string { return "it does not wait any more" }, func() bool {
		return logical.RetryAfterOf(r.stream.Status().Loop.Err) > 0
	})
	if n := len(asks.writes()); n != asked || len(asks.inside()) > 0 {
		t.Errorf("%d requests, want %d", n, asked)
	}
	sameLines(t, "in the remote that came back", away.inside(), []string{"m v=1 1"})
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	r.stream.Pause(soon) // what waits for an hour is given up
}
