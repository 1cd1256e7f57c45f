package memory

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A tx is one target transaction. What it did is in it until it commits.
type tx struct {
	session *session
	epoch   uint64

	// Guarded by the target's mu.
	busy bool // a call is under way
	dead bool // rolled back by the target
	done bool // over for its client
	late bool // its commit is on its way
	view      // what it did
	held []*lock
	wait []*tx // whom it waits for

	applied []logical.Mutation
	memo    *logical.MemoState
	letters []logical.DeadLetter
	taken   []int64 // dead letters that are taken back
}

var _ logical.Tx = (*tx)(nil)

// call runs one method of the transaction under the target's lock.
func (x *tx) call(ctx context.Context, at Site, effect func(Fault) error) error {
	t := x.session.target
	t.mu.Lock()
	if err := x.check(); err != nil {
		t.mu.Unlock()
		return err
	}
	x.busy = true
	t.mu.Unlock()
	f, err := t.before(ctx, x.session.claim.Loop, at)
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() {
		x.busy = false
		if x.dead && !x.late {
			x.end()
		}
		t.broadcast()
	}()
	if err != nil {
		return err
	}
	if at != SiteCommit { // a commit that was sent is no longer in its client's hands
		if err := x.check(); err != nil {
			return err
		}
	}
	if err := effect(f); err != nil {
		return err
	}
	return f.after()
}

// check fails if the transaction cannot go on. Callers hold mu.
func (x *tx) check() error {
	switch {
	case x.dead:
		return fenced(x.session.claim.Loop)
	case x.done:
		return errors.New("memory: transaction has ended")
	}
	return nil
}

// Apply implements logical.Tx.
func (x *tx) Apply(ctx context.Context, muts []logical.Mutation) error {
	return x.call(ctx, SiteApply, func(Fault) error {
		for i := range muts {
			if err := x.apply(ctx, &muts[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetMemo implements logical.Tx.
func (x *tx) SetMemo(ctx context.Context, state logical.MemoState) error {
	return x.call(ctx, SiteSetMemo, func(Fault) error {
		state = cloneMemo(state)
		x.memo = &state
		return nil
	})
}

// SetAside implements logical.Tx.
func (x *tx) SetAside(ctx context.Context, letters []logical.DeadLetter) error {
	return x.call(ctx, SiteSetAside, func(Fault) error {
		for _, l := range letters {
			l.Stamp, l.Key, l.Payload = slices.Clone(l.Stamp), slices.Clone(l.Key), slices.Clone(l.Payload)
			x.letters = append(x.letters, l)
		}
		return nil
	})
}

// TakeBack implements logical.Tx.
func (x *tx) TakeBack(ctx context.Context, ids []int64) error {
	return x.call(ctx, SiteTakeBack, func(Fault) error {
		x.taken = append(x.taken, ids...)
		return nil
	})
}

// Commit implements logical.Tx.
func (x *tx) Commit(ctx context.Context) error {
	return x.call(ctx, SiteCommit, func(f Fault) error {
		if f.Late > 0 {
			x.commitLater(f.Late)
			return f.Err
		}
		x.commit()
		return nil
	})
}

// commitLater commits when nobody waits for it any more. Until then it holds no locks, as if its
// statements were still waiting for theirs: nothing but a fence keeps it from overwriting what is
// newer. Callers hold mu.
func (x *tx) commitLater(d time.Duration) {
	t := x.session.target
	x.done, x.late = true, true
	x.unlock()
	t.late.Go(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		<-timer.C
		t.mu.Lock()
		defer t.mu.Unlock()
		x.commit()
	})
}

// Rollback implements logical.Tx.
func (x *tx) Rollback(context.Context) error {
	t := x.session.target
	t.mu.Lock()
	defer t.mu.Unlock()
	if !x.done && !x.dead {
		x.end()
	}
	return nil
}

// commit makes what the transaction did visible. Callers hold mu.
func (x *tx) commit() {
	t, l := x.session.target, x.session.loop
	x.publish()
	if x.memo != nil {
		l.memo = *x.memo
	}
	t.discard(x.session.claim.Loop, x.taken)
	for i := range x.letters {
		t.keep(x.session.claim.Loop, x.letters[i])
	}
	for i := range x.applied {
		if t.cfg.Record {
			key := string(x.applied[i].AppendKey(nil))
			t.history[key] = append(t.history[key], x.applied[i])
		}
	}
	if t.cfg.Observe != nil {
		t.cfg.Observe(Commit{Loop: x.session.claim.Loop, Mutations: x.applied, Memo: x.memo, Letters: x.letters})
	}
	x.end()
}

// end forgets the transaction and releases its locks. Callers hold mu.
func (x *tx) end() {
	x.done = true
	delete(x.session.loop.open, x)
	x.unlock()
	x.view = view{}
	x.session.target.broadcast()
}

// unlock releases all locks. Callers hold mu.
func (x *tx) unlock() {
	for _, l := range x.held {
		l.release(x)
	}
	x.held, x.wait = nil, nil
}
