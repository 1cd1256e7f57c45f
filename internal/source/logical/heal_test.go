package logical

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// TestNothingSilentErrorsEndWhenTheyAreMended: the last error is shown while it lasts, also of a loop whose source has
// nothing more to say, so that no other success comes.
func TestNothingSilentErrorsEndWhenTheyAreMended(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		site   memory.Site
		well   uint64 // calls that are in order
		config logical.Config
		source *replayable
	}{
		"the memo of a fan":      {memory.SiteSaveMemo, 1, logical.Config{Immediate: true}, newReplayable(false, "1 good", "2 good")},
		"the data":               {memory.SiteApply, 0, logical.Config{}, newReplayable(false, "1 good", "2 good")},
		"a take-over, and quiet": {memory.SiteLoadMemo, 0, logical.Config{}, newReplayable(false)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mended atomic.Bool
				target := memory.Open(memory.Config{Hook: func(_ string, at memory.Site, n uint64) memory.Fault {
					if at == c.site && n > c.well && !mended.Load() {
						return memory.Fault{Err: &logical.Error{Err: errors.New("it is broken"), Class: logical.ClassRetry}}
					}
					return memory.Fault{}
				}})
				factory := quietFactory(t, FactoryConfig{Target: target})
				loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: c.source, Config: c.config})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if s := loop.Status(); s.State != StateRetrying || s.Err == nil {
					t.Errorf("broken, it is %s: %v", s.State, s.Err)
				}
				mended.Store(true)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				if s := loop.Status(); s.State != StateRunning || s.Err != nil || s.Point.(at).N != len(c.source.txs) {
					t.Errorf("mended, it is %s at %v: %v", s.State, s.Point, s.Err)
				}
				loop.Stop(t.Context())
			})
		})
	}
}
