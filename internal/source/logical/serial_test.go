package logical

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"
	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seedFlag = flag.Uint64("seed", 0, "replay a randomised test with this seed")

// seeds calls f with many seeds, or with the one that was given.
func seeds(t *testing.T, reduced, full int, f func(t *testing.T, seed uint64)) {
	t.Helper()
	if *seedFlag != 0 {
		f(t, *seedFlag)
		return
	}
	n := reduced
	if os.Getenv("TAILRACE_SOAK") != "" {
		n = full
	}
	base := uint64(time.Now().UnixNano())
	for i := range uint64(n) {
		f(t, base+i)
		if t.Failed() {
			t.Fatalf("replay with -seed %d", base+i)
		}
	}
}

// TestAtomicPrefixOrderExactlyOnceInSerialMode lets everything go wrong that can, with restarts from
// stored state, and compares every commit of the target with the source: it must carry exactly the
// mutations of the transactions after the last stored point up to the new one, in their order. That is
// ATOMIC, PREFIX, ORDER and exactly once in one.
func TestAtomicPrefixOrderExactlyOnceInSerialMode(t *testing.T) {
	t.Parallel()
	seeds(t, 150, 20_000, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { serialUnderChaos(t, seed) })
	})
}

func serialUnderChaos(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	source := &tape{txs: history(random, 20+random.IntN(100)), batch: 1 + random.IntN(8)}
	prob := float64(random.IntN(20)) / 100
	// Each site is asked by one goroutine.
	flaky := map[string]*rand.Rand{"read": rand.New(rand.NewPCG(seed, 2)), "process": rand.New(rand.NewPCG(seed, 3))}
	source.fail = func(site string) error {
		if flaky[site].Float64() < prob/4 {
			return errors.New("injected")
		}
		return nil
	}
	judge := &judge{t: t, source: source.txs}
	target := memory.Open(memory.Config{
		Hook: memory.Chaos(seed, prob, 40*time.Second), Observe: judge.commit,
	})
	config := logical.Config{
		BytesInFlight: []int64{logical.MinBytesInFlight, 10 << 20}[random.IntN(2)],
		RetryDelay:    10 * time.Millisecond, LeaseTTL: time.Minute,
	}
	for restarts := random.IntN(4); ; restarts-- {
		factory, err := NewFactory(FactoryConfig{Holder: "one", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: source, Target: target, Config: config})
		if err != nil {
			t.Fatal(err)
		}
		wait := time.Hour * 24
		if restarts > 0 {
			wait = time.Duration(random.Int64N(int64(2 * time.Minute)))
		}
		until(loop, wait, func(s Status) bool { return s.Point != nil && s.Point.(at).N == len(source.txs) })
		grace, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(time.Minute))))
		factory.Close(grace)
		cancel()
		if restarts <= 0 {
			break
		}
	}
	if judge.point != len(source.txs) {
		t.Errorf("the target is at transaction %d of %d", judge.point, len(source.txs))
	}
	if err := target.Close(); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

// until waits until the loop's status satisfies holds, for at most so long.
func until(l *Loop, within time.Duration, holds func(Status) bool) {
	limit := time.NewTimer(within)
	defer limit.Stop()
	for {
		changed := l.Changed()
		if holds(l.Status()) {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			return
		}
	}
}

// judge compares what is committed with the source. It knows nothing of the loop.
type judge struct {
	t      *testing.T
	source [][]logical.Mutation
	point  int // the last stored one
}

func (j *judge) commit(c memory.Commit) {
	if c.Memo == nil {
		if len(c.Mutations) > 0 {
			j.t.Errorf("PREFIX: %d mutations were committed without a consistent point", len(c.Mutations))
		}
		return
	}
	var to at
	if err := json.Unmarshal(c.Memo.Point, &to); err != nil {
		j.t.Errorf("the memo holds %s: %v", c.Memo.Point, err)
		return
	}
	if to.N < j.point {
		j.t.Errorf("PREFIX: the consistent point moved back from %d to %d", j.point, to.N)
		return
	}
	var want []logical.Mutation
	for _, tx := range j.source[j.point:to.N] {
		want = append(want, tx...)
	}
	if got, want := tell(c.Mutations), tell(want); got != want {
		j.t.Errorf("ATOMIC, ORDER: transactions %d to %d were committed as\n%s\nwant\n%s", j.point+1, to.N, got, want)
	}
	j.point = to.N
}

// tell writes mutations down.
func tell(muts []logical.Mutation) string {
	text := ""
	for _, m := range muts {
		text += fmt.Sprintf("%s %s=%s; ", m.Op, m.Values[0], m.Values[1])
	}
	return text
}
