package meter

import (
	"context"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Session returns the session with its calls, and those of its transactions, counted.
func (m *Meter) Session(s logical.Session) logical.Session { return &session{s, m} }

// Take takes the loop over at its target, and counts when that fails.
func (m *Meter) Take(ctx context.Context, target logical.Target, claim logical.Claim) (logical.Session, error) {
	s, err := target.Take(ctx, claim)
	return s, m.failed(err, ctx.Err())
}

type session struct {
	logical.Session
	meter *Meter
}

// Unwrap returns the session inside, which may have capabilities that this one has not.
func (s *session) Unwrap() any { return s.Session }

// Prepare implements logical.Session.
func (s *session) Prepare(ctx context.Context, relations []*logical.Relation) error {
	return s.meter.failed(s.Session.Prepare(ctx, relations), ctx.Err())
}

// Fence implements logical.Session.
func (s *session) Fence(ctx context.Context) error {
	s.meter.fences.Add(1)
	return s.meter.failed(s.Session.Fence(ctx), ctx.Err())
}

// LoadMemo implements logical.Memo.
func (s *session) LoadMemo(ctx context.Context) (logical.MemoState, error) {
	state, err := s.Session.LoadMemo(ctx)
	return state, s.meter.failed(err, ctx.Err())
}

// SaveMemo implements logical.Memo.
func (s *session) SaveMemo(ctx context.Context, state logical.MemoState) error {
	return s.meter.failed(s.Session.SaveMemo(ctx, state), ctx.Err())
}

// Begin implements logical.Session.
func (s *session) Begin(ctx context.Context) (logical.Tx, error) {
	begun := time.Now()
	x, err := s.Session.Begin(ctx)
	if err != nil {
		return nil, s.meter.failed(err, ctx.Err())
	}
	return &tx{Tx: x, meter: s.meter, begun: begun}, nil
}

type tx struct {
	logical.Tx
	meter *Meter
	begun time.Time
	rows  int
	ended bool
}

// Unwrap returns the transaction inside, which may have capabilities that this one has not.
func (x *tx) Unwrap() any { return x.Tx }

// Apply implements logical.Tx.
func (x *tx) Apply(ctx context.Context, muts []logical.Mutation) error {
	x.rows += len(muts)
	return x.meter.failed(x.Tx.Apply(ctx, muts), ctx.Err())
}

// SetMemo implements logical.Tx.
func (x *tx) SetMemo(ctx context.Context, state logical.MemoState) error {
	return x.meter.failed(x.Tx.SetMemo(ctx, state), ctx.Err())
}

// SetAside implements logical.Tx.
func (x *tx) SetAside(ctx context.Context, letters []logical.DeadLetter) error {
	return x.meter.failed(x.Tx.SetAside(ctx, letters), ctx.Err())
}

// TakeBack implements logical.Tx.
func (x *tx) TakeBack(ctx context.Context, ids []int64) error {
	return x.meter.failed(x.Tx.TakeBack(ctx, ids), ctx.Err())
}

// Commit implements logical.Tx.
func (x *tx) Commit(ctx context.Context) error {
	if err := x.Tx.Commit(ctx); err != nil {
		return x.meter.failed(err, ctx.Err())
	}
	now := time.Now()
	x.ended = true
	x.meter.commits.Add(1)
	x.meter.lastCommit.Store(now.UnixNano())
	x.meter.rows.observe(float64(x.rows))
	x.meter.seconds.observe(now.Sub(x.begun).Seconds())
	return nil
}

// Rollback implements logical.Tx.
func (x *tx) Rollback(ctx context.Context) error {
	if !x.ended {
		x.ended = true
		x.meter.rollbacks.Add(1)
	}
	return x.Tx.Rollback(ctx)
}
