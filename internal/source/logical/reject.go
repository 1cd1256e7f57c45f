package logical

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// badMutations are the indexes, in ascending order, of the mutations that the target rejects, with
// their reasons.
type badMutations struct {
	at      []int
	reasons []error
	bytes   int64 // of their dead letters
}

func (b *badMutations) add(i int, reason error) {
	at, found := slices.BinarySearch(b.at, i)
	if !found {
		b.at = slices.Insert(b.at, at, i)
		b.reasons = slices.Insert(b.reasons, at, reason)
	}
}

// without returns the mutations that are not bad.
func (b *badMutations) without(muts []logical.Mutation) []logical.Mutation {
	if len(b.at) == 0 {
		return muts
	}
	good := make([]logical.Mutation, 0, len(muts)-len(b.at))
	from := 0
	for _, i := range b.at {
		good = append(good, muts[from:i]...)
		from = i + 1
	}
	return append(good, muts[from:]...)
}

// part returns the bad ones among the n mutations from base on, counted from base.
func (b *badMutations) part(base, n int) badMutations {
	from, _ := slices.BinarySearch(b.at, base)
	to, _ := slices.BinarySearch(b.at, base+n)
	part := badMutations{reasons: slices.Clone(b.reasons[from:to])}
	for _, i := range b.at[from:to] {
		part.at = append(part.at, i-base)
	}
	return part
}

// index translates a position among the good mutations into one among all.
func (b *badMutations) index(good int) int {
	for _, i := range b.at {
		if i <= good {
			good++
		}
	}
	return good
}

// reject finds out which mutations the target rejects. It returns an error when the policy is to
// stop, when the dead letters would grow over their bound, or when it could not find out.
func (w *writer) reject(ctx context.Context, muts []logical.Mutation, stamp logical.Stamp, bad *badMutations, cause error) error {
	if w.config.OnReject == logical.RejectStop {
		return cause
	}
	if err := w.find(ctx, muts, bad, cause); err != nil {
		return err
	}
	return w.roomFor(muts, stamp, bad, cause)
}

// roomFor reports an error if the letters of the bad mutations would exceed the bound.
func (w *writer) roomFor(muts []logical.Mutation, stamp logical.Stamp, bad *badMutations, cause error) error {
	bad.bytes = 0
	for _, letter := range w.letters(muts, stamp, bad) {
		bad.bytes += letter.Size()
	}
	if w.letterBytes.Load()+bad.bytes <= w.config.MaxDeadLetterBytes {
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

// rejectPart handles the rejection of a part of a streamed transaction: the bad mutations are
// remembered, by their position in the transaction, for when the source is read again.
func (w *writer) rejectPart(ctx context.Context, seg *segment, base int, part, all *badMutations, cause error) error {
	if class := logical.ClassOf(cause); class != logical.ClassReject && class != logical.ClassConstraint {
		return cause
	}
	if err := w.reject(ctx, seg.muts, seg.stamp, part, cause); err != nil {
		return err
	}
	for n, i := range part.at {
		all.add(base+i, part.reasons[n])
	}
	all.bytes += part.bytes
	w.loop.rememberBad(seg.stamp, all)
	return errReadAgain
}

// errReadAgain restarts a loop at once: nothing is wrong with the source or the target.
var errReadAgain = errors.New("the transaction is read again to leave out what the target rejects")

// find adds the mutations that the cause is about to the bad ones.
func (w *writer) find(ctx context.Context, muts []logical.Mutation, bad *badMutations, cause error) error {
	list := logical.RejectedOf(cause)
	if len(list) == 0 {
		i, reason, err := w.bisect(ctx, bad.without(muts))
		if err != nil {
			return err
		}
		list = []logical.Rejection{{Index: i, Reason: reason}}
	}
	known := badMutations{at: slices.Clone(bad.at)}
	for _, r := range list {
		bad.add(known.index(r.Index), r.Reason)
	}
	return nil
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
			return 0, nil, errors.New("the target rejected a transaction as a whole and accepts its parts")
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

// letters makes the dead letters of the bad mutations, or none where they are discarded.
func (w *writer) letters(muts []logical.Mutation, stamp logical.Stamp, bad *badMutations) []logical.DeadLetter {
	if len(bad.at) == 0 || w.config.OnReject != logical.RejectDeadLetter {
		return nil
	}
	position, err := encodeStamp(stamp)
	if err != nil {
		position = json.RawMessage("null")
	}
	letters := make([]logical.DeadLetter, len(bad.at))
	for n, i := range bad.at {
		letters[n] = logical.NewDeadLetter(&muts[i], w.loop.identity, position, bad.reasons[n], time.Now())
	}
	return letters
}

// countRejected makes what was set aside visible (NOTHING SILENT), once it has been committed.
func (w *writer) countRejected(bad *badMutations) {
	if len(bad.at) > 0 {
		w.letterBytes.Add(bad.bytes)
		w.loop.rejected(len(bad.at), bad.reasons[0])
	}
}
