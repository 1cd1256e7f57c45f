package fan

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

const (
	// hastyConflicts is how often a batch that lost against another transaction is tried again
	// without a delay.
	hastyConflicts = 3
	// rollbackTime bounds a rollback, which must be tried even when everything else has ended.
	rollbackTime = 5 * time.Second
	// keptRelations bounds how many relations a workspace remembers to have prepared.
	keptRelations = 4096
)

// errJoins stands for the target's error where a mutation joins an open dead letter and cannot be set
// aside right away.
var errJoins = &logical.Error{
	Err:   errors.New("fan: an earlier mutation of the same key was rejected"),
	Class: logical.ClassReject,
}

// A workspace is the memory that a worker needs for its batches. Workers come and go; it is kept.
type workspace struct {
	items     []item
	muts      []logical.Mutation
	hashes    []uint64
	merger    *Merger
	letters   []logical.DeadLetter
	settled   []settled
	relations []*logical.Relation
	prepared  map[*logical.Relation]struct{}
	forced    *forced
	memo      *logical.MemoState // that of a barrier
	committed bool               // the transaction's commit was sent
}

// forced is the letter of the one mutation that the next transaction is to set aside.
type forced struct {
	letter logical.DeadLetter
	r      Rejected
}

// settled is a mutation that joined a dead letter in the current batch.
type settled struct {
	r Rejected
	v Verdict
}

func newWorkspace(u *Unions) *workspace {
	return &workspace{merger: NewMerger(u), prepared: map[*logical.Relation]struct{}{}}
}

// release lets go of what the last batch pointed to.
func (w *workspace) release() {
	clear(w.items)
	clear(w.muts)
	clear(w.letters)
	clear(w.settled)
	clear(w.relations)
	w.merger.Reset()
}

// try applies items in one transaction, again and again for as long as that may heal. It returns nil
// when they have landed, an error of class reject or constraint if trying again does not help, and
// errStopped if the worker must end.
func (w *worker) try(items []item, merge bool) error {
	if w.fan.cfg.Memo != nil && items[0].mut.Op.Barrier() {
		select {
		case w.fan.memo <- struct{}{}:
			defer func() { <-w.fan.memo }()
		case <-w.waits.Done():
			return errStopped
		}
	}
	for n := 1; ; n++ {
		if w.waits.Err() != nil {
			return errStopped
		}
		start := w.fan.cfg.Now()
		err := w.attempt(items, merge)
		if err == nil {
			w.success(items, w.fan.cfg.Now().Sub(start))
			return nil
		}
		if w.ctx.Err() != nil {
			return errStopped
		}
		if err := w.failure(items, err, n); err != nil {
			return err
		}
	}
}

// success counts out what has landed.
func (w *worker) success(items []item, took time.Duration) {
	w.retry.Reset()
	if w.tune != nil {
		w.tune.observe(len(items), took, w.fan.cfg.MaxRows)
	}
	for _, s := range w.settled {
		w.settle(s.r, s.v)
	}
	// What is counted out no longer takes memory.
	applied := len(w.muts)
	clear(w.muts)
	w.merger.Reset()
	bytes := w.fan.landed(items)
	clear(items)
	if w.fan.cfg.OnLanded != nil {
		w.fan.cfg.OnLanded(Landed{
			Shard: w.shard, Mutations: len(items), Applied: applied, Bytes: bytes, Took: took,
		})
	}
}

// failure does what the class of the n-th failure in a row asks for before the next try. An error
// that it returns ends the tries.
func (w *worker) failure(items []item, err error, n int) error {
	class := logical.ClassOf(err)
	if w.committed && class == logical.ClassRetry {
		class = logical.ClassUnknownCommit
	}
	if w.fan.cfg.OnFailure != nil {
		w.fan.cfg.OnFailure(Failure{Shard: w.shard, Class: class, Err: err, Mutations: len(items)})
	}
	switch class {
	case logical.ClassFenced:
		w.fan.fail(err)
		return errStopped
	case logical.ClassReject:
		return err
	case logical.ClassConstraint:
		if w.tune == nil || n >= w.fan.cfg.ConstraintTries {
			return err
		}
		return w.waitForOthers(err)
	case logical.ClassConflict:
		if n <= hastyConflicts {
			return nil
		}
	case logical.ClassUnknownCommit:
		if err := w.fence(); err != nil || n == 1 {
			return err
		}
	}
	if w.retry.Wait(w.waits, err) != nil {
		return errStopped
	}
	return nil
}

// waitForOthers waits for a while, or until no other shard is at work. It returns the error it was
// given if none was to begin with.
func (w *worker) waitForOthers(err error) error {
	ctx, cancel := context.WithTimeout(w.waits, w.retry.Next(err))
	defer cancel()
	f := w.fan
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.workers <= 1 {
		return err
	}
	for f.workers > 1 && f.wait(ctx) == nil {
	}
	if w.waits.Err() != nil {
		return errStopped
	}
	return nil
}

// fence makes sure that every transaction that was begun has ended (FENCED).
func (w *worker) fence() error {
	for {
		ctx, cancel := w.fan.timeout(w.ctx)
		err := w.fan.cfg.Session.Fence(ctx)
		cancel()
		switch {
		case err == nil:
			return nil
		case w.ctx.Err() != nil:
			return errStopped
		case logical.ClassOf(err) == logical.ClassFenced:
			w.fan.fail(err)
			return errStopped
		}
		if w.fan.cfg.OnFailure != nil {
			w.fan.cfg.OnFailure(Failure{Shard: w.shard, Class: logical.ClassOf(err), Err: err})
		}
		if w.retry.Wait(w.waits, err) != nil {
			return errStopped
		}
	}
}

// timeout bounds one call of the session or of a transaction.
func (f *Fan) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.cfg.CallTimeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, f.cfg.CallTimeout)
}

// attempt applies items in one transaction.
func (w *worker) attempt(items []item, merge bool) error {
	w.committed = false
	if err := w.fill(items, merge); err != nil {
		return err
	}
	err := w.transact()
	if err != nil {
		clear(w.prepared) // a table may have gone, or was never there
	}
	return err
}

// setAside stores the letter of one mutation.
func (w *worker) setAside(items []item, r Rejected, letter logical.DeadLetter) error {
	w.forced = &forced{letter, r}
	err := w.try(items, false)
	w.forced = nil
	if err != nil && err != errStopped { // there is no place for the letter
		w.fan.fail(err)
		err = errStopped
	}
	return err
}

// fill makes of items what the transaction is to apply, and what it is to set aside.
func (w *worker) fill(items []item, merge bool) error {
	w.muts, w.hashes = w.muts[:0], w.hashes[:0]
	w.letters, w.settled, w.memo = w.letters[:0], w.settled[:0], nil
	if w.fan.cfg.Memo != nil && items[0].mut.Op.Barrier() {
		w.memo = w.barrierMemo()
	}
	if w.forced != nil {
		w.letters = append(w.letters, w.forced.letter)
		w.settled = append(w.settled, settled{w.forced.r, SetAside})
		return nil
	}
	joins := w.fan.cfg.Joins
	for i := range items {
		it := &items[i]
		if joins != nil && joins(&it.mut) {
			r := w.rejected(it, nil)
			d := w.fan.cfg.OnReject(w.ctx, r)
			switch d.Verdict {
			case SetAside:
				w.letters = append(w.letters, d.Letter)
			case Discard:
			default:
				return errJoins
			}
			w.settled = append(w.settled, settled{r, d.Verdict})
			continue
		}
		w.muts = append(w.muts, it.mut)
		w.hashes = append(w.hashes, it.hash)
	}
	if merge && !w.fan.cfg.Raw && len(w.muts) > 1 {
		w.muts = w.merger.merge(w.muts, w.hashes)
	}
	return nil
}

// barrierMemo returns the memo that goes with a barrier: everything before it has landed.
func (w *worker) barrierMemo() *logical.MemoState {
	w.fan.mu.Lock()
	point, _ := w.fan.progress.Point()
	skip := w.fan.barrier
	w.fan.mu.Unlock()
	memo := w.fan.cfg.Memo(point, skip)
	return &memo
}

// transact runs the transaction that fill has prepared.
func (w *worker) transact() error {
	if len(w.muts) == 0 && len(w.letters) == 0 && w.memo == nil {
		return nil
	}
	if err := w.prepare(); err != nil {
		return err
	}
	ctx, cancel := w.fan.timeout(w.ctx)
	tx, err := w.fan.cfg.Session.Begin(ctx)
	cancel()
	if err != nil {
		return err
	}
	if err := w.fulfil(tx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), rollbackTime)
		defer cancel()
		_ = tx.Rollback(ctx) // the first error says what is wrong, and what ends here never commits
		return err
	}
	return nil
}

// fulfil applies, sets aside and commits.
func (w *worker) fulfil(tx logical.Tx) error {
	if len(w.muts) > 0 {
		ctx, cancel := w.fan.timeout(w.ctx)
		err := tx.Apply(ctx, w.muts)
		cancel()
		if err != nil {
			return err
		}
	}
	if len(w.letters) > 0 {
		ctx, cancel := w.fan.timeout(w.ctx)
		err := tx.SetAside(ctx, w.letters)
		cancel()
		if err != nil {
			return err
		}
	}
	if w.memo != nil {
		ctx, cancel := w.fan.timeout(w.ctx)
		err := tx.SetMemo(ctx, *w.memo)
		cancel()
		if err != nil {
			return err
		}
	}
	w.committed = true
	ctx, cancel := w.fan.timeout(w.ctx)
	defer cancel()
	return tx.Commit(ctx)
}

// prepare tells the target of relations that this workspace has not seen.
func (w *worker) prepare() error {
	w.relations = w.relations[:0]
	var last *logical.Relation
	for i := range w.muts {
		r := w.muts[i].Relation
		if r == last {
			continue
		}
		last = r
		if _, ok := w.prepared[r]; !ok {
			w.prepared[r] = struct{}{}
			w.relations = append(w.relations, r)
		}
	}
	if len(w.relations) == 0 {
		return nil
	}
	if len(w.prepared) > keptRelations {
		clear(w.prepared)
	}
	ctx, cancel := w.fan.timeout(w.ctx)
	defer cancel()
	return w.fan.cfg.Session.Prepare(ctx, w.relations)
}
