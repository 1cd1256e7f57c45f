package chaos

import (
	"context"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A tx belongs to one goroutine, until its commit is on its way.
type tx struct {
	logical.Tx
	session *session
	sent    bool // the commit comes late, and is no longer in its client's hands
}

// Unwrap returns the transaction inside.
func (x *tx) Unwrap() any { return x.Tx }

// Apply implements logical.Tx. It can lose against another transaction.
func (x *tx) Apply(ctx context.Context, muts []logical.Mutation) error {
	s, err := x.strike(ctx, "apply")
	if err != nil {
		return err
	}
	if s.way == before && s.choose(2) == 0 {
		return s.err(logical.ClassConflict)
	}
	return s.around(func() error { return x.Tx.Apply(ctx, muts) })
}

// SetMemo implements logical.Tx.
func (x *tx) SetMemo(ctx context.Context, state logical.MemoState) error {
	s, err := x.strike(ctx, "set memo")
	if err != nil {
		return err
	}
	return s.around(func() error { return x.Tx.SetMemo(ctx, state) })
}

// SetAside implements logical.Tx.
func (x *tx) SetAside(ctx context.Context, letters []logical.DeadLetter) error {
	s, err := x.strike(ctx, "set aside")
	if err != nil {
		return err
	}
	return s.around(func() error { return x.Tx.SetAside(ctx, letters) })
}

// TakeBack implements logical.Tx.
func (x *tx) TakeBack(ctx context.Context, ids []int64) error {
	s, err := x.strike(ctx, "take back")
	if err != nil {
		return err
	}
	return s.around(func() error { return x.Tx.TakeBack(ctx, ids) })
}

func (x *tx) strike(ctx context.Context, site string) (strike, error) {
	if err := x.session.held(); err != nil {
		return strike{}, err
	}
	return x.session.chaos.strike(ctx, x.session.loop, site)
}

// Commit implements logical.Tx. Most of what can happen to it leaves its client without an answer.
func (x *tx) Commit(ctx context.Context) error {
	s, err := x.strike(ctx, "commit")
	if err != nil {
		return err
	}
	switch {
	case s.way == before && s.choose(4) == 0:
		return s.err(logical.ClassConflict)
	case s.way == before && s.choose(4) == 1:
		s.way = late
		x.commitLater(s.d)
		return s.err(logical.ClassUnknownCommit)
	case s.way == before:
		return s.err(logical.ClassUnknownCommit)
	}
	if err := x.Tx.Commit(ctx); err != nil || s.way != after {
		return err
	}
	return s.err(logical.ClassUnknownCommit)
}

// commitLater commits when its client has been told that nobody knows.
func (x *tx) commitLater(d time.Duration) {
	x.sent = true
	ctx, cancel := context.WithTimeout(context.Background(), d+x.session.chaos.cfg.Stall)
	x.session.late.Go(func() {
		defer cancel()
		if sleep(ctx, d) != nil || x.Tx.Commit(ctx) != nil {
			_ = x.Tx.Rollback(ctx) // nobody waits for the answer
		}
	})
}

// Rollback implements logical.Tx.
func (x *tx) Rollback(ctx context.Context) error {
	if x.sent {
		return nil
	}
	return x.Tx.Rollback(ctx)
}
