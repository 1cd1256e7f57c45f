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

// TestBoundedWaitsEndWithAKick: whoever finds that the target is back ("flush now", a probe) need not wait for the
// longest delay, in either mode and at each kind of call; also when the kick comes during a try that still fails.
func TestBoundedWaitsEndWithAKick(t *testing.T) {
	t.Parallel()
	for _, site := range []memory.Site{memory.SiteTake, memory.SiteSaveMemo, memory.SiteBegin, memory.SiteApply, memory.SiteCommit} {
		for _, during := range []bool{false, true} {
			bothModes(t, func(t *testing.T, config logical.Config) {
				var dead atomic.Bool
				var loop atomic.Pointer[Loop]
				dead.Store(true)
				target := memory.Open(memory.Config{Hook: func(_ string, at memory.Site, _ uint64) memory.Fault {
					if !dead.Load() || at != site {
						return memory.Fault{}
					}
					if l := loop.Load(); during && l != nil {
						dead.Store(false)
						l.Kick()
					}
					return memory.Fault{Err: &logical.Error{Err: errors.New("dead"), Class: logical.ClassRetry}}
				}})
				factory := quietFactory(t, FactoryConfig{Target: target})
				config.RetryDelay, config.RetryMax = 10*time.Minute, 10*time.Minute
				made, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: newReplayable(false, "1 a"), Config: config})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				loop.Store(made)
				if during {
					until(made, 24*time.Hour, func(Status) bool { return !dead.Load() })
				} else {
					time.Sleep(time.Second)
					synctest.Wait()
					dead.Store(false)
					made.Kick()
				}
				begun := time.Now()
				until(made, 24*time.Hour, func(s Status) bool { return s.Point != nil && s.Point.(at).N == 1 })
				if took := time.Since(begun); took > 10*time.Second {
					t.Errorf("%v: it took %s after the kick", site, took)
				}
				factory.Close(t.Context())
			})
		}
	}
}
