package logical

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// mute hides what a tape can tell about its end.
type mute struct{ tape *tape }

func (d *mute) ZeroStamp() logical.Stamp                    { return d.tape.ZeroStamp() }
func (d *mute) DecodeStamp(b []byte) (logical.Stamp, error) { return d.tape.DecodeStamp(b) }
func (d *mute) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	return d.tape.ReadInto(ctx, from, out)
}

func (d *mute) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	return d.tape.Process(ctx, in, events)
}

// TestAtomicAfterAFanThatWasCutShort: a source that cannot tell where its end is gets time to say what it has,
// before serial mode goes on from a target that a fan has left ahead.
func TestAtomicAfterAFanThatWasCutShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := &tape{txs: make([][]logical.Mutation, 40)}
		for i := range source.txs {
			source.txs[i] = newReplayable(false, "1 good").txs[0]
		}
		begun := time.Now()
		source.when = func(n int) time.Time { return begun.Add(time.Duration(n) * 500 * time.Millisecond) }
		serialFrom := 0
		target := memory.Open(memory.Config{Observe: func(c memory.Commit) {
			if c.Memo != nil && c.Memo.Mode == "serial" && len(c.Mutations) > 0 && serialFrom == 0 {
				serialFrom = len(c.Mutations)
			}
		}})
		run := func(config logical.Config, d time.Duration) *Loop {
			factory := quietFactory(t, FactoryConfig{Target: target})
			loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: &mute{source}, Config: config})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
			synctest.Wait()
			return loop
		}
		loop := run(logical.Config{Immediate: true}, 5*time.Second)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		loop.Stop(gone)
		loop = run(logical.Config{}, 14*time.Second)
		if st := loop.Status(); !st.Mode.Fan() || serialFrom > 0 {
			t.Errorf("while the source speaks the loop is in mode %s, and %d mutations were applied serially", st.Mode, serialFrom)
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if st := loop.Status(); st.Mode.Fan() || st.Point.(at).N != len(source.txs) || st.ConsistentSince.IsZero() {
			t.Errorf("when the source is silent, the loop is in mode %s at %v", st.Mode, st.Point)
		}
		loop.Stop(t.Context())
	})
}
