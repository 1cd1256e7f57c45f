package remote

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

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
