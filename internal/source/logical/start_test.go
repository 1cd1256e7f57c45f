package logical

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/oracle/history"
	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// TestCalmStaleFromTheStartFansOutAtOnce also looks at the memo of a loop that has caught up and is idle:
// whoever reads it must be told that the target is consistent.
func TestCalmStaleFromTheStartFansOutAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		source := &tape{txs: history.Make(rand.New(rand.NewPCG(1, 2)), history.Config{Transactions: 200})}
		source.when = func(n int) time.Time { return begun.Add(-time.Hour + time.Duration(n)*time.Millisecond) }
		serial := 0
		target := memory.Open(memory.Config{Observe: func(c memory.Commit) {
			if c.Memo != nil && c.Memo.Mode == "serial" {
				serial += len(c.Mutations)
			}
		}})
		factory, err := NewFactory(FactoryConfig{Holder: "one", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: source, Target: target, Config: logical.Config{BackfillWindow: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // of the test's own time
		synctest.Wait()
		memo := target.Snapshot().Memos["loop"]
		if st := loop.Status(); st.Point.(at).N != len(source.txs) || serial > 0 {
			t.Errorf("at %v, %d mutations were applied serially although all were stale", st.Point, serial)
		}
		if memo.Mode != "serial" || memo.ConsistentSince.IsZero() {
			t.Errorf("idle and caught up, the memo says %s, consistent since %v", memo.Mode, memo.ConsistentSince)
		}
		if point := loop.Status().Point.(at); source.acked.N != point.N {
			t.Errorf("the source was told of %d, the consistent point is %d", source.acked.N, point.N)
		}
		factory.Close(t.Context())
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	})
}
