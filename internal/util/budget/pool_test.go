package budget

import (
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var seedFlag = flag.Uint64("seed", 0, "replay a randomised test with this seed")

// seeds calls f with many seeds, or with the one that was given.
func seeds(t *testing.T, reduced, full int, f func(t *testing.T, random *rand.Rand)) {
	t.Helper()
	n, base := reduced, uint64(time.Now().UnixNano())
	if os.Getenv("TAILRACE_SOAK") != "" {
		n = full
	}
	if *seedFlag != 0 {
		n, base = 1, *seedFlag
	}
	for i := range uint64(n) {
		f(t, rand.New(rand.NewPCG(base+i, 1)))
		if t.Failed() {
			t.Fatalf("replay with -seed %d", base+i)
		}
	}
}

// TestBoundedPoolEqualsTheModel makes random requests of many budgets, and compares who is served with the
// rules as they are written in the package documentation.
func TestBoundedPoolEqualsTheModel(t *testing.T) {
	t.Parallel()
	seeds(t, 300, 20_000, func(t *testing.T, random *rand.Rand) {
		synctest.Test(t, func(t *testing.T) { (&poolWorld{t: t, random: random}).run() })
	})
}

// poolWorld keeps what each budget holds and waits for, in the plainest way.
type poolWorld struct {
	t      *testing.T
	random *rand.Rand
	pool   *Pool
	size   int64
	all    []*modelBudget
}

type modelBudget struct {
	*Budget
	size, guarantee int64
	held            []int64
	waiting         []*request // in the order in which they came
	oversize        int64      // held by a request that passed alone and was larger than the guarantee
}

type request struct {
	n      int64
	cancel context.CancelFunc
	got    chan bool
}

func (b *modelBudget) used() (n int64) {
	for _, h := range b.held {
		n += h
	}
	return n
}

func (w *poolWorld) run() {
	w.size = 1 + w.random.Int64N(2000)
	w.pool = NewPool(w.size)
	for range 1 + w.random.IntN(9) {
		w.join()
	}
	for range 200 {
		b := w.all[w.random.IntN(len(w.all))]
		switch k := w.random.IntN(11); {
		case k < 5:
			w.acquire(b, 1+w.random.Int64N([]int64{50, w.size, 2 * w.size}[w.random.IntN(3)]))
		case k < 8 && len(b.held) > 0:
			i := w.random.IntN(len(b.held))
			n := b.held[i]
			b.held = append(b.held[:i], b.held[i+1:]...)
			if len(b.held) == 0 {
				b.oversize = 0
			}
			b.Release(n)
		case k == 8 && len(b.waiting) > 0:
			b.waiting[w.random.IntN(len(b.waiting))].cancel()
		case k == 9:
			w.join()
		case k == 10 && len(w.all) > 1 && len(b.held)+len(b.waiting) == 0:
			b.Leave()
			w.all = slices.DeleteFunc(w.all, func(o *modelBudget) bool { return o == b })
		}
		w.settle()
	}
	for _, b := range w.all {
		for _, r := range b.waiting {
			r.cancel()
		}
	}
	w.settle()
	for _, b := range w.all {
		b.Release(b.used())
		b.Leave()
		b.Leave()
	}
	if used, _ := w.pool.Usage(); used != 0 || w.pool.lent != 0 || w.pool.guaranteed != 0 || len(w.pool.queue) != 0 {
		w.t.Errorf("after all was given back the pool holds %d, lent %d, guaranteed %d, %d wait", used, w.pool.lent, w.pool.guaranteed, len(w.pool.queue))
	}
}

func (w *poolWorld) join() {
	b := &modelBudget{size: 1 + w.random.Int64N(w.size)}
	b.guarantee = w.random.Int64N(b.size + 1)
	b.Budget = w.pool.Join(b.size, b.guarantee)
	w.all = append(w.all, b)
}

func (w *poolWorld) acquire(b *modelBudget, n int64) {
	free := len(b.waiting) == 0 && w.passes(b, n) && b.used()+n <= b.size && (b.used() > 0 || n <= b.guarantee || w.mayBorrow(b, n))
	if got := b.TryAcquire(n); got != free {
		w.t.Fatalf("TryAcquire(%d) of a budget that holds %d of %d: got %v", n, b.used(), b.size, got)
	} else if got {
		b.held = append(b.held, n)
		return
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	r := &request{n: n, cancel: cancel, got: make(chan bool, 1)}
	b.waiting = append(b.waiting, r)
	go func() { r.got <- b.Acquire(ctx, n) == nil }()
}

// passes is the rule.
func (w *poolWorld) passes(b *modelBudget, n int64) bool {
	used := b.used()
	return used == 0 || used+n <= b.guarantee || used+n <= b.size && w.mayBorrow(b, n)
}

func (w *poolWorld) mayBorrow(b *modelBudget, n int64) bool {
	lent := int64(0)
	for _, o := range w.all {
		used := o.used()
		if o == b {
			used += n
		}
		lent += max(0, used-o.guarantee)
	}
	return int64(min(len(w.all), 8))*max(0, b.used()+n-b.guarantee) <= w.size/2-lent
}

// settle takes note of who was served, and checks that it was right, and that nobody waits who need not.
func (w *poolWorld) settle() {
	synctest.Wait()
	served := make([][]int64, len(w.all))
	for i, b := range w.all {
		rest := b.waiting[:0:0]
		for _, r := range b.waiting {
			select {
			case got := <-r.got:
				if got && len(rest) > 0 {
					w.t.Errorf("a request overtook another one of its budget")
				}
				if got {
					served[i] = append(served[i], r.n)
				}
			default:
				rest = append(rest, r)
			}
		}
		b.waiting = rest
	}
	if !w.explain(served) {
		w.t.Errorf("no order in which %v pass one after the other", served)
	}
	var held, alone, guaranteed int64
	for _, b := range w.all {
		held, alone, guaranteed = held+b.used(), alone+b.oversize, guaranteed+b.guarantee
		if used, _, _ := b.Usage(); used != b.used() {
			w.t.Errorf("a budget says that it holds %d, it holds %d", used, b.used())
		}
		if len(b.waiting) > 0 && w.passes(b, b.waiting[0].n) {
			w.t.Errorf("a request for %d waits although the budget holds %d of %d (guaranteed %d)", b.waiting[0].n, b.used(), b.size, b.guarantee)
		}
	}
	if most := max(w.size, w.size/2+guaranteed) + alone; held > most {
		w.t.Errorf("BOUNDED: %d bytes are held, the most is %d", held, most)
	}
}

// explain finds an order in which the requests that were served could pass, those of one budget in their own
// order, and takes note of them.
func (w *poolWorld) explain(served [][]int64) bool {
	all := true
	for i, b := range w.all {
		if len(served[i]) == 0 {
			continue
		}
		all = false
		n := served[i][0]
		if !w.passes(b, n) {
			continue
		}
		oversize := b.oversize
		if b.used() == 0 && n > b.guarantee {
			b.oversize = n
		}
		b.held, served[i] = append(b.held, n), served[i][1:]
		if w.explain(served) {
			return true
		}
		b.held, b.oversize = b.held[:len(b.held)-1], oversize
		served[i] = append([]int64{n}, served[i]...)
	}
	return all
}

// TestBoundedPoolOfManyBudgets has a thousand budgets borrow what they can: together they hold no more
// than the pool has.
func TestBoundedPoolOfManyBudgets(t *testing.T) {
	t.Parallel()
	const size, n = 256 << 20, 1000
	pool := NewPool(size)
	for range n {
		b := pool.Join(10<<20, 64<<10)
		for b.TryAcquire(16 << 10) {
		}
		if b.Used() < 64<<10 {
			t.Errorf("ISOLATED: a budget has %d bytes of the 64 KiB that are its own", b.Used())
		}
	}
	if used, peak := pool.Usage(); used > size || peak > size {
		t.Errorf("BOUNDED: %d bytes are held of %d", used, size)
	}
}

// TestIsolatedFromBudgetsThatNeverRelease shows that nobody waits for others: with any number of budgets
// that keep what they have got hold of, one that releases its own gets all that it asks for.
func TestIsolatedFromBudgetsThatNeverRelease(t *testing.T) {
	t.Parallel()
	seeds(t, 30, 3000, func(t *testing.T, random *rand.Rand) {
		synctest.Test(t, func(t *testing.T) {
			pool := NewPool(1000)
			stop, end := context.WithCancel(t.Context())
			var stuck sync.WaitGroup
			for range random.IntN(20) {
				b := pool.Join(1+random.Int64N(500), random.Int64N(40))
				n := 1 + random.Int64N(600)
				stuck.Go(func() {
					for b.Acquire(stop, n) == nil {
					}
				})
			}
			synctest.Wait()
			live := pool.Join(1+random.Int64N(500), random.Int64N(40))
			landing := make(chan int64, 3) // several are in flight, and land one after the other
			var sink sync.WaitGroup
			sink.Go(func() {
				for n := range landing {
					live.Release(n)
				}
			})
			for range 100 {
				n := 1 + random.Int64N(1200)
				if err := live.Acquire(t.Context(), n); err != nil {
					t.Error(err)
				}
				landing <- n
			}
			close(landing)
			sink.Wait()
			end()
			stuck.Wait()
		})
	})
}

// TestIsolatedStuckBudgetsLeaveAShare shows that those who are stuck leave something beyond the guarantee
// to the next one.
func TestIsolatedStuckBudgetsLeaveAShare(t *testing.T) {
	t.Parallel()
	pool := NewPool(256 << 20)
	most := make([]int64, 0, 40)
	for range cap(most) {
		b := pool.Join(10<<20, 64<<10)
		for b.TryAcquire(4 << 10) {
		}
		most = append(most, b.Used())
	}
	if most[0] < 10<<20-4<<10 || most[len(most)-1] < 128<<10 {
		t.Errorf("of 40 budgets that are stuck the first came to %d bytes and the last to %d", most[0], most[len(most)-1])
	}
}

// TestFewBudgetsBorrowMore is the table of docs/embedding.md.
func TestFewBudgetsBorrowMore(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct{ loops, total, want int64 }{
		{1, 10 * mib, 25 * mib / 10},
		{2, 10 * mib, 17 * mib / 10},
		{4, 10 * mib, mib},
		{8, 10 * mib, 6 * mib / 10},
		{100, 10 * mib, 6 * mib / 10},
		{1, 40 * mib, 10 * mib},
		{2, 40 * mib, 67 * mib / 10},
		{4, 40 * mib, 4 * mib},
		{8, 40 * mib, 22 * mib / 10},
		{1, 256 * mib, 64 * mib},
		{2, 256 * mib, 42 * mib},
		{4, 256 * mib, 25 * mib},
		{8, 256 * mib, 14 * mib},
	} {
		pool := NewPool(c.total)
		one := pool.Join(c.total, 64<<10)
		for range c.loops - 1 {
			pool.Join(c.total, 64<<10)
		}
		for one.TryAcquire(1 << 10) {
		}
		if got := one.Used(); got < c.want*95/100 || got > c.want*115/100 {
			t.Errorf("one of %d loops comes to %.2f of %d MiB, want %.2f", c.loops, float64(got)/mib, c.total/mib, float64(c.want)/mib)
		}
	}
}
