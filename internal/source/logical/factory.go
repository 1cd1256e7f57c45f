package logical

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/chaos"
	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/logical"
)

// FactoryConfig is what the loops of one factory share.
type FactoryConfig struct {
	// Holder identifies whoever runs the loops; see logical.Claim.
	Holder string
	// Log takes the logs. Default: slog.Default().
	Log *slog.Logger
	// Metrics shows the loops; nil makes metrics that nobody sees.
	Metrics *Metrics
	// Target is that of loops whose specification names none. It may be nil.
	Target logical.Target
	// Config is that of loops whose specification has none.
	Config logical.Config
	// BytesInFlight bounds the memory of mutations that all loops together have read and not yet landed
	// (BOUNDED). Each of them has logical.MinBytesInFlight of it whatever the others do (ISOLATED), and
	// borrows more; see package budget. Default logical.DefaultTotalBytesInFlight.
	BytesInFlight int64
	// Chaos lets things go wrong on purpose, in tests; nil lets nothing.
	Chaos *chaos.Chaos
	// Rand returns a number in [0, 1), for the jitter of delays. Default math/rand/v2.Float64.
	Rand func() float64
}

// Factory makes loops and memoizes them by name. Its methods may be called concurrently. Several
// factories can live in one process.
type Factory struct {
	config FactoryConfig
	pool   *budget.Pool

	// signals is for tests; see Loop.signal.
	signals func(ctx context.Context, site string, n int)
	// maxRejectRun is maxRejectRun, except in tests.
	maxRejectRun int64

	mu     sync.Mutex
	loops  map[string]*entry
	claims map[claim]string // names, by what they have to themselves
	closed bool
}

// NewFactory returns a factory without loops.
func NewFactory(config FactoryConfig) (*Factory, error) {
	if config.Holder == "" {
		return nil, errors.New("logical: a factory needs a Holder, which tells its process from all others")
	}
	if err := config.Config.Validate(); err != nil {
		return nil, errors.WithMessage(err, "logical: the factory's settings")
	}
	if config.BytesInFlight == 0 {
		config.BytesInFlight = logical.DefaultTotalBytesInFlight
	}
	if config.BytesInFlight < logical.MinBytesInFlight {
		return nil, errors.Errorf("logical: %d bytes in flight for all loops are too few; give at least %d", config.BytesInFlight, logical.MinBytesInFlight)
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Metrics == nil {
		var err error
		if config.Metrics, err = NewMetrics(nil); err != nil {
			return nil, err
		}
	}
	pool := budget.NewPool(config.BytesInFlight)
	config.Metrics.share(pool)
	return &Factory{
		config: config, pool: pool, maxRejectRun: maxRejectRun,
		loops: map[string]*entry{}, claims: map[claim]string{},
	}, nil
}

// Get returns the running loop of that name, or makes and starts it, once, however many callers race. The
// context bounds the making, and the waiting for somebody else's, or for the removal of a loop that had
// the name; it does not bound the loop's life.
//
// A loop that runs with another specification (another dialect or target included) is an error, and so is
// a second loop that has the same identity in the same target. A loop that has ended is made anew.
// Dialects, sources and targets must be comparable, as pointers are.
func (f *Factory) Get(ctx context.Context, spec Spec) (*Loop, error) {
	want, err := f.settle(spec)
	if err != nil {
		return nil, err
	}
	for {
		e, mine, err := f.enter(ctx, want)
		if err != nil {
			return nil, err
		}
		if mine {
			return f.make(ctx, e, spec.Open)
		}
		loop, again, err := f.await(ctx, e)
		if !again {
			return loop, err
		}
	}
}

// Remove drains and stops the loop of that name, as Loop.Stop does, and forgets it. It does nothing
// if there is none. A loop that is just being made is not. Get waits until Remove is done.
func (f *Factory) Remove(ctx context.Context, name string) {
	f.mu.Lock()
	e := f.loops[name]
	first := e != nil && !e.removing
	if first {
		e.removing = true
		e.abandon(errRemoved)
	}
	f.mu.Unlock()
	if e == nil {
		return
	}
	<-e.made
	if e.loop != nil {
		e.loop.Stop(ctx)
	}
	if first {
		f.forget(e)
	}
	<-e.gone
}

// Close drains and stops all loops at once, and waits for them, also for those that are being removed.
// There are no more loops afterwards.
func (f *Factory) Close(ctx context.Context) {
	f.mu.Lock()
	f.closed = true
	names := slices.Collect(maps.Keys(f.loops))
	f.mu.Unlock()
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() { f.Remove(ctx, name) })
	}
	all.Wait()
}

// BytesInFlight returns the bytes of mutations that all loops hold, the most that they ever held, and the
// most that they may hold.
func (f *Factory) BytesInFlight() (now, peak, limit int64) {
	now, peak = f.pool.Usage()
	return now, peak, f.pool.Size()
}
