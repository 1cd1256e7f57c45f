package logical

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// errReadAgain restarts a loop at once: nothing is wrong with the source or the target.
var errReadAgain = errors.New("the transaction is read again")

// stampOf returns the stamp of the transaction that the i-th mutation belongs to.
type stampOf func(i int) logical.Stamp

func always(stamp logical.Stamp) stampOf { return func(int) logical.Stamp { return stamp } }

// stampsOf returns the stamps of joined transactions.
func stampsOf(batch []*segment) stampOf {
	return func(i int) logical.Stamp {
		for _, seg := range batch {
			if i < len(seg.muts) {
				return seg.stamp
			}
			i -= len(seg.muts)
		}
		return batch[len(batch)-1].stamp
	}
}

// reject finds out which mutations the target rejects, and returns the bad ones with them. It returns
// an error when the policy is to stop, when the dead letters would grow over their bound, or when it
// could not find out.
func (w *writer) reject(ctx context.Context, muts []logical.Mutation, stamps stampOf, bad badMutations, cause error) (badMutations, error) {
	if w.config.OnReject == logical.RejectStop {
		return bad, cause
	}
	list := logical.RejectedOf(cause)
	if len(list) == 0 {
		i, reason, err := w.bisect(ctx, bad.without(muts))
		if err != nil {
			return bad, err
		}
		list = []logical.Rejection{{Index: i, Reason: reason}}
	}
	grown := bad
	for _, r := range list {
		at := bad.index(r.Index)
		grown = grown.with(w.bad(&muts[at], at, stamps(at), r.Reason))
	}
	return grown, w.roomFor(grown, cause)
}

// bad makes the record of a bad mutation.
func (w *writer) bad(m *logical.Mutation, at int, stamp logical.Stamp, reason error) badMutation {
	position, err := encodeStamp(stamp)
	if err != nil {
		position = json.RawMessage("null")
	}
	return badMutation{at: at, reason: reason, letter: logical.NewDeadLetter(m, w.loop.identity, position, reason, time.Now())}
}

// roomFor reports an error if the letters of the bad mutations would exceed the bound.
func (w *writer) roomFor(bad badMutations, cause error) error {
	if w.config.OnReject != logical.RejectDeadLetter || w.letterBytes.Load()+bad.bytes() <= w.config.MaxDeadLetterBytes {
		return nil
	}
	return tooManyLetters(cause)
}

func tooManyLetters(cause error) error {
	return &logical.Error{
		Err:   errors.WithMessage(cause, "the dead letters of this loop have reached their bound"),
		Class: logical.ClassReject,
		Hint:  "mend the cause, then replay or discard the dead letters",
	}
}

// rejectPart handles the rejection of a part of a streamed transaction, which begins at base: the bad
// mutations are remembered, by their places in the transaction, for when the source is read again.
func (w *writer) rejectPart(ctx context.Context, seg *segment, base int, all badMutations, cause error) error {
	if class := logical.ClassOf(cause); class != logical.ClassReject && class != logical.ClassConstraint {
		return cause
	}
	part, err := w.reject(ctx, seg.muts, always(seg.stamp), all.part(base, len(seg.muts)), cause)
	if err != nil {
		return err
	}
	for _, m := range part.moved(base) {
		all = all.with(m)
	}
	if err := w.roomFor(all, cause); err != nil {
		return err
	}
	w.loop.rememberBad(seg.stamp, all)
	return errReadAgain
}

// bisect finds the first mutation that the target rejects, and the reason, by trying prefixes in
// transactions that it rolls back.
func (w *writer) bisect(ctx context.Context, muts []logical.Mutation) (index int, reason, err error) {
	accepted, rejected := 0, len(muts) // lengths of prefixes
	for n := len(muts); ; n = (accepted + rejected) / 2 {
		err := w.attempt(ctx, muts[:n])
		class := logical.ClassOf(err)
		switch {
		case err == nil && n == len(muts):
			return 0, nil, &logical.Error{
				Err:   errors.New("the target rejected a transaction, and accepts it when it is tried alone"),
				Class: logical.ClassReject,
			}
		case err == nil:
			accepted = n
		case class == logical.ClassReject || class == logical.ClassConstraint:
			rejected, reason = n, err
		default:
			return 0, nil, err
		}
		if rejected-accepted == 1 {
			return rejected - 1, reason, nil
		}
	}
}

// attempt applies mutations and takes them back.
func (w *writer) attempt(ctx context.Context, muts []logical.Mutation) error {
	tx, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer w.rollback(tx)
	if err := w.timed(ctx, func(ctx context.Context) error { return tx.Apply(ctx, muts) }); err != nil {
		return err
	}
	return w.flush(ctx, tx)
}

// settledBad makes what was set aside visible (NOTHING SILENT), once it has been committed.
func (w *writer) settledBad(bad badMutations) {
	if len(bad) == 0 {
		return
	}
	if w.config.OnReject == logical.RejectDeadLetter {
		w.letterBytes.Add(bad.bytes())
	}
	w.loop.rejected(len(bad), bad[0].reason)
}
