package server

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"
)

func TestWhoHasBegunGoesBeforeWhoHasNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(100*minLease, 0, time.Minute)
		lease := func(n int64) *lease {
			l, err := b.lease(t.Context(), n*minLease)
			if err != nil {
				t.Error(err)
			}
			return l
		}
		first, second := lease(50), lease(50)
		var order []string
		var mu sync.Mutex
		var all sync.WaitGroup
		wait := func(name string, f func()) {
			all.Go(func() {
				f()
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			})
			synctest.Wait()
		}
		wait("fresh", func() { lease(60) })
		wait("fresh too", func() { lease(5) }) // stands behind
		wait("begun", func() {
			if err := first.reserve(80 * minLease); err != nil {
				t.Error(err)
			}
		})
		if len(order) != 0 {
			t.Errorf("served too early: %v", order)
		}
		second.release()
		synctest.Wait()
		if len(order) != 1 || order[0] != "begun" || b.used() != 80*minLease {
			t.Errorf("order %v, %d used", order, b.used())
		}
		first.release()
		all.Wait()
		if b.used() != 65*minLease {
			t.Errorf("%d used", b.used())
		}
	})
}

// All have begun, and all need more than there is: one after the other gets it.
func TestBodiesDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(200, 100, time.Minute)
		began := time.Now()
		var all sync.WaitGroup
		for range 10 {
			l := &lease{ctx: t.Context(), budget: b}
			if err := b.take(l, 10); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				defer l.release()
				for range 9 {
					if err := l.reserve(10); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > time.Second || b.used() != 0 || b.apart != 100 || b.elder != nil {
			t.Errorf("it took %s; %d used, %d apart", took, b.used(), b.apart)
		}
	})
}

func TestWaitForMemoryIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const all = 10 * minLease
		b := newBudget(all, 0, 5*time.Second)
		if _, err := b.lease(t.Context(), all+1); !errors.Is(err, errTooMuch) {
			t.Errorf("more than all: %v", err)
		}
		l, err := b.lease(t.Context(), 6*minLease)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.reserve(all + 1); !errors.Is(err, errTooMuch) {
			t.Errorf("more than all, later: %v", err)
		}
		began := time.Now()
		small := make(chan error, 1)
		go func() {
			time.Sleep(time.Second)
			_, err := b.lease(t.Context(), 3*minLease)
			small <- err
		}()
		if _, err := b.lease(t.Context(), 6*minLease); !errors.Is(err, errNoMemory) || time.Since(began) != 5*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		if err := <-small; err != nil || time.Since(began) != 5*time.Second {
			t.Errorf("who stood behind got %v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.lease(ctx, 6*minLease); !errors.Is(err, errNoMemory) {
			t.Errorf("a client that has gone: %v", err)
		}
	})
}

func TestBudgetIsWholeAgainInTheEnd(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(1<<20, 256<<10, 10*time.Millisecond)
		var all sync.WaitGroup
		for i := range 50 {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			all.Go(func() {
				for range soak(40, 2000) {
					l, err := b.lease(t.Context(), rnd.Int64N(2<<20))
					if err != nil {
						continue
					}
					for range rnd.IntN(5) {
						if l.reserve(rnd.IntN(300<<10)) != nil {
							break
						}
						time.Sleep(time.Duration(rnd.IntN(int(3 * time.Millisecond))))
					}
					if used := b.used(); used > 1<<20 || used < 0 {
						t.Errorf("seed %d: %d used", seed, used)
					}
					l.release()
				}
			})
		}
		all.Wait()
		if b.used() != 0 || b.apart != 256<<10 || b.elder != nil || b.begun.Len()+b.fresh.Len() != 0 {
			t.Errorf("seed %d: %d bytes are left, %d wait", seed, b.used(), b.begun.Len()+b.fresh.Len())
		}
	})
}
