package budget

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestBoundedBudgetIsNeverExceeded(t *testing.T) {
	t.Parallel()
	const size = 1000
	b := New(size)
	var inFlight atomic.Int64
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 500 {
				n := 1 + random.Int64N(400)
				if err := b.Acquire(t.Context(), n); err != nil {
					t.Error(err)
				}
				if now := inFlight.Add(n); now > size {
					t.Errorf("%d bytes are in flight, the budget is %d", now, size)
				}
				inFlight.Add(-n)
				b.Release(n)
			}
		})
	}
	all.Wait()
	if used, peak, _ := b.Usage(); used != 0 || peak > size {
		t.Errorf("used %d, peak %d", used, peak)
	}
}

func TestRequestLargerThanTheBudgetPassesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(10)
		if !b.TryAcquire(3) {
			t.Fatal("an empty budget refuses")
		}
		passed := make(chan struct{})
		go func() {
			if err := b.Acquire(t.Context(), 100); err != nil {
				t.Error(err)
			}
			close(passed)
		}()
		synctest.Wait()
		if b.TryAcquire(1) {
			t.Error("a small request overtook the large one: it could starve")
		}
		b.Release(3)
		<-passed
		b.Release(100)
	})
}

func TestWaiterThatGivesUpLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(10)
		b.TryAcquire(10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.Acquire(ctx, 5); err == nil {
			t.Fatal("acquired what was not there")
		}
		b.Release(10)
		if used, _, _ := b.Usage(); used != 0 {
			t.Errorf("%d bytes are still taken", used)
		}
		if !b.TryAcquire(10) {
			t.Error("the budget does not serve any more")
		}
	})
}
