package fan

import (
	"context"

	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Abort gives up the open transaction and everything that has not landed. When it returns nil,
// nothing given up can reach the target any more (FENCED), and the fan goes on from the consistent
// point. If it fails because ctx is done, the fan is unusable until an Abort succeeds.
func (f *Fan) Abort(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	fence := f.left > 0 || f.unclean
	f.unclean, f.stopping = true, true
	f.cancel(errStopped)
	f.endWaits()
	for f.workers > 0 {
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
	if f.err == nil && fence {
		unsure := f.unsure && f.cfg.Memo != nil
		f.mu.Unlock()
		err := f.insist(ctx, f.fence)
		if err == nil && unsure {
			// The barrier that was under way may have landed, and its memo with it. What precedes it
			// is going to be applied again, so the memo must not say that it can be skipped.
			err = f.insist(ctx, f.SaveMemo)
		}
		f.mu.Lock()
		if err != nil {
			return err
		}
	}
	f.giveUp()
	if f.err != nil {
		return f.err
	}
	f.unclean, f.stopping, f.unsure = false, false, false
	f.progress.Reset(nil)
	f.again = f.skip
	f.start()
	return nil
}

// insist does what takes a call of the session again and again until it succeeds, or ctx is done.
func (f *Fan) insist(ctx context.Context, do func(context.Context) error) error {
	r := retry.New(f.cfg.Retry)
	f.mu.Lock()
	f.insisting = r
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.insisting = nil
		f.mu.Unlock()
	}()
	for {
		err := do(ctx)
		switch {
		case err == nil:
			return nil
		case logical.ClassOf(err) == logical.ClassFenced:
			f.fail(err)
			return err
		}
		if f.cfg.OnFailure != nil {
			f.cfg.OnFailure(Failure{Shard: -1, Class: logical.ClassOf(err), Err: err})
		}
		if err := r.Wait(ctx, err); err != nil {
			return err
		}
	}
}

// giveUp forgets everything that has not landed. No worker is left. Callers hold mu, which is
// released while the budget gets its bytes back.
func (f *Fan) giveUp() {
	held := f.held
	f.left, f.held, f.blocked, f.drained = 0, 0, nil, false
	for i := range f.shards {
		f.shards[i].reset()
		f.shards[i].running = false
	}
	f.broadcast()
	f.mu.Unlock()
	f.cfg.Budget.Release(held)
	f.mu.Lock()
}

// Close ends the fan. Batches that are in flight may land until ctx is done; what has not landed then
// is given up, and its transactions are not fenced: whoever takes the loop over does that. It returns
// when no goroutine is left, with ctx's error if batches were cut short.
func (f *Fan) Close(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.stopping = true, true
	f.endWaits()
	f.broadcast()
	var cut error
	for f.workers > 0 {
		if err := f.wait(ctx); err != nil {
			cut = err
			f.cancel(ErrClosed)
			ctx = context.WithoutCancel(ctx)
		}
	}
	f.cancel(ErrClosed)
	f.giveUp()
	return cut
}
