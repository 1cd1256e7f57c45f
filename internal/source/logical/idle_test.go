package logical

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// What an idle loop may cost, as docs/embedding.md states it: the reading and the processing goroutine of
// the dialect and the loop's own, with their stacks.
const (
	idleGoroutines = 3
	idleBytes      = 40 << 10
)

// TestBoundedCostOfIdleLoops measures loops that have applied something and wait for more.
func TestBoundedCostOfIdleLoops(t *testing.T) {
	const n = 1000
	target := memory.Open(memory.Config{})
	factory := quietFactory(t, FactoryConfig{Target: target, Config: logical.Config{BackfillWindow: 10 * time.Minute, StandbyTimeout: 50 * time.Millisecond}})
	goroutines, bytes := footprint()
	loops := make([]*Loop, n)
	sources := make([]*tape, n)
	for i := range loops {
		sources[i] = &tape{
			txs:  [][]logical.Mutation{{{Op: logical.OpUpsert, Relation: accounts, Values: []logical.Value{logical.Int64(int64(i)), logical.Text("v")}}}},
			when: func(int) time.Time { return time.Now().Add(-time.Second) },
		}
		var err error
		if loops[i], err = factory.Get(t.Context(), Spec{Name: fmt.Sprint("loop ", i), Dialect: sources[i]}); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range loops {
		until(l, time.Minute, func(s Status) bool { return s.Point != nil && s.Point.(at).N == 1 })
	}
	// What tells the sources of progress ends by itself.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var more, held int64
	for ctx.Err() == nil {
		g, b := footprint()
		if more, held = g-goroutines, b-bytes; more <= idleGoroutines*n && held <= idleBytes*n {
			break
		}
		_ = sleep(ctx, 50*time.Millisecond)
	}
	t.Logf("an idle loop has %.2f goroutines and %d bytes", float64(more)/n, held/n)
	if more > idleGoroutines*n || held > idleBytes*n {
		t.Errorf("an idle loop has more than %d goroutines or %d bytes", idleGoroutines, idleBytes)
	}
	if now, _, _ := factory.BytesInFlight(); now != 0 {
		t.Errorf("idle loops hold %d bytes of the budget", now)
	}
	runtime.KeepAlive(sources)
}

// footprint returns how many goroutines there are, and the memory of what the heap holds, without what is garbage by
// now, and of stacks.
func footprint() (goroutines, bytes int64) {
	runtime.GC()
	runtime.GC()
	found := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(found)
	return int64(runtime.NumGoroutine()), int64(found[0].Value.Uint64() + found[1].Value.Uint64())
}
