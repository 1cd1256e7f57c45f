package logical

import (
	"context"
	"slices"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// errAccepted is what a trial ends with that shows nothing wrong.
var errAccepted = &logical.Error{
	Err:   errors.New("the target rejected a transaction, and accepts it when it is tried alone"),
	Class: logical.ClassReject,
}

// bisect finds mutations that the target rejects, with their reasons, by trying parts of all in transactions
// that it rolls back.
//
// First it looks for one that is rejected at once: the last of the shortest prefix that fails. If there is none,
// a constraint is at fault that is checked when the transaction ends. Such a one may be violated for a
// while and fulfilled by a later mutation, so that a prefix which fails says nothing.
func (w *writer) bisect(ctx context.Context, muts []logical.Mutation) ([]logical.Rejection, error) {
	index, reason, err := w.shortest(ctx, muts)
	if err == nil {
		return []logical.Rejection{{Index: index, Reason: reason}}, nil
	}
	if !errors.Is(err, errAccepted) {
		return nil, err
	}
	switch err := w.attempt(ctx, muts, true); {
	case err == nil:
		return nil, errAccepted
	case !refused(err):
		return nil, err
	}
	return w.few(ctx, muts)
}

// shortest finds a prefix that fails while the next shorter one does not, and returns the place of its last mutation.
func (w *writer) shortest(ctx context.Context, muts []logical.Mutation) (index int, reason, err error) {
	accepted, rejected := 0, len(muts) // lengths of prefixes
	for n := len(muts); ; n = (accepted + rejected) / 2 {
		err := w.attempt(ctx, muts[:n], false)
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

// few finds as few mutations as it can without which the others fulfil all constraints. It begins by leaving out
// all of them, and takes back what does no harm, in parts that become smaller.
func (w *writer) few(ctx context.Context, muts []logical.Mutation) ([]logical.Rejection, error) {
	out := make([]logical.Rejection, len(muts))
	for i := range out {
		out[i].Index = i
	}
	for size := (len(out) + 1) / 2; ; size = max(1, size/2) {
		before := len(out)
		for from := 0; from < len(out); {
			to := min(from+size, len(out))
			rest := slices.Concat(out[:from], out[to:])
			switch err := w.attempt(ctx, without(muts, rest), true); {
			case err == nil:
				out = rest
			case refused(err):
				out[from].Reason = err // that of the last try counts, which is of one alone
				from = to
			default:
				return nil, err
			}
		}
		if size == 1 && len(out) == before {
			return out, nil
		}
	}
}

// without returns the mutations that are not among those left out.
func without(muts []logical.Mutation, out []logical.Rejection) []logical.Mutation {
	left := make([]logical.Mutation, 0, len(muts)-len(out))
	from := 0
	for _, r := range out {
		left = append(left, muts[from:r.Index]...)
		from = r.Index + 1
	}
	return append(left, muts[from:]...)
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
