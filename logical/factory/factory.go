package factory

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Config is what the loops of one factory share.
type Config struct {
	// Holder tells this process from all others that run loops of the same targets, now and after a
	// restart: two processes never have one Holder at the same time, and a process that is started again
	// with the same Holder need not wait for its own lease to end. Required.
	Holder string
	// Log takes the logs. Default: slog.Default().
	Log *slog.Logger
	// Registerer takes the metrics, which docs/metrics.md lists; the series of a loop have the label loop.
	// One registry takes those of one factory: give each a prefix or a label of its own
	// (prometheus.WrapRegistererWith) if there are several. Default: no metrics.
	Registerer prometheus.Registerer
	// Target is that of loops whose Spec names none. The factory does not close it.
	Target logical.Target
	// Loop is how loops behave whose Spec does not say.
	Loop logical.Config
	// BytesInFlight bounds the memory of changes that all loops together have read and not yet landed
	// (BOUNDED). Each loop has [logical.MinBytesInFlight] of it for certain. Half of the total is lent, and
	// of that a loop leaves as many times as much as it borrows as there are loops, at most eight times: one alone comes to a
	// quarter of the total. Default [logical.DefaultTotalBytesInFlight].
	BytesInFlight int64
}

// A Factory makes loops and knows them by name. Its methods may be called concurrently.
type Factory struct {
	inner *loops.Factory
}

// New returns a factory without loops. An error says which setting cannot work, or that the registry has
// metrics of these names already.
func New(config Config) (*Factory, error) {
	metrics, err := loops.NewMetrics(config.Registerer)
	if err != nil {
		return nil, err
	}
	inner, err := loops.NewFactory(loops.FactoryConfig{
		Holder: config.Holder, Log: config.Log, Metrics: metrics,
		Target: config.Target, Config: config.Loop, BytesInFlight: config.BytesInFlight,
	})
	if err != nil {
		return nil, err
	}
	return &Factory{inner: inner}, nil
}

// Spec says what a loop is to do.
type Spec struct {
	// Name is the loop's name in this process: in logs and metrics. Required.
	Name string
	// Identity is the loop's identity in its target, under which its consistent point, its lease and its
	// dead letters are kept. Whoever runs the same loop elsewhere gives the same. Default: Name.
	Identity string
	// Dialect reads the source. It serves this loop alone. Give either this or Open.
	Dialect logical.Dialect
	// Open makes the dialect: once, however many callers want the loop at the same time, within the
	// context of the one of them who came first. If the dialect is an io.Closer, it is closed when the loop
	// has ended.
	Open func(ctx context.Context) (logical.Dialect, error)
	// Source is what Open makes the dialect of, such as a struct of settings, so that two callers can be
	// seen to want the same. It must be comparable. It may be nil.
	Source any
	// Target takes the changes. Default: the factory's.
	Target logical.Target
	// Loop is how the loop behaves. The zero Config stands for the factory's.
	Loop logical.Config
}

// Get returns the running loop of that name, or makes and starts it, once, however many callers race. A
// loop that has ended is made anew.
//
// The context bounds the making (Spec.Open, if it is given), and the waiting for another caller's, or for
// the removal of a loop that had the name. It does not bound the loop's life.
//
// It is an error if the loop runs with another Spec: another dialect, source, target or other settings;
// or if another loop has the same identity in the same target. Dialects and targets are compared as Go
// compares them, so they are best given as pointers.
func (f *Factory) Get(ctx context.Context, spec Spec) (*Loop, error) {
	inner, err := f.inner.Get(ctx, loops.Spec{
		Name: spec.Name, Identity: spec.Identity, Dialect: spec.Dialect, Open: spec.Open, Source: spec.Source,
		Target: spec.Target, Config: spec.Loop,
	})
	if err != nil {
		return nil, err
	}
	return &Loop{inner: inner}, nil
}

// Remove drains and stops the loop of that name, as [Loop.Stop] does, and forgets it, with its metrics.
// What the target keeps of the loop stays, so that it can be got again. It does nothing if there is no
// such loop. A loop that is just being made is not.
func (f *Factory) Remove(ctx context.Context, name string) { f.inner.Remove(ctx, name) }

// Close drains and stops all loops at once, and waits for all of them: until ctx ends what is in flight
// may land; what has not is read again after the next start. There are no more loops afterwards, and the
// targets can be closed.
func (f *Factory) Close(ctx context.Context) { f.inner.Close(ctx) }

// BytesInFlight returns the bytes of changes that all loops hold now, the most that they ever held, and
// the most that they may hold, single changes aside that are larger than what a loop has for certain.
func (f *Factory) BytesInFlight() (now, peak, limit int64) { return f.inner.BytesInFlight() }
