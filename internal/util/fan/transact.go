package fan

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
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
	r      Rejected
	v      Verdict
	letter int // its place in the letters, if it was set aside
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

// timed makes one call of the session or of a transaction.
func (f *Fan) timed(ctx context.Context, call func(context.Context) error) error {
	if f.cfg.Timed == nil {
		return call(ctx)
	}
	return f.cfg.Timed(ctx, call)
}

// fence makes sure, in one try, that every transaction that was begun has ended (FENCED).
func (f *Fan) fence(ctx context.Context) error { return f.timed(ctx, f.cfg.Session.Fence) }

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
	if err != nil && !errors.Is(err, errStopped) { // there is no place for the letter
		w.fan.fail(err)
		err = errStopped
	}
	return err
}

// fill makes of items what the transaction is to apply, and what it is to set aside.
func (w *worker) fill(items []item, merge bool) error {
	w.muts, w.hashes = w.muts[:0], w.hashes[:0]
	w.letters, w.settled, w.memo = w.letters[:0], w.settled[:0], nil
	if w.fan.cfg.Memo != nil && items[0].alone {
		w.memo = w.barrierMemo()
	}
	if w.forced != nil {
		w.letters = append(w.letters, w.forced.letter)
		w.settled = append(w.settled, settled{r: w.forced.r, v: SetAside})
		return nil
	}
	joins := w.fan.cfg.Joins
	if joins != nil && !joins.Any() {
		joins = nil
	}
	for i := range items {
		it := &items[i]
		if joins != nil && joins.Joins(w.stampOf(it), it.at, &it.mut) {
			r := w.rejected(it, nil)
			d := w.fan.cfg.OnReject(w.ctx, r)
			switch d.Verdict {
			case SetAside:
				w.letters = append(w.letters, d.Letter)
			case Discard:
			default:
				return errJoins
			}
			w.settled = append(w.settled, settled{r, d.Verdict, len(w.letters) - 1})
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
	var tx logical.Tx
	err := w.fan.timed(w.ctx, func(ctx context.Context) (err error) {
		tx, err = w.fan.cfg.Session.Begin(ctx)
		return err
	})
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
		if err := w.fan.timed(w.ctx, func(ctx context.Context) error { return tx.Apply(ctx, w.muts) }); err != nil {
			return err
		}
	}
	if len(w.letters) > 0 {
		if err := w.fan.timed(w.ctx, func(ctx context.Context) error { return tx.SetAside(ctx, w.letters) }); err != nil {
			return err
		}
	}
	if w.memo != nil {
		if err := w.fan.timed(w.ctx, func(ctx context.Context) error { return tx.SetMemo(ctx, *w.memo) }); err != nil {
			return err
		}
	}
	w.committed = true
	return w.fan.timed(w.ctx, tx.Commit)
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
	return w.fan.timed(w.ctx, func(ctx context.Context) error { return w.fan.cfg.Session.Prepare(ctx, w.relations) })
}
