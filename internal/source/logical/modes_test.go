package logical

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// TestPromisesAcrossModes runs a stale backlog and then a live feed through loops that change their
// mode, with chaos and restarts from stored state, and judges every commit of the target.
func TestPromisesAcrossModes(t *testing.T) {
	t.Parallel()
	switched := 0
	seeds(t, 150, 20_000, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { switched += acrossModes(t, seed) })
	})
	if switched == 0 && *seedFlag == 0 {
		t.Error("no run ever changed its mode")
	}
}

func acrossModes(t *testing.T, seed uint64) (switched int) {
	random := rand.New(rand.NewPCG(seed, 1))
	source := &tape{txs: history(random, 50+random.IntN(200)), batch: 1 + random.IntN(8)}
	// The backlog is an hour old; then a transaction comes every few seconds.
	begun, backlog, gap := time.Now(), random.IntN(len(source.txs)), time.Duration(1+random.IntN(5000))*time.Millisecond
	source.when = func(n int) time.Time {
		if n <= backlog {
			return begun.Add(-time.Hour + time.Duration(n)*time.Millisecond)
		}
		return begun.Add(time.Duration(n-backlog) * gap)
	}
	prob := float64(random.IntN(20)) / 100
	flaky := map[string]*rand.Rand{"read": rand.New(rand.NewPCG(seed, 2)), "process": rand.New(rand.NewPCG(seed, 3))}
	source.fail = func(site string) error {
		if flaky[site].Float64() < prob/4 {
			return errors.New("injected")
		}
		return nil
	}
	j := newModesJudge(t, source.txs)
	target := memory.Open(memory.Config{Hook: memory.Chaos(seed, prob, 40*time.Second), Observe: j.commit})
	config := logical.Config{
		BytesInFlight:  []int64{logical.MinBytesInFlight, 10 << 20}[random.IntN(2)],
		BackfillWindow: time.Minute, Immediate: random.IntN(10) == 0, FanShards: 1 + random.IntN(6),
		RetryDelay: 10 * time.Millisecond, LeaseTTL: time.Minute,
	}
	for restarts := random.IntN(4); ; restarts-- {
		wait := 3 * time.Hour
		if restarts > 0 {
			wait = time.Duration(random.Int64N(int64(5 * time.Minute)))
		}
		runFor(t, source, target, config, wait, time.Duration(random.Int64N(int64(time.Minute))))
		if restarts <= 0 {
			break
		}
	}
	j.end()
	if err := target.Close(); err != nil {
		t.Error(err)
	}
	synctest.Wait()
	return j.switched
}

// runFor runs a loop until its source is at its end, for at most so long.
func runFor(t *testing.T, source *tape, target *memory.Target, config logical.Config, wait, grace time.Duration) {
	t.Helper()
	factory, err := NewFactory(FactoryConfig{Holder: "one", Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: source, Target: target, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	until(loop, wait, func(s Status) bool { return s.Point != nil && s.Point.(at).N == len(source.txs) })
	if s := loop.Status(); t.Failed() || wait >= 3*time.Hour && s.Point.(at).N != len(source.txs) {
		t.Logf("status %+v", s)
	}
	ctx, cancel := context.WithTimeout(t.Context(), grace)
	defer cancel()
	factory.Close(ctx)
}

// A place is where a mutation stands in the source.
type place struct{ tx, i int }

func (p place) before(q place) bool { return p.tx < q.tx || p.tx == q.tx && p.i < q.i }

// modesJudge judges commits by what the source said. It knows nothing of the loop, and applies one
// mutation at a time.
type modesJudge struct {
	t        *testing.T
	source   [][]logical.Mutation
	places   map[string]place // by the text that a mutation carries
	applied  map[int64]place  // by key: the mutation that was applied last
	point    int
	mode     string
	switched int
}

func newModesJudge(t *testing.T, source [][]logical.Mutation) *modesJudge {
	j := &modesJudge{t: t, source: source, places: map[string]place{}, applied: map[int64]place{}}
	for n, tx := range source {
		for i, m := range tx {
			j.places[m.Values[1].Text()] = place{n + 1, i}
		}
	}
	return j
}

func (j *modesJudge) commit(c memory.Commit) {
	if c.Memo == nil || len(c.Mutations) > 0 && c.Memo.Mode != "serial" {
		j.order(c.Mutations)
	}
	if c.Memo == nil {
		return
	}
	var to at
	if err := json.Unmarshal(c.Memo.Point, &to); err != nil {
		j.t.Errorf("the memo holds %s: %v", c.Memo.Point, err)
		return
	}
	if to.N < j.point {
		j.t.Errorf("PREFIX: the consistent point moved back from %d to %d", j.point, to.N)
	}
	if c.Memo.Mode == "serial" {
		j.atomic(c.Mutations, to.N)
		j.order(c.Mutations)
	}
	if j.mode != "" && c.Memo.Mode != j.mode {
		j.switched++
	}
	j.point, j.mode = to.N, c.Memo.Mode
	j.prefix()
}

// order checks that no key goes back further than the consistent point.
func (j *modesJudge) order(muts []logical.Mutation) {
	for _, m := range muts {
		key, at := m.Values[0].Int64(), j.places[m.Values[1].Text()]
		last := j.applied[key]
		if at.before(last) && at.tx <= j.point {
			j.t.Errorf("ORDER: key %d went back from %v to %v, which is not after the consistent point %d", key, last, at, j.point)
		}
		j.applied[key] = at
	}
}

// prefix checks that of every key the last mutation up to the consistent point has been applied.
func (j *modesJudge) prefix() {
	want := map[int64]place{}
	for n, tx := range j.source[:j.point] {
		for i, m := range tx {
			want[m.Values[0].Int64()] = place{n + 1, i}
		}
	}
	for key, p := range want {
		if j.applied[key].before(p) {
			j.t.Errorf("PREFIX: at point %d, key %d is at %v and not at %v", j.point, key, j.applied[key], p)
		}
	}
}

// atomic checks that a serial commit brings the target from one state of the source to another.
func (j *modesJudge) atomic(muts []logical.Mutation, to int) {
	var want []logical.Mutation
	for _, tx := range j.source[j.point:max(to, j.point)] {
		want = append(want, tx...)
	}
	if got, want := tell(muts), tell(want); got != want {
		j.t.Errorf("ATOMIC: transactions %d to %d were committed as\n%s\nwant\n%s", j.point+1, to, got, want)
	}
	for key, p := range j.applied {
		if p.tx > j.point {
			j.t.Errorf("DRAIN: serial mode goes on from %d, but key %d is at %v already", j.point, key, p)
		}
	}
}

// end checks that the target equals the source, and that the memo says so.
func (j *modesJudge) end() {
	if j.point != len(j.source) {
		j.t.Errorf("CONVERGE: the target is at transaction %d of %d", j.point, len(j.source))
	}
}
