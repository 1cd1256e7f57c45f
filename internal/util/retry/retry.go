package retry

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Config is how a Retry behaves.
type Config struct {
	// Base is the bound of the first delay. Default 100 ms.
	Base time.Duration
	// Max is the bound that delays grow up to. Default 30 s; not less than Base.
	Max time.Duration
	// Rand returns a number in [0, 1). Default math/rand/v2.Float64. It is called by whoever calls
	// Next or Wait.
	Rand func() float64
	// After starts a timer, and returns its channel and how to stop it. Default time.NewTimer.
	After func(d time.Duration) (fired <-chan time.Time, stop func())
}

// A Retry counts the failures of one thing. Kick may be called by anybody at any time; the other
// methods belong to one goroutine at a time.
type Retry struct {
	cfg      Config
	kick     chan struct{}
	mu       sync.Mutex
	failures int
}

// New returns a Retry without failures.
func New(cfg Config) *Retry {
	if cfg.Base <= 0 {
		cfg.Base = 100 * time.Millisecond
	}
	if cfg.Max <= 0 {
		cfg.Max = 30 * time.Second
	}
	cfg.Max = max(cfg.Max, cfg.Base)
	if cfg.Rand == nil {
		cfg.Rand = rand.Float64
	}
	if cfg.After == nil {
		cfg.After = after
	}
	return &Retry{cfg: cfg, kick: make(chan struct{}, 1)}
}

func after(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

// Failures returns how many failures were counted since the last Reset. It may be called by anybody.
func (r *Retry) Failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures
}

// Reset says that it went well: the next delay is a first one, and a kick that nobody waited for is
// forgotten.
func (r *Retry) Reset() {
	r.mu.Lock()
	r.failures = 0
	r.mu.Unlock()
	select {
	case <-r.kick:
	default:
	}
}

// Kick ends the wait that is under way, or the next one.
func (r *Retry) Kick() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Next counts a failure, and returns how long to wait for it, what the target asked for included.
func (r *Retry) Next(err error) time.Duration {
	asked := max(0, logical.RetryAfterOf(err))
	return asked + r.jitter()
}

// jitter counts a failure and draws the delay that belongs to it.
func (r *Retry) jitter() time.Duration {
	r.mu.Lock()
	bound := r.cfg.Base
	for range r.failures {
		if bound >= r.cfg.Max/2 {
			bound = r.cfg.Max
			break
		}
		bound *= 2
	}
	r.failures++
	r.mu.Unlock()
	return time.Duration(r.cfg.Rand() * float64(bound))
}

// Wait counts a failure and waits for as long as it asks for. It returns early when it is kicked,
// and with ctx's error when ctx is done.
func (r *Retry) Wait(ctx context.Context, err error) error {
	if asked := logical.RetryAfterOf(err); asked > 0 {
		if err := r.sleep(ctx, asked, nil); err != nil {
			return err
		}
	}
	return r.sleep(ctx, r.jitter(), r.kick)
}

func (r *Retry) sleep(ctx context.Context, d time.Duration, kick <-chan struct{}) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	fired, stop := r.cfg.After(d)
	defer stop()
	select {
	case <-fired:
		return nil
	case <-kick:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
