package fan

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/logical"
)

// hookOn returns a hook that lets the first calls at a site go wrong as listed.
func hookOn(at memory.Site, faults ...memory.Fault) memory.Hook {
	return func(_ string, s memory.Site, n uint64) memory.Fault {
		if s == at && n <= uint64(len(faults)) {
			return faults[n-1]
		}
		return memory.Fault{}
	}
}

func classed(class logical.Class) error {
	return &logical.Error{Err: errors.New("injected"), Class: class}
}

// TestFencedUnknownCommitIsSettled: a commit whose outcome is not known takes effect half a minute
// later. What comes after it for the same key must not be overwritten.
func TestFencedUnknownCommitIsSettled(t *testing.T) {
	t.Parallel()
	for name, class := range map[string]logical.Class{"said": logical.ClassUnknownCommit, "not said": logical.ClassRetry} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				target := memory.Open(memory.Config{
					Record: true,
					Hook:   hookOn(memory.SiteCommit, memory.Fault{Err: classed(class), Late: 30 * time.Second}),
				})
				f := fanOn(t, target, Config{})
				send(t, f, 1, set(1, 1))
				synctest.Wait()
				send(t, f, 2, set(1, 2))
				must(t, f.Drain(t.Context()))
				wantColumn(t, target, "balance", map[int64]int64{1: 2})
				m := set(1, 0)
				var seen []int64
				for _, h := range target.History(&m) {
					seen = append(seen, h.Values[1].Int64())
				}
				if fmt.Sprint(seen) != "[1 1 2]" {
					t.Errorf("the row went through %v", seen)
				}
				must(t, target.Close())
			})
		})
	}
}

func TestRetriesFromMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var faults []memory.Fault
		for range 20 {
			faults = append(faults, memory.Fault{Err: classed(logical.ClassRetry)}, memory.Fault{Err: classed(logical.ClassConflict), After: true})
		}
		target := memory.Open(memory.Config{Hook: hookOn(memory.SiteApply, faults...)})
		var mu sync.Mutex
		failures := map[logical.Class]int{}
		f := fanOn(t, target, Config{Shards: 1, OnFailure: func(e Failure) {
			mu.Lock()
			defer mu.Unlock()
			failures[e.Class]++
		}})
		send(t, f, 1, set(1, 1))
		must(t, f.Drain(t.Context()))
		wantColumn(t, target, "balance", map[int64]int64{1: 1})
		if failures[logical.ClassRetry] != 20 || failures[logical.ClassConflict] != 20 {
			t.Errorf("told of %v", failures)
		}
	})
}

func TestConflictsAreTriedAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := memory.Fault{Err: classed(logical.ClassConflict)}
		f := fanOn(t, memory.Open(memory.Config{Hook: hookOn(memory.SiteApply, lost, lost, lost)}), Config{})
		start := time.Now()
		send(t, f, 1, set(1, 1))
		must(t, f.Drain(t.Context()))
		if took := time.Since(start); took != 0 {
			t.Errorf("took %s", took)
		}
	})
}

func TestKickEndsTheDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := memory.Fault{Err: classed(logical.ClassRetry)}
		f := fanOn(t, memory.Open(memory.Config{Hook: hookOn(memory.SiteBegin, down)}),
			Config{Retry: retry.Config{Base: time.Hour, Max: time.Hour, Rand: func() float64 { return 0.5 }}})
		start := time.Now()
		send(t, f, 1, set(1, 1))
		time.AfterFunc(time.Second, f.Kick)
		must(t, f.Drain(t.Context()))
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestFencedSessionFailsTheFan(t *testing.T) {
	t.Parallel()
	target := memory.Open(memory.Config{})
	f := fanOn(t, target, Config{})
	send(t, f, 1, set(1, 1))
	must(t, f.Drain(t.Context()))
	take(t, target) // a successor
	send(t, f, 2, set(1, 2))
	for _, err := range []error{f.Drain(t.Context()), f.Begin(t.Context(), num(3)), f.Err(), f.Abort(t.Context())} {
		if logical.ClassOf(err) != logical.ClassFenced {
			t.Errorf("got %v", err)
		}
	}
	wantPoint(t, f, 1)
	wantColumn(t, target, "balance", map[int64]int64{1: 1})
}

// TestFencedAbort gives up while a commit is on its way that takes effect later.
func TestFencedAbort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unknown := memory.Fault{Err: classed(logical.ClassUnknownCommit), Late: time.Minute}
		budget := budget.New(1 << 20)
		target := memory.Open(memory.Config{Hook: hookOn(memory.SiteCommit, memory.Fault{}, unknown)})
		f := fanOn(t, target, Config{Shards: 1, Budget: budget})
		send(t, f, 1, set(1, 1))
		must(t, f.Drain(t.Context()))
		send(t, f, 2, set(1, 2))
		synctest.Wait()
		must(t, f.Begin(t.Context(), num(3)))
		must(t, f.Data(t.Context(), []logical.Mutation{set(1, 3)}))
		start := time.Now()
		must(t, f.Abort(t.Context()))
		if took := time.Since(start); took != time.Minute {
			t.Errorf("abort returned after %s, the commit was under way for a minute", took)
		}
		wantPoint(t, f, 1)
		wantColumn(t, target, "balance", map[int64]int64{1: 2})
		if budget.Used() != 0 {
			t.Errorf("%d bytes of the budget are lost", budget.Used())
		}
		send(t, f, 2, set(1, 20))
		must(t, f.Drain(t.Context()))
		wantPoint(t, f, 2)
		wantColumn(t, target, "balance", map[int64]int64{1: 20})
		must(t, target.Close())
	})
}

// TestAbortThatIsCutShortCanBeRepeated: until it has succeeded, nothing else works.
func TestAbortThatIsCutShortCanBeRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := memory.Fault{Err: classed(logical.ClassRetry)}
		target := memory.Open(memory.Config{Hook: func(_ string, at memory.Site, n uint64) memory.Fault {
			if at == memory.SiteFence && n < 5 || at == memory.SiteApply && n == 1 {
				return down
			}
			return memory.Fault{}
		}})
		always := retry.Config{Base: time.Minute, Rand: func() float64 { return 0.5 }}
		f := fanOn(t, target, Config{Retry: always})
		send(t, f, 1, set(1, 1))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.Abort(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if f.Begin(t.Context(), num(1)) == nil {
			t.Error("the fan goes on although nothing was fenced")
		}
		must(t, f.Abort(t.Context()))
		send(t, f, 1, set(1, 1))
		must(t, f.Drain(t.Context()))
		wantPoint(t, f, 1)
	})
}

func TestDrainOnCloseLetsBatchesInFlightLand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := memory.Open(memory.Config{Hook: hookOn(memory.SiteApply, memory.Fault{Stall: 5 * time.Second})})
		budget := budget.New(1 << 20)
		f := fanOn(t, target, Config{Shards: 1, Budget: budget})
		send(t, f, 1, set(1, 1))
		synctest.Wait()
		send(t, f, 2, set(1, 2)) // in the queue
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		must(t, f.Close(ctx))
		wantPoint(t, f, 1)
		wantColumn(t, target, "balance", map[int64]int64{1: 1})
		if budget.Used() != 0 {
			t.Errorf("%d bytes of the budget are lost", budget.Used())
		}
	})
}

func TestCloseDoesNotWaitForATargetThatIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := &logical.Error{Err: errors.New("too many requests"), RetryAfter: time.Hour}
		target := memory.Open(memory.Config{Hook: hookOn(memory.SiteApply,
			memory.Fault{Err: asked}, memory.Fault{Stall: time.Hour})})
		f := fanOn(t, target, Config{Shards: 1})
		start := time.Now()
		send(t, f, 1, set(1, 1))
		synctest.Wait()
		must(t, f.Close(t.Context()))
		if took := time.Since(start); took != 0 {
			t.Errorf("waiting for a next try took %s", took)
		}
		f = fanOn(t, target, Config{Shards: 1})
		send(t, f, 1, set(1, 1))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := f.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestTimedBoundsEachCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := memory.Open(memory.Config{Hook: hookOn(memory.SiteApply, memory.Fault{Stall: time.Hour})})
		timed := func(ctx context.Context, call func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			return call(ctx)
		}
		f := fanOn(t, target, Config{Timed: timed, Retry: retry.Config{Rand: func() float64 { return 0 }}})
		start := time.Now()
		send(t, f, 1, set(1, 1))
		must(t, f.Drain(t.Context()))
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("took %s", took)
		}
	})
}
