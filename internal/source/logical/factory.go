package logical

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/chaos"
	"github.com/tailrace-cdc/tailrace/internal/source/logical/meter"
	"github.com/tailrace-cdc/tailrace/internal/source/logical/mode"
	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/internal/util/retry"
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
	// Chaos lets things go wrong on purpose, in tests; nil lets nothing.
	Chaos *chaos.Chaos
	// Rand returns a number in [0, 1), for the jitter of delays. Default math/rand/v2.Float64.
	Rand func() float64
}

// Factory makes loops and memoizes them by name. Its methods may be called concurrently. Several
// factories can live in one process.
type Factory struct {
	config FactoryConfig

	// signals is for tests; see Loop.signal.
	signals func(ctx context.Context, site string, n int)

	mu     sync.Mutex
	loops  map[string]*entry
	closed bool
}

// entry keeps its name until its loop has ended and its series are gone.
type entry struct {
	spec     Spec
	loop     *Loop
	removing bool
	gone     chan struct{}
}

// Spec says what a loop is to do.
type Spec struct {
	// Name is the loop's name in this process: in logs and metrics.
	Name string
	// Identity is the loop's identity in its target; see logical.Claim. Default: Name.
	Identity string
	// Dialect reads the source. A dialect serves one loop.
	Dialect logical.Dialect
	// Target takes the data.
	Target logical.Target
	// Config is how the loop behaves.
	Config logical.Config
}

// NewFactory returns a factory without loops.
func NewFactory(config FactoryConfig) (*Factory, error) {
	if config.Holder == "" {
		return nil, errors.New("logical: a factory needs a Holder, which tells its process from all others")
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
	return &Factory{config: config, loops: map[string]*entry{}}, nil
}

// Get returns the running loop of that name, or makes and starts it. A loop that runs with another
// specification (another dialect or target included) is an error; one that has ended is made anew.
// Dialects and targets must be comparable, as pointers are.
func (f *Factory) Get(spec Spec) (*Loop, error) {
	if spec.Identity == "" {
		spec.Identity = spec.Name
	}
	if err := spec.Config.Validate(); err != nil {
		return nil, errors.WithMessagef(err, "loop %s", spec.Name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errors.Errorf("loop %s: the factory is closed", spec.Name)
	}
	if e, ok := f.loops[spec.Name]; ok {
		switch {
		case e.removing:
			return nil, errors.Errorf("loop %s: it is being removed; try again when it has stopped", spec.Name)
		case !e.loop.ended() && e.spec != spec:
			return nil, errors.Errorf("loop %s: it runs with other settings; remove it first", spec.Name)
		case !e.loop.ended():
			return e.loop, nil
		}
	}
	l := f.build(spec)
	f.loops[spec.Name] = &entry{spec: spec, loop: l, gone: make(chan struct{})}
	return l, nil
}

func (f *Factory) build(spec Spec) *Loop {
	config := spec.Config.WithDefaults()
	ctx, cancel := context.WithCancelCause(context.Background())
	stop, stopped := context.WithCancel(ctx)
	l := &Loop{
		name: spec.Name, identity: spec.Identity, holder: f.config.Holder,
		config: config, meter: meter.New(), counts: newCounts(), rand: f.config.Rand, open: newOpenLetters(), replaying: newTurn(), signals: f.signals,
		target: f.config.Chaos.Target(spec.Name, spec.Target),
		budget: budget.New(config.BytesInFlight * 3 / 4), log: f.config.Log.With("loop", spec.Name),
		cancel: cancel, stopped: stopped,
		control: mode.NewController(mode.Policy{
			Window: config.BackfillWindow, MinDwell: config.MinDwell, Immediate: config.Immediate,
		}),
		done: make(chan struct{}), changed: make(chan struct{}),
		waiting: map[*retry.Retry]struct{}{},
		oldest:  nothingInFlight,
		status:  Status{State: StateStarting}, bad: map[string]badMutations{},
	}
	l.dialect = l.meter.Dialect(f.config.Chaos.Dialect(spec.Name, spec.Dialect))
	f.config.Metrics.add(l)
	go func() {
		defer cancel(nil)
		l.run(ctx, stop)
	}()
	return l
}

// Remove drains and stops the loop of that name, as Loop.Stop does, and forgets it. It does nothing
// if there is none. Until it returns, Get refuses the name.
func (f *Factory) Remove(ctx context.Context, name string) {
	f.mu.Lock()
	e := f.loops[name]
	first := e != nil && !e.removing
	if first {
		e.removing = true
	}
	f.mu.Unlock()
	if e == nil {
		return
	}
	e.loop.Stop(ctx)
	if !first {
		<-e.gone
		return
	}
	f.config.Metrics.remove(e.loop)
	f.mu.Lock()
	delete(f.loops, name)
	f.mu.Unlock()
	close(e.gone)
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

func (l *Loop) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}
