package fan

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/internal/util/stamp"
	"github.com/tailrace-cdc/tailrace/logical"
)

// errStopped is what a worker returns that was told to stop.
var errStopped = errors.New("fan: stopped")

// ErrClosed is what calls return after Close.
var ErrClosed = errors.New("fan: closed")

// A Fan applies mutations over several target transactions at once.
type Fan struct {
	cfg    Config
	unions *Unions
	tune   *tuner
	spaces sync.Pool // of *workspace
	blocks sync.Pool // of *block
	feed   feed      // belongs to the goroutine of the source

	memo    chan struct{} // holds a token while a memo is on its way to the target
	strayed atomic.Bool   // a memo may be on its way that nobody waits for; set and cleared under the token

	mu         sync.Mutex
	changed    chan struct{} // closed and forgotten when something changed that somebody waits for
	ctx        context.Context
	cancel     context.CancelCauseFunc // ends the calls that are under way
	waits      context.Context
	endWaits   context.CancelFunc // ends the delays before a next try
	progress   stamp.Queue
	counted    int      // how many transactions that the point has passed OnPoint was told of
	tx         stamp.ID // the open transaction, if there is one
	fresh      bool     // it has no mutations yet
	passed     int      // how many mutations of it have been given to Data
	skip       int      // how many mutations after the consistent point are in the target for certain
	again      int      // how many of the next transaction are in the target, if it was read before
	skipping   int      // how many of the open one are still to be skipped
	barrier    int      // how many of the open one there are up to the last barrier, itself included
	unsure     bool     // that barrier has not landed
	shards     []shard
	left       int   // mutations that have not landed
	held       int64 // bytes of the budget that they hold
	seq        uint64
	workers    int          // goroutines
	blocked    []rest       // batches that wait for a drain because they violate a constraint
	drainRetry *retry.Retry // of whoever applies what was blocked
	insisting  *retry.Retry // of the call of the fan that cannot go on without the session; nil if there is none
	drained    bool         // the drain has happened, and somebody applies what was blocked
	feeding    bool         // the source waits for us
	stopping   bool         // batches that are not in flight stay where they are
	closed     bool
	unclean    bool // an Abort was begun and has not fenced
	err        error
}

// A rest is what a shard could not apply.
type rest struct {
	shard *shard
	items []item
}

// New returns a Fan. Nothing runs before the first mutation.
func New(cfg Config) *Fan {
	f := &Fan{cfg: cfg.withDefaults(), unions: NewUnions()}
	f.tune = newTuner(f.cfg.FirstRows)
	f.shards = make([]shard, f.cfg.Shards)
	for i := range f.shards {
		f.shards[i].number = i
	}
	f.spaces.New = func() any { return newWorkspace(f.unions) }
	f.blocks.New = newBlock
	f.progress.Reset(cfg.Point)
	f.skip, f.again = cfg.Skip, cfg.Skip
	f.memo = make(chan struct{}, 1)
	f.start()
	return f
}

// start makes the contexts that workers run under. Callers hold mu, or are the only ones.
func (f *Fan) start() {
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	f.waits, f.endWaits = context.WithCancel(f.ctx)
}

// Begin opens the source transaction with the given stamp, which must be after the one before. It
// waits while a batch is held up that needs everything else to have landed.
func (f *Fan) Begin(ctx context.Context, stamp logical.Stamp) error {
	err := f.until(ctx, func() bool { return len(f.blocked) == 0 && !f.drained })
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	if f.tx, err = f.progress.Begin(stamp); err != nil {
		return err
	}
	f.fresh, f.passed, f.skipping, f.again = true, 0, f.again, 0
	return nil
}

// Commit ends the open transaction. It does not wait for anything.
func (f *Fan) Commit() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(); err != nil {
		return err
	}
	if !f.progress.Open() {
		return errors.New("fan: commit without a transaction")
	}
	if f.skipping > 0 && f.passed > 0 { // without data it stands for one that the source no longer has
		return errors.Errorf("fan: a transaction has %d mutations less than when it was read before", f.skipping)
	}
	if f.progress.End() {
		f.advanced()
	}
	f.resolveIfDue()
	return nil
}

// Drain waits until everything that was given to Data has landed (DRAIN). If no transaction is open,
// the consistent point is then the stamp of the last one. No memo that failed to be saved can reach the
// target any more, so that the owner may store memos in another way from then on.
func (f *Fan) Drain(ctx context.Context) error {
	if err := f.until(ctx, func() bool { return f.left == 0 }); err != nil {
		return err
	}
	if !f.strayed.Load() {
		return nil
	}
	if err := f.lockMemo(ctx); err != nil {
		return err
	}
	defer f.unlockMemo()
	return f.insist(ctx, f.settleMemo)
}

// until waits for a condition, as the goroutine of the source: what is held up by a constraint need
// not wait for more from it.
func (f *Fan) until(ctx context.Context, done func() bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if err := f.usable(); err != nil {
			return err
		}
		if done() {
			return nil
		}
		f.feeding = true
		f.resolveIfDue()
		err := f.wait(ctx)
		f.feeding = false
		if err != nil {
			return err
		}
	}
}

// usable reports why the fan cannot be used. Callers hold mu.
func (f *Fan) usable() error {
	switch {
	case f.err != nil:
		return f.err
	case f.closed:
		return ErrClosed
	case f.unclean:
		return errors.New("fan: an abort did not come to its end")
	}
	return nil
}

// wait releases mu until something has changed. Callers hold mu.
func (f *Fan) wait(ctx context.Context) error {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	changed := f.changed
	f.mu.Unlock()
	defer f.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return errors.WithStack(context.Cause(ctx))
	}
}

// broadcast wakes whoever waits. Callers hold mu.
func (f *Fan) broadcast() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// advanced tells that the consistent point has advanced. Callers hold mu.
func (f *Fan) advanced() {
	f.skip = 0
	passed := f.progress.Passed()
	if point, ok := f.progress.Point(); ok && f.cfg.OnPoint != nil {
		f.cfg.OnPoint(point, passed-f.counted)
	}
	f.counted = passed
}

// Point returns the consistent point, or false if there is none yet.
func (f *Fan) Point() (logical.Stamp, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress.Point()
}

// Progress returns the consistent point, which is nil if there is none yet, and how many mutations of
// the transaction after it are known to be in the target: those up to the last barrier in it.
func (f *Fan) Progress() (point logical.Stamp, skip int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	point, _ = f.progress.Point()
	return point, f.skip
}

// SaveMemo stores Progress in the target, as Config.Memo says it. It never goes back behind what is
// stored, also if a barrier is applied at the same time; so store it in no other way.
//
// A memo that failed may have been sent, and arrive when its connection is long given up. It is fenced
// before the next one is stored: otherwise it would take that one's place.
func (f *Fan) SaveMemo(ctx context.Context) error {
	if f.cfg.Memo == nil {
		return errors.New("fan: nobody makes the memo")
	}
	if err := f.lockMemo(ctx); err != nil {
		return err
	}
	defer f.unlockMemo()
	if err := f.settleMemo(ctx); err != nil {
		return err
	}
	point, skip := f.Progress()
	err := f.timed(ctx, func(ctx context.Context) error { return f.cfg.Session.SaveMemo(ctx, f.cfg.Memo(point, skip)) })
	if err == nil || logical.ClassOf(err) == logical.ClassFenced {
		return err
	}
	f.strayed.Store(true)
	if fence := f.settleMemo(ctx); fence != nil && logical.ClassOf(fence) == logical.ClassFenced {
		return fence
	}
	return err
}

// settleMemo sees to it that no memo is on its way that nobody waits for. Callers hold the token.
func (f *Fan) settleMemo(ctx context.Context) error {
	if !f.strayed.Load() {
		return nil
	}
	if err := f.fence(ctx); err != nil {
		return err
	}
	f.strayed.Store(false)
	return nil
}

// lockMemo takes the token that whoever stores a memo holds.
func (f *Fan) lockMemo(ctx context.Context) error {
	select {
	case f.memo <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errors.WithStack(context.Cause(ctx))
	}
}

func (f *Fan) unlockMemo() { <-f.memo }

// Oldest returns the stamp of the oldest transaction that has not landed, or false if there is none.
func (f *Fan) Oldest() (logical.Stamp, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progress.Oldest()
}

// Err returns why the fan has failed, or nil.
func (f *Fan) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// InFlight returns how many mutations have not landed, and how many bytes of the budget they hold.
func (f *Fan) InFlight() (mutations int, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left, f.held
}

// BatchRows returns how many mutations a batch may have by now. To give it to the next fan of the same target as
// Config.FirstRows saves that from finding out again.
func (f *Fan) BatchRows() int { return f.tune.settledOn() }

// Kick lets what waits for its next try be tried now, except where the target asked to be left alone: batches,
// and the calls of Drain and Abort.
func (f *Fan) Kick() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.shards {
		if r := f.shards[i].retry; r != nil {
			r.Kick()
		}
	}
	if f.drainRetry != nil {
		f.drainRetry.Kick()
	}
	if f.insisting != nil {
		f.insisting.Kick()
	}
}
