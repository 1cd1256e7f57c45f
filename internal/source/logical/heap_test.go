package logical

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// hose is a source that has more than any target takes: transactions of four rows of a KiB.
type hose struct{ *tape }

func (hose) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	for n := from.(at).N + 1; ; n++ {
		if err := out.Send(ctx, logical.Message{Body: n, Size: 64}); err != nil {
			return err
		}
	}
}

func (h hose) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	for {
		msg, err := in.Receive(ctx)
		if err != nil {
			return err
		}
		if msg.Rollback {
			if err := events.OnRollback(ctx); err != nil {
				return err
			}
			continue
		}
		n := msg.Body.(int)
		if err := events.OnBegin(ctx, at{N: n}); err != nil {
			return err
		}
		for i := range 4 {
			m := logical.Mutation{Op: logical.OpUpsert, Relation: accounts, Values: []logical.Value{logical.Int64(int64(i)), logical.TextBytes(make([]byte, 1<<10))}}
			if err := events.OnData(ctx, []logical.Mutation{m}); err != nil {
				return err
			}
		}
		if err := events.OnCommit(ctx); err != nil {
			return err
		}
	}
}

// TestBoundedMemoryOfManyLoopsThatAreWrittenTo has many loops, half of them in fan mode, read as much as
// they may for a target that does not answer, and then for one that does, and measures the memory.
func TestBoundedMemoryOfManyLoopsThatAreWrittenTo(t *testing.T) {
	loops := logicaltest.Count(80, 1000)
	total := int64(loops) * 256 << 10 // 1,000 loops: 256 MB, the default
	_, before := footprint()
	target := memory.Open(memory.Config{Hook: deadTarget("")})
	alive := memory.Open(memory.Config{})
	factory := quietFactory(t, FactoryConfig{BytesInFlight: total, Config: logical.Config{ApplyTimeout: time.Hour}})
	get := func(i int, target logical.Target) {
		t.Helper()
		name := fmt.Sprint("loop ", i)
		_, err := factory.Get(t.Context(), Spec{Name: name, Dialect: hose{&tape{}}, Target: target, Config: logical.Config{Immediate: i%2 == 0, ApplyTimeout: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range loops {
		get(i, target)
	}
	// All of them have come to wait when no more is taken.
	var now, last int64 = 0, -1
	for ; now != last || now < total/2; now, _, _ = factory.BytesInFlight() {
		last = now
		if err := sleep(t.Context(), 300*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	_, dead := footprint()
	judge := func(what string, held int64) {
		now, peak, limit := factory.BytesInFlight()
		most := limit + limit/2 + int64(loops)*(idleBytes+64<<10)
		t.Logf("%d loops, %s: %d MiB of memory, %d MiB in flight, at most %d MiB, of %d MiB", loops, what, held>>20, now>>20, peak>>20, limit>>20)
		if peak > limit || held > most {
			t.Errorf("BOUNDED: %d bytes in flight of %d, %d bytes of memory of %d", peak, limit, held, most)
		}
	}
	judge("a target that is dead", dead-before)
	for i := range 20 { // and others go on beside them
		get(loops+i, alive)
	}
	for i := range 20 {
		loop := factory.loops[fmt.Sprint("loop ", loops+i)].loop
		until(loop, 10*time.Minute, func(s Status) bool { return s.Mutations > 100 })
		if loop.Status().Mutations == 0 {
			t.Errorf("ISOLATED: %s has brought nothing", loop.Name())
		}
	}
	_, busy := footprint()
	judge("and 20 that are alive", busy-before)
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	factory.Close(stop)
}
