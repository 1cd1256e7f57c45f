package logical

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// TestAtomicAfterAFanThatWasCutShortWhileTheSourceIsSilent has a fan leave the target ahead of the
// consistent point, and the next run begin before the source can tell where its end is.
func TestAtomicAfterAFanThatWasCutShortWhileTheSourceIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		source := &tape{txs: writes(rand.New(rand.NewPCG(3, 3)), 100), when: func(n int) time.Time { return begun.Add(time.Duration(n) * time.Second) }}
		stuck, furthest := true, 0
		target := memory.Open(memory.Config{
			Hook: func(_ string, at memory.Site, n uint64) memory.Fault {
				if stuck && at == memory.SiteApply && n == 20 {
					return memory.Fault{Stall: 100 * time.Hour}
				}
				return memory.Fault{}
			},
			Observe: func(c memory.Commit) {
				for _, m := range c.Mutations {
					n, _, _ := strings.Cut(m.Values[1].Text(), "/")
					if n, err := strconv.Atoi(n); err == nil {
						furthest = max(furthest, n)
					}
				}
				if c.Memo == nil || c.Memo.ConsistentSince.IsZero() {
					return
				}
				var point at
				if err := json.Unmarshal(c.Memo.Point, &point); err != nil || point.N < furthest {
					t.Errorf("ATOMIC: the memo says that the target is consistent at %d, but %d is in it (%v)", point.N, furthest, err)
				}
			},
		})
		config := logical.Config{Immediate: true, FanShards: 8, ApplyTimeout: 200 * time.Hour}
		run := func(config logical.Config, wait time.Duration) *Loop {
			factory := quietFactory(t, FactoryConfig{Target: target})
			loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: source, Config: config})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(wait)
			now, cancel := context.WithCancel(t.Context())
			cancel()
			factory.Close(now)
			return loop
		}
		if loop := run(config, 80*time.Second); loop.Status().Point.(at).N >= furthest {
			t.Fatalf("the fan was to leave the target ahead; it is at %v of %d", loop.Status().Point, furthest)
		}
		stuck = false
		source.answers = time.Now().Add(time.Hour)
		config = logical.Config{BackfillWindow: time.Minute}
		if loop := run(config, 10*time.Minute); loop.Status().Mode.Fan() != true {
			t.Error("serial mode goes on although nobody knows how far the fan had come")
		}
		if loop := run(config, 2*time.Hour); loop.Status().Mode.Fan() || loop.Status().Point.(at).N != 100 {
			t.Errorf("the source has answered, and the loop is at %+v", loop.Status())
		}
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	})
}
