package logical

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// TestIsolatedFromDeadTargetsWithinOneBudget has loops whose target is dead hold on to all that they can
// get of a small budget. Another one arrives all the same, in either mode, with mutations that are larger
// than its own part, and none of them goes beyond the budget.
func TestIsolatedFromDeadTargetsWithinOneBudget(t *testing.T) {
	t.Parallel()
	for _, immediate := range []bool{false, true} {
		seeds(t, 2, 1000, func(t *testing.T, seed uint64) {
			synctest.Test(t, func(t *testing.T) { isolatedInOneBudget(t, seed, immediate) })
		})
	}
}

func isolatedInOneBudget(t *testing.T, seed uint64, immediate bool) {
	random := rand.New(rand.NewPCG(seed, 1))
	target := memory.Open(memory.Config{Hook: deadTarget("alive")})
	const dead = 6
	factory := quietFactory(t, FactoryConfig{
		Target: target, BytesInFlight: 1 << 20,
		Config: logical.Config{ApplyTimeout: 2000 * time.Hour, Immediate: immediate},
	})
	for i := range dead {
		source := &tape{txs: writes(random, 2000), batch: 1 + random.IntN(50)}
		if _, err := factory.Get(t.Context(), Spec{Name: string(rune('a' + i)), Dialect: source}); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	source := &tape{txs: writes(random, 200), batch: 1 + random.IntN(50)}
	for range 5 { // each of these is larger than the loop's own part, and one of them than the budget
		tx := source.txs[random.IntN(len(source.txs))]
		if len(tx) > 0 {
			tx[random.IntN(len(tx))].Values[1] = logical.Text(strings.Repeat("x", []int{100 << 10, 2 << 20}[random.IntN(2)]))
		}
	}
	loop, err := factory.Get(t.Context(), Spec{Name: "alive", Dialect: source})
	if err != nil {
		t.Fatal(err)
	}
	until(loop, 24*time.Hour, func(s Status) bool { return s.Point != nil && s.Point.(at).N == len(source.txs) })
	if point := loop.Status().Point; point == nil || point.(at).N != len(source.txs) {
		now, _, limit := factory.BytesInFlight()
		t.Errorf("ISOLATED: the loop is at %v of %d; %d of %d bytes are held", point, len(source.txs), now, limit)
	}
	if _, peak, limit := factory.BytesInFlight(); peak > limit+3<<20 {
		t.Errorf("BOUNDED: %d bytes were in flight, the limit is %d beside one large mutation", peak, limit)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	factory.Close(ctx)
}
