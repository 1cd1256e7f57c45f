package sqlite

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A tx is one transaction of a session. It has no writer until it has something to say.
type tx struct {
	s     *session
	epoch int64 // of the session when the transaction was begun
	w     *writer
	ended bool
	err   error // what went wrong; only Rollback may follow
}

var _ logical.Tx = (*tx)(nil)

// Apply applies mutations one after the other. Relations that were not prepared are prepared within
// the transaction.
func (x *tx) Apply(ctx context.Context, muts []logical.Mutation) error {
	return x.do(ctx, func(w *writer) error { return w.apply(muts) })
}

// SetMemo stores the loop's memo as part of the transaction.
func (x *tx) SetMemo(ctx context.Context, state logical.MemoState) error {
	return x.do(ctx, func(w *writer) error { return w.saveMemo(x.s.claim.Loop, state, x.s.t.now()) })
}

// SetAside stores dead letters as part of the transaction.
func (x *tx) SetAside(ctx context.Context, letters []logical.DeadLetter) error {
	return x.do(ctx, func(w *writer) error { return w.setAside(x.s.claim.Loop, letters, x.s.t.now()) })
}

// TakeBack removes dead letters as part of the transaction.
func (x *tx) TakeBack(ctx context.Context, ids []int64) error {
	return x.do(ctx, func(w *writer) error { return w.removeLetters(x.s.claim.Loop, ids) })
}

// Commit ends the transaction. A lease that is due is renewed in it, which costs nothing.
func (x *tx) Commit(ctx context.Context) error {
	err := x.do(ctx, func(w *writer) error {
		if x.s.Due() <= 0 {
			if err := x.s.renewIn(w, x.epoch); err != nil {
				return err
			}
		}
		return w.commit()
	})
	x.end(err != nil)
	return err
}

// Rollback gives the transaction up.
func (x *tx) Rollback(context.Context) error {
	x.end(true)
	return nil
}

// do runs a part of the transaction.
func (x *tx) do(ctx context.Context, part func(w *writer) error) error {
	switch {
	case x.ended:
		return errors.New("sqlite: the transaction has ended")
	case x.err != nil:
		return errors.WithMessage(x.err, "sqlite: the transaction has failed before")
	}
	x.err = x.start(ctx)
	if x.err == nil {
		x.w.db.SetInterrupt(ctx)
		x.err = part(x.w)
		x.w.db.SetInterrupt(context.Background())
	}
	if x.err != nil {
		x.free(true) // nobody has to wait for the caller's Rollback
	}
	return x.err
}

// start takes the writer, begins, and proves the epoch.
func (x *tx) start(ctx context.Context) error {
	if x.w != nil {
		return nil
	}
	w, err := x.s.t.acquire(ctx)
	if err != nil {
		return err
	}
	w.db.SetInterrupt(ctx)
	if err := w.begin(); err != nil {
		w.db.SetInterrupt(context.Background())
		x.s.t.release(w)
		return err
	}
	x.w = w
	x.s.count(1)
	return x.s.check(w, x.epoch)
}

// end ends the transaction, once.
func (x *tx) end(rollback bool) {
	if !x.ended {
		x.ended = true
		x.free(rollback)
	}
}

// free gives the writer back.
func (x *tx) free(rollback bool) {
	if x.w == nil {
		return
	}
	if rollback {
		x.w.rollback()
	}
	x.s.count(-1)
	x.s.t.release(x.w)
	x.w = nil
}

func (s *session) count(n int) {
	s.mu.Lock()
	s.writing += n
	s.mu.Unlock()
}
