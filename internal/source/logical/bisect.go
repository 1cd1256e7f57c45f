package logical

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// errAccepted is what a trial ends with that shows nothing wrong.
var errAccepted = &logical.Error{
	Err:   errors.New("the target rejected a transaction, and accepts it when it is tried alone"),
	Class: logical.ClassReject,
}

// bisect finds a mutation that the target rejects, and the reason, by trying parts of the mutations in
// transactions that it rolls back.
//
// First it looks for one that is rejected at once: the last of the shortest prefix that fails. If there is none,
// a constraint is at fault that is checked when the transaction ends. Such a one may be violated for a
// while and fulfilled by a later mutation, so that a prefix which fails says little: the culprit stands
// behind the longest prefix that holds.
func (w *writer) bisect(ctx context.Context, muts []logical.Mutation) (index int, reason, err error) {
	index, reason, err = w.shortest(ctx, muts, false)
	if err != errAccepted {
		return index, reason, err
	}
	index, reason, err = w.shortest(ctx, muts, true)
	if err != nil {
		return 0, nil, err
	}
	rest := append(append([]logical.Mutation(nil), muts[:index]...), muts[index+1:]...)
	if err := w.attempt(ctx, rest, true); err == nil || !refused(err) {
		return index, reason, err
	}
	return w.longest(ctx, muts)
}

// shortest finds a prefix that fails while the next shorter one does not, and returns the place of its last mutation.
func (w *writer) shortest(ctx context.Context, muts []logical.Mutation, atEnd bool) (index int, reason, err error) {
	accepted, rejected := 0, len(muts) // lengths of prefixes
	for n := len(muts); ; n = (accepted + rejected) / 2 {
		err := w.attempt(ctx, muts[:n], atEnd)
		switch {
		case err == nil && n == len(muts):
			return 0, nil, errAccepted
		case err == nil:
			accepted = n
		case refused(err):
			rejected, reason = n, err
		default:
			return 0, nil, err
		}
		if rejected-accepted == 1 {
			return rejected - 1, reason, nil
		}
	}
}

// longest finds the longest prefix that fulfils the constraints which are checked at the end, and
// returns the place of the mutation behind it.
func (w *writer) longest(ctx context.Context, muts []logical.Mutation) (index int, reason, err error) {
	for n := len(muts); n > 0; n-- {
		switch err := w.attempt(ctx, muts[:n], true); {
		case err == nil && n == len(muts):
			return 0, nil, errAccepted
		case err == nil:
			return n, reason, nil
		case refused(err):
			reason = err
		default:
			return 0, nil, err
		}
	}
	return 0, reason, nil
}

// refused reports whether an error speaks of the mutations.
func refused(err error) bool {
	class := logical.ClassOf(err)
	return class == logical.ClassReject || class == logical.ClassConstraint
}

// attempt applies mutations and takes them back. With atEnd, what the target checks at the end of a
// transaction is checked too, as far as it can be.
func (w *writer) attempt(ctx context.Context, muts []logical.Mutation, atEnd bool) error {
	tx, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer w.rollback(tx)
	if err := w.timed(ctx, func(ctx context.Context) error { return tx.Apply(ctx, muts) }); err != nil {
		return err
	}
	if err := w.flush(ctx, tx); err != nil {
		return err
	}
	checker, ok := as[logical.Checker](tx)
	if !atEnd || !ok {
		return nil
	}
	return w.timed(ctx, checker.Check)
}
