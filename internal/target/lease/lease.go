// Package lease keeps the leases of loops alive that targets store beside their epochs.
//
// A lease is no proof: a process that was asleep may believe in one that has run out. What proves
// that a loop is one's own is its epoch, which each transaction looks at. The lease only sees to it
// that two processes do not take a loop from each other in turns.
package lease

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Config describes a lease that has just been written to the target.
type Config struct {
	// Loop is whose lease it is, for the log.
	Loop string
	// Epoch is the loop's when the lease was written; that of a later lease is higher.
	Epoch int64
	// TTL is how long it lives without being renewed.
	TTL time.Duration
	// Renew writes it anew. An error of [logical.ClassFenced] means that it belongs to somebody
	// else; any other is tried again until the lease runs out.
	Renew func(ctx context.Context) error
	// Written is when the lease was written, by the clock of this process, or a little earlier.
	Written time.Time
	// Logger receives a line when the lease is lost.
	Logger *slog.Logger
}

// A Keeper renews a lease in the background until it is stopped or the lease is lost. Its methods
// may be called concurrently.
type Keeper struct {
	cfg    Config
	ctx    context.Context // of the goroutine that renews
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended

	lost     chan struct{}
	loseOnce sync.Once

	mu      sync.Mutex
	renewed time.Time
}

// New returns the keeper of a lease, which Start sets to work: Renew may use the keeper.
func New(cfg Config) *Keeper {
	ctx, cancel := context.WithCancel(context.Background())
	return &Keeper{cfg: cfg, ctx: ctx, cancel: cancel, done: make(chan struct{}), lost: make(chan struct{}), renewed: cfg.Written}
}

// Start begins to renew the lease, a third of its life after it was written. It is called once.
func (k *Keeper) Start() { go k.run(k.ctx) }

// Lost is closed when the lease is no longer held, and when it was stopped and lost on purpose.
func (k *Keeper) Lost() <-chan struct{} { return k.lost }

// Lose says that the lease is not held any more.
func (k *Keeper) Lose() { k.loseOnce.Do(func() { close(k.lost) }) }

// Held reports whether the lease has not been lost.
func (k *Keeper) Held() bool {
	select {
	case <-k.lost:
		return false
	default:
		return true
	}
}

// Stop ends the renewing, which was started, and waits for it. It does not lose the lease, and may be
// called again.
func (k *Keeper) Stop() {
	k.cancel()
	<-k.done
}

// Abandon ends the renewing without waiting for it, and loses the lease.
func (k *Keeper) Abandon() {
	k.cancel()
	k.Lose()
}

// Renewed says that the lease was written at the given time, by somebody else than Renew.
func (k *Keeper) Renewed(at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewed = at
}

// Due returns how long there is until the lease should be written anew; not more than 0 if it is
// time.
func (k *Keeper) Due() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cfg.TTL/3 - time.Since(k.renewed)
}

func (k *Keeper) expired() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Since(k.renewed) >= k.cfg.TTL
}

func (k *Keeper) run(ctx context.Context) {
	defer close(k.done)
	for {
		if Wait(ctx, k.Due()) != nil {
			return
		}
		start := time.Now()
		err := k.cfg.Renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			k.Renewed(start)
			continue
		case logical.ClassOf(err) == logical.ClassFenced || k.expired():
			k.cfg.Logger.Warn("lease lost", "loop", k.cfg.Loop, "error", err)
			k.Lose()
			return
		}
		// Until the lease runs out nobody else can have it, and the target may heal.
		if Wait(ctx, k.cfg.TTL/20) != nil {
			return
		}
	}
}

// Wait returns nil after d, or the context's error when that is done first.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
