package logical

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/logical"
)

// writer is what the sinks of one run of a loop share: the session, the budget, and how a target
// transaction is tried, settled and tried again.
type writer struct {
	ctx     context.Context
	fail    func(error) // ends the run
	loop    *Loop
	session logical.Session
	traits  logical.Traits
	budget  *budget.Budget
	config  logical.Config

	// prepared holds the relations that the session has been told of. Only the goroutine that
	// applies uses it.
	prepared map[*logical.Relation]struct{}
	scratch  []logical.Mutation
	// skip is how many mutations of the first transaction are in the target already. It belongs to
	// the caller of Events.
	skip int
	// guests are calls from outside that use the session; see Loop.visit.
	guests sync.WaitGroup
	visits context.Context // that of the guests
}

// maxPrepared bounds the relations that are remembered as prepared; asking again is cheap.
const maxPrepared = 4096

// hastyConflicts is how often a transaction that lost against another one is tried again without a delay.
const hastyConflicts = 3

// applyWhole applies whole source transactions in one target transaction, and does not give up
// before they have landed, ctx ends, or the loop is fenced out: they are in memory, so that there is
// no need to read them again.
func (w *writer) applyWhole(ctx context.Context, batch []*segment) error {
	last := batch[len(batch)-1].stamp
	muts := w.join(batch)
	defer clear(w.scratch)
	place := places(batch...)
	bad := w.joined(muts, place, nil, newOpenLetters())
	for tries, conflicts := w.loop.newTries(), 0; ; {
		err := w.roomFor(bad, errJoined)
		if err == nil {
			err = w.try(ctx, muts, last, bad)
		}
		if err == nil {
			break
		}
		// The target may have forgotten what it was told: a table that somebody dropped, a restore.
		clear(w.prepared)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch logical.ClassOf(err) {
		case logical.ClassFenced:
			return err
		case logical.ClassReject, logical.ClassConstraint:
			var grown badMutations
			if grown, err = w.reject(ctx, muts, place, bad, err); err == nil {
				bad = w.joined(muts, place, grown, newOpenLetters())
				continue
			}
		case logical.ClassUnknownCommit, logical.ClassRetry, logical.ClassConflict:
		}
		w.loop.failed(err)
		conflict := logical.ClassOf(err) == logical.ClassConflict // it was rolled back by the target itself
		if conflict {
			conflicts++
		}
		if !conflict || conflicts > hastyConflicts {
			if err := tries.wait(ctx, err); err != nil {
				return err
			}
		}
		if conflict {
			continue
		}
		landed, err := w.settle(ctx, last)
		if err != nil {
			return err
		}
		if landed {
			break
		}
	}
	w.settledBad(bad)
	w.landed(last, len(batch), len(muts), bad)
	return nil
}

// join puts the mutations of the batch into one slice.
func (w *writer) join(batch []*segment) []logical.Mutation {
	if len(batch) == 1 {
		return batch[0].muts
	}
	muts := w.scratch[:0]
	for _, seg := range batch {
		muts = append(muts, seg.muts...)
	}
	w.scratch = muts
	return muts
}

// try makes one attempt at a target transaction that carries muts without the bad ones, the dead
// letters of these, and the memo.
func (w *writer) try(ctx context.Context, muts []logical.Mutation, stamp logical.Stamp, bad badMutations) error {
	if err := w.prepare(ctx, muts); err != nil {
		return err
	}
	tx, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer w.rollback(tx)
	if err := w.applyTo(ctx, tx, muts, bad); err != nil {
		return err
	}
	return w.commit(ctx, tx, stamp)
}

// applyTo applies muts without the bad ones, and sets these aside.
func (w *writer) applyTo(ctx context.Context, tx logical.Tx, muts []logical.Mutation, bad badMutations) error {
	if good := bad.without(muts); len(good) > 0 {
		if err := w.timed(ctx, func(ctx context.Context) error { return tx.Apply(ctx, good) }); err != nil {
			return err
		}
	}
	return w.setAside(ctx, tx, bad)
}

// setAside stores the letters of the bad mutations.
func (w *writer) setAside(ctx context.Context, tx logical.Tx, bad badMutations) error {
	if len(bad) == 0 || w.config.OnReject != logical.RejectDeadLetter {
		return nil
	}
	return w.timed(ctx, func(ctx context.Context) error { return tx.SetAside(ctx, bad.letters()) })
}

// applyNow applies mutations, and has every rejection told now.
func (w *writer) applyNow(ctx context.Context, tx logical.Tx, muts []logical.Mutation) error {
	if len(muts) > 0 {
		if err := w.timed(ctx, func(ctx context.Context) error { return tx.Apply(ctx, muts) }); err != nil {
			return err
		}
	}
	return w.flush(ctx, tx)
}

// flush has the transaction send what it holds back, so that every rejection is told now.
func (w *writer) flush(ctx context.Context, tx logical.Tx) error {
	return w.timed(ctx, func(ctx context.Context) error { return tx.Apply(ctx, nil) })
}

// prepareInside is prepare while a transaction is open. Making a table disturbs nobody; where a column is
// missing in a table that the transaction has written to, its own lock is in the way. So it is given little
// time, and then the transaction is given up, the table extended, and the transaction read again.
func (w *writer) prepareInside(ctx context.Context, tx logical.Tx, muts []logical.Mutation) error {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := w.prepare(short, muts)
	if err == nil || ctx.Err() != nil || logical.ClassOf(err) == logical.ClassFenced {
		return err
	}
	w.rollback(tx)
	if err := w.prepare(ctx, muts); err != nil {
		return err
	}
	return errReadAgain
}

// prepare tells the session of relations that it has not been told of.
func (w *writer) prepare(ctx context.Context, muts []logical.Mutation) error {
	var fresh []*logical.Relation
	var known *logical.Relation
	for i := range muts {
		rel := muts[i].Relation
		if rel == known {
			continue
		}
		known = rel
		if _, ok := w.prepared[rel]; !ok {
			if len(w.prepared) >= maxPrepared {
				clear(w.prepared)
			}
			w.prepared[rel] = struct{}{}
			fresh = append(fresh, rel)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	err := w.timed(ctx, func(ctx context.Context) error { return w.session.Prepare(ctx, fresh) })
	if err != nil {
		for _, rel := range fresh {
			delete(w.prepared, rel)
		}
	}
	return err
}

func (w *writer) begin(ctx context.Context) (tx logical.Tx, err error) {
	err = w.timed(ctx, func(ctx context.Context) error {
		tx, err = w.session.Begin(ctx)
		return err
	})
	return tx, err
}

// commit stores the memo and commits.
func (w *writer) commit(ctx context.Context, tx logical.Tx, stamp logical.Stamp) error {
	state, err := w.loop.memoState(stamp)
	if err != nil {
		return err
	}
	if err := w.timed(ctx, func(ctx context.Context) error { return tx.SetMemo(ctx, state) }); err != nil {
		return err
	}
	return w.timed(ctx, tx.Commit)
}

// rollback gives a transaction up; after a commit it does nothing. It must work when the context of
// the attempt has ended, and it must not take long.
func (w *writer) rollback(tx logical.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), time.Second)
	defer cancel()
	_ = tx.Rollback(ctx) // what it could not undo is undone by the fence before the next attempt
}

// declare stores the memo as it is now, and tries until that is done. An attempt whose outcome is not known
// is fenced, so that it cannot take effect later, over a newer memo.
func (w *writer) declare(ctx context.Context, skip int) error {
	for tries := w.loop.newTries(); ; {
		state, err := w.loop.memoState(w.loop.point())
		if err != nil {
			return err
		}
		state.Skip = skip
		err = w.timed(ctx, func(ctx context.Context) error { return w.session.SaveMemo(ctx, state) })
		if err == nil {
			w.loop.succeeded()
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if logical.ClassOf(err) == logical.ClassFenced {
			return err
		}
		w.loop.failed(err)
		if err := tries.wait(ctx, err); err != nil {
			return err
		}
		if _, err := w.settle(ctx, w.loop.point()); err != nil {
			return err
		}
	}
}

// settle finds out whether the last attempt landed after all, and makes sure that it never will if it
// has not (FENCED). It returns an error when ctx ends or the loop is fenced out.
func (w *writer) settle(ctx context.Context, stamp logical.Stamp) (landed bool, err error) {
	for tries := w.loop.newTries(); ; {
		if landed, err = w.settleOnce(ctx, stamp); err == nil {
			return landed, nil
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if logical.ClassOf(err) == logical.ClassFenced {
			return false, err
		}
		w.loop.failed(err)
		if err := tries.wait(ctx, err); err != nil {
			return false, err
		}
	}
}

func (w *writer) settleOnce(ctx context.Context, stamp logical.Stamp) (landed bool, err error) {
	if err := w.timed(ctx, w.session.Fence); err != nil {
		return false, err
	}
	if !w.traits.Transactional {
		return false, nil
	}
	var state logical.MemoState
	err = w.timed(ctx, func(ctx context.Context) error {
		state, err = w.session.LoadMemo(ctx)
		return err
	})
	if err != nil || state.Point == nil {
		return false, err
	}
	stored, err := w.loop.dialect.DecodeStamp(state.Point)
	if err != nil {
		return false, err
	}
	return stored.Compare(stamp) >= 0, nil
}

// landed reports that everything up to stamp is durably in the target: so many transactions with so many
// mutations, of which some were bad.
func (w *writer) landed(stamp logical.Stamp, txs, rows int, bad badMutations) {
	if last := bad.trailing(rows); last < rows {
		w.loop.rejectRun.Store(int64(last))
	} else {
		w.loop.rejectRun.Add(int64(bad.rejected()))
	}
	w.loop.advance(stamp)
	w.loop.landed(txs, rows-len(bad))
}

// timed runs one statement within --applyTimeout.
func (w *writer) timed(ctx context.Context, f func(context.Context) error) error {
	timeout := w.config.ApplyTimeout
	silent := errors.Errorf("the target did not answer within --applyTimeout (%s)", timeout)
	timed, cancel := context.WithTimeoutCause(ctx, timeout, silent)
	defer cancel()
	err := f(timed)
	switch {
	case err == nil || ctx.Err() != nil || timed.Err() == nil:
		return err
	case errors.Is(err, silent): // the target passes on why a context has ended
		silent = err
	case errors.Is(err, context.DeadlineExceeded):
		silent = errors.WithMessage(silent, err.Error())
	default:
		return err
	}
	return &logical.Error{
		Err: silent, Class: logical.ClassOf(err),
		Hint: "look for a lock held in the target, or raise --applyTimeout",
	}
}

// encodeStamp returns what is stored of a stamp.
func encodeStamp(stamp logical.Stamp) (json.RawMessage, error) {
	text, err := json.Marshal(stamp)
	return text, errors.Wrapf(err, "logical: the stamp %v cannot be stored", stamp)
}
