package influx

import (
	"context"
	"slices"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A tx is one transaction, which is none to the remote: Apply sends, and what was sent stays. Only dead
// letters wait for Commit.
type tx struct {
	s       *session
	epoch   uint64
	sent    bool // guarded by the session's mu
	failed  bool // it may only be rolled back
	letters []logical.DeadLetter
	back    []int64 // letters that were applied after all
}

var _ logical.Tx = (*tx)(nil)

// Apply sends the mutations' lines, in order. It returns when the remote has stored all but those that the
// error lists.
func (x *tx) Apply(ctx context.Context, muts []logical.Mutation) (err error) {
	defer func() { x.failed = x.failed || err != nil }()
	if err := x.s.sending(x); err != nil {
		return err
	}
	for i := range muts {
		if len(muts[i].Raw) == 0 {
			return &logical.Error{
				Err:      errors.Errorf("influx: a mutation of %s does not come from line protocol", muts[i].Relation),
				Class:    logical.ClassReject,
				Hint:     "give the stream a SQL target",
				Rejected: []logical.Rejection{{Index: i, Reason: errors.New("it is no line of line protocol")}},
			}
		}
	}
	done := x.s.done.skip(muts)
	sent := sending{t: x.s.t, muts: muts, next: done, patience: patience(ctx)}
	err = sent.all(ctx)
	if err != nil && logical.ClassOf(err) != logical.ClassReject {
		x.s.done.note(muts[:sent.accepted()])
	}
	return err
}

// SetMemo does nothing: the source's cursor is the consistent point.
func (x *tx) SetMemo(ctx context.Context, _ logical.MemoState) error { return x.s.check(ctx) }

// SetAside keeps letters for Commit.
func (x *tx) SetAside(_ context.Context, letters []logical.DeadLetter) error {
	if x.s.t.cfg.DeadLetters == nil {
		return errNoLetters()
	}
	for _, l := range letters {
		l.Loop = x.s.claim.Loop
		l.Stamp, l.Key, l.Payload = slices.Clone(l.Stamp), slices.Clone(l.Key), slices.Clone(l.Payload)
		x.letters = append(x.letters, l)
	}
	return nil
}

// TakeBack keeps the IDs for Commit: the lines have been sent by then.
func (x *tx) TakeBack(_ context.Context, ids []int64) error {
	if x.s.t.cfg.DeadLetters == nil {
		return errNoLetters()
	}
	x.back = append(x.back, ids...)
	return nil
}

// Commit removes the dead letters that were taken back, and stores the new ones: a letter that is rejected again is
// both.
func (x *tx) Commit(ctx context.Context) error {
	if x.failed {
		return errors.New("influx: the transaction has failed, and can only be rolled back")
	}
	if err := x.s.sending(x); err != nil {
		return err
	}
	if len(x.letters)+len(x.back) > 0 {
		if err := x.s.t.cfg.DeadLetters.Exchange(ctx, x.s.claim.Loop, x.back, x.letters); err != nil {
			return err
		}
		x.s.t.facts.setAside(x.letters)
	}
	x.s.forget(x)
	return nil
}

// Rollback forgets the dead letters. What was sent stays sent.
func (x *tx) Rollback(context.Context) error {
	x.s.forget(x)
	return nil
}

// ListDeadLetters implements logical.DeadLetters.
func (t *Target) ListDeadLetters(ctx context.Context, loop string, after int64, limit int) ([]logical.DeadLetter, error) {
	if t.cfg.DeadLetters == nil {
		return nil, nil
	}
	return t.cfg.DeadLetters.ListDeadLetters(ctx, loop, after, limit)
}

// CountDeadLetters implements logical.DeadLetters.
func (t *Target) CountDeadLetters(ctx context.Context, loop string) (n, bytes int64, err error) {
	if t.cfg.DeadLetters == nil {
		return 0, 0, nil
	}
	return t.cfg.DeadLetters.CountDeadLetters(ctx, loop)
}

// DiscardDeadLetters implements logical.DeadLetters.
func (t *Target) DiscardDeadLetters(ctx context.Context, loop string, ids []int64) error {
	if t.cfg.DeadLetters == nil {
		return errNoLetters()
	}
	return t.cfg.DeadLetters.DiscardDeadLetters(ctx, loop, ids)
}

func errNoLetters() error { return errors.New("influx: there is no store for dead letters") }
