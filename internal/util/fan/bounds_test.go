package fan

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A watched is a budget that remembers the most that was taken.
type watched struct {
	*budget.Budget
	mu   sync.Mutex
	peak int64
}

func (w *watched) note() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.peak = max(w.peak, w.Used())
}

func (w *watched) TryAcquire(n int64) bool { defer w.note(); return w.Budget.TryAcquire(n) }

func (w *watched) Acquire(ctx context.Context, n int64) error {
	defer w.note()
	return w.Budget.Acquire(ctx, n)
}

func big(id int64, size int) logical.Mutation {
	m := set(id, 0)
	m.Values[2] = logical.Bytes(make([]byte, size))
	return m
}

// TestBoundedByTheBudget sends a transaction that is much larger than the budget, with mutations of
// which one alone is larger, to a target with one slow shard.
func TestBoundedByTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 64 << 10
		budget := &watched{Budget: budget.New(limit)}
		target := memory.Open(memory.Config{Hook: func(_ string, at memory.Site, n uint64) memory.Fault {
			if at == memory.SiteApply && n%7 == 0 {
				return memory.Fault{Stall: time.Second}
			}
			return memory.Fault{}
		}})
		f := fanOn(t, target, Config{Shards: 4, Budget: budget})
		must(t, f.Begin(t.Context(), num(1)))
		for i := range 400 {
			size := 1000
			if i%100 == 50 {
				size = 2 * limit
			}
			must(t, f.Data(t.Context(), []logical.Mutation{big(int64(i), size), big(int64(i+1000), 10)}))
		}
		must(t, f.Commit())
		must(t, f.Drain(t.Context()))
		wantPoint(t, f, 1)
		if n := len(target.Snapshot().Tables["accounts"].Rows); n != 800 {
			t.Errorf("%d rows", n)
		}
		if most := cost(new(big(0, 2*limit))) + 4096; budget.peak > most || budget.Used() != 0 {
			t.Errorf("%d bytes were in flight, %d still are", budget.peak, budget.Used())
		}
	})
}

func TestBoundedCountsTheBookkeeping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 256 << 10
		target := memory.Open(memory.Config{Hook: hookOn(memory.SiteApply, memory.Fault{Stall: time.Hour})})
		f := fanOn(t, target, Config{Shards: 1, Budget: budget.New(limit)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		n := 0
		for ; ; n++ {
			must(t, f.Begin(ctx, num(n+1)))
			if err := f.Data(ctx, []logical.Mutation{set(1, n)}); err != nil {
				break
			}
			must(t, f.Commit())
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		kept := f.progress.Size() + f.shards[0].queued*int(unsafe.Sizeof(item{}))
		if kept > limit {
			t.Errorf("%d bytes of bookkeeping for %d transactions, the budget is %d", kept, n, limit)
		}
	})
}

// TestBoundedWaitIsNotForEver: a fan that fails while the source waits for the budget ends the wait.
func TestBoundedWaitIsNotForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := memory.Open(memory.Config{Hook: hookOn(memory.SiteApply,
			memory.Fault{Stall: time.Minute, Err: classed(logical.ClassFenced)})})
		f := fanOn(t, target, Config{Shards: 1, Budget: budget.New(64 << 10)})
		must(t, f.Begin(t.Context(), num(1)))
		var err error
		for err == nil {
			err = f.Data(t.Context(), []logical.Mutation{big(1, 10_000)})
		}
		if logical.ClassOf(err) != logical.ClassFenced {
			t.Errorf("got %v", err)
		}
	})
}

func TestBudgetIsServedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := budget.New(10)
		must(t, b.Acquire(t.Context(), 8))
		order := make(chan int64, 3)
		for _, n := range []int64{20, 3, 2} { // more than there is, and two that would fit
			go func() {
				if b.Acquire(t.Context(), n) == nil {
					order <- n
				}
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Acquire(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		b.Release(8)
		if n := <-order; n != 20 {
			t.Errorf("%d overtook", n)
		}
		synctest.Wait()
		if len(order) > 0 {
			t.Error("something passes beside what is larger than the budget")
		}
		b.Release(20)
		<-order
		<-order
		if b.Used() != 5 {
			t.Errorf("%d bytes are taken, want 5", b.Used())
		}
	})
}

// TestOrderAtBarriers: what precedes a truncate or a key change is in the target before it, what
// follows is not.
func TestOrderAtBarriers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var commits [][]logical.Mutation
		target := memory.Open(memory.Config{Observe: func(c memory.Commit) { commits = append(commits, c.Mutations) }})
		f := fanOn(t, target, Config{Shards: 4})
		rekey := mut(logical.OpRekey, accounts, 100, 7)
		rekey.OldKey = []logical.Value{logical.Int64(1)}
		send(t, f, 1, set(1, 1), set(2, 2), set(3, 3), rekey, set(1, 4),
			logical.Mutation{Op: logical.OpTruncate, Relation: accounts}, set(5, 5), set(6, 6))
		must(t, f.Drain(t.Context()))
		wantColumn(t, target, "balance", map[int64]int64{5: 5, 6: 6})
		before := map[int64]bool{}
		barriers := 0
		for _, muts := range commits {
			for _, m := range muts {
				switch {
				case m.Op == logical.OpRekey && (len(muts) > 1 || len(before) != 3):
					t.Errorf("key change after %v, in a batch of %d", before, len(muts))
				case m.Op == logical.OpTruncate && (len(muts) > 1 || len(before) != 4):
					t.Errorf("truncate after %v, in a batch of %d", before, len(muts))
				}
				if m.Op.Barrier() {
					barriers++
				}
				if m.Values != nil {
					before[m.Values[0].Int64()] = true
				}
			}
		}
		if barriers != 2 {
			t.Errorf("%d barriers", barriers)
		}
	})
}

// TestOrderOfRoutes: mutations of different keys that have one route stay in order.
func TestOrderOfRoutes(t *testing.T) {
	t.Parallel()
	target := memory.Open(memory.Config{})
	f := fanOn(t, target, Config{Shards: 8, Raw: true})
	var muts []logical.Mutation
	for i := range 1000 {
		muts = append(muts, logical.Mutation{Op: logical.OpPatch, Relation: points, Route: 7, Raw: []byte{byte(i), byte(i >> 8)}})
	}
	send(t, f, 1, muts...)
	must(t, f.Drain(t.Context()))
	raw := target.Snapshot().Tables["cpu"].Raw
	if len(raw) != len(muts) {
		t.Fatalf("%d lines", len(raw))
	}
	for i, line := range raw {
		if int(line[0])|int(line[1])<<8 != i {
			t.Fatalf("line %d is %v", i, line)
		}
	}
}

func TestTunerScenarios(t *testing.T) {
	t.Parallel()
	// A target that needs so long for each transaction, and for each row.
	run := func(perBatch, perRow time.Duration, batches, most int) int {
		tn := newTuner(0)
		for range batches {
			n := tn.rows(most)
			tn.observe(n, perBatch+time.Duration(n)*perRow, most)
		}
		return tn.settledOn()
	}
	for _, c := range []struct {
		name             string
		perBatch, perRow time.Duration
		least, greatest  int
	}{
		{"a commit is dear", 20 * time.Millisecond, 10 * time.Microsecond, 8192, 8192},
		{"rows are dear", 100 * time.Microsecond, time.Millisecond, leastRows, 512},
		{"a slow link", time.Second, 10 * time.Millisecond, leastRows, 256},
		{"nothing is dear", 0, 0, 8192, 8192},
	} {
		if got := run(c.perBatch, c.perRow, 500, 8192); got < c.least || got > c.greatest {
			t.Errorf("%s: %d rows a batch, want %d to %d", c.name, got, c.least, c.greatest)
		}
	}
	if got := run(time.Second, 0, 500, 100); got > 100 {
		t.Errorf("%d rows a batch, at most 100 are allowed", got)
	}
}

func TestBatchesGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := memory.Open(memory.Config{Hook: func(_ string, at memory.Site, _ uint64) memory.Fault {
			if at == memory.SiteCommit {
				return memory.Fault{Stall: 10 * time.Millisecond}
			}
			return memory.Fault{}
		}})
		most := 0
		f := fanOn(t, target, Config{
			Shards: 1, MaxRows: 1000, MaxBytes: 1 << 20,
			OnLanded: func(l Landed) { most = max(most, l.Mutations) },
		})
		must(t, f.Begin(t.Context(), num(1)))
		for i := range 20_000 {
			must(t, f.Data(t.Context(), []logical.Mutation{set(int64(i), i)}))
		}
		must(t, f.Commit())
		must(t, f.Drain(t.Context()))
		if most != 1000 {
			t.Errorf("the largest batch had %d mutations", most)
		}
	})
}
