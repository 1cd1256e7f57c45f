package remote

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted is a target that counts how often it is closed.
type counted struct {
	logical.Target
	open *atomic.Int64
}

func (c counted) Close() error {
	c.open.Add(-1)
	return c.Target.Close()
}

// TestPoolOpensOncePerKeyAndClosesAfterTheLast has many goroutines get and give back.
func TestPoolOpensOncePerKeyAndClosesAfterTheLast(t *testing.T) {
	t.Parallel()
	p := NewPool(slog.New(slog.DiscardHandler))
	var open [3]atomic.Int64
	var all sync.WaitGroup
	for g := range 16 {
		all.Go(func() {
			for i := range 300 {
				key := (g + i) % len(open)
				target, release, err := p.Get(t.Context(), string(rune('a'+key)), func(context.Context) (logical.Target, error) {
					if n := open[key].Add(1); n != 1 {
						t.Errorf("%d targets are open for one key", n)
					}
					return counted{memory.Open(memory.Config{}), &open[key]}, nil
				})
				if err != nil || target == nil {
					t.Errorf("%v", err)
					return
				}
				if open[key].Load() != 1 {
					t.Error("the target is closed while it is used")
				}
				release()
				release() // harmless
			}
		})
	}
	all.Wait()
	if p.Len() != 0 {
		t.Errorf("%d targets are left", p.Len())
	}
	for i := range open {
		if n := open[i].Load(); n != 0 {
			t.Errorf("key %d: %d targets are open", i, n)
		}
	}
}

func TestPoolTriesAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	p := NewPool(slog.New(slog.DiscardHandler))
	broken := errors.New("broken")
	if _, _, err := p.Get(t.Context(), "a", func(context.Context) (logical.Target, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	_, release, err := p.Get(t.Context(), "a", func(context.Context) (logical.Target, error) { return memory.Open(memory.Config{}), nil })
	if err != nil {
		t.Fatal(err)
	}
	release()
}

// TestPoolOpenerThatGoesAway is ISOLATED: whose request began to open a target and hangs up does not fail those
// who wait for it too.
func TestPoolOpenerThatGoesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		answered := make(chan struct{})
		open := func(ctx context.Context) (logical.Target, error) {
			select {
			case <-answered:
				return memory.Open(memory.Config{}), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			_, _, err := p.Get(ctx, "k", open)
			first <- err
		}()
		synctest.Wait()
		go func() {
			_, release, err := p.Get(t.Context(), "k", open)
			if err == nil {
				release()
			}
			second <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("who went away: %v", err)
		}
		close(answered)
		if err := <-second; err != nil {
			t.Errorf("who did not: %v", err)
		}
		synctest.Wait()
		if p.Len() != 0 {
			t.Errorf("%d targets are left", p.Len())
		}
	})
}

// TestPoolDoesNotWaitForAnOpeningForEver has nobody left who waits, and a target that never answers.
func TestPoolDoesNotWaitForAnOpeningForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := p.Get(ctx, "k", func(ctx context.Context) (logical.Target, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		_, release, err := p.Get(t.Context(), "k", func(context.Context) (logical.Target, error) { return memory.Open(memory.Config{}), nil })
		if err != nil {
			t.Fatal(err)
		}
		release()
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		_, _, _ = p.Get(ctx, "k", func(ctx context.Context) (logical.Target, error) {
			<-ctx.Done()
			return memory.Open(memory.Config{}), nil
		})
		p.Close()
		if p.Len() != 0 {
			t.Errorf("%d targets are left", p.Len())
		}
	})
}
