package logical

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// TestSkipIsHonouredInBothModes: what a memo says to be in the target of the transaction after the consistent point is
// not applied again, and once that transaction has landed, nothing is skipped.
func TestSkipIsHonouredInBothModes(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, config logical.Config) {
		source := newReplayable(false, "1 a", "1 b, 2 c, 3 d, 4 e", "2 f")
		var applied []string
		target := memory.Open(memory.Config{Observe: func(c memory.Commit) {
			for _, m := range c.Mutations {
				applied = append(applied, fmt.Sprint(m.Values[0].Int64(), m.Values[1].Text()))
			}
		}})
		session, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "one", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		err = session.SaveMemo(t.Context(), logical.MemoState{Point: []byte(`{"n":1}`), Skip: 2, Mode: "serial", ConsistentSince: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		_ = session.Release(t.Context())
		source.batch = 3 // the first of its parts holds some of each
		factory := quietFactory(t, FactoryConfig{Target: target})
		loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: source, Config: config})
		if err != nil {
			t.Fatal(err)
		}
		until(loop, time.Hour, func(s Status) bool { return s.Point != nil && s.Point.(at).N == 3 })
		synctest.Wait()
		left := map[string]bool{"3d": true, "4e": true, "2f": true}
		for _, a := range applied {
			if !left[a] {
				t.Errorf("%s was applied", a)
			}
			delete(left, a)
		}
		if memo := target.Snapshot().Memos["loop"]; len(left) > 0 || memo.Skip != 0 {
			t.Errorf("%v were not applied, and the memo says to skip %d", left, memo.Skip)
		}
		factory.Close(t.Context())
	})
}
