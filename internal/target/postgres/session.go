package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/lease"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A session is a loop's hold on the database: its epoch, and a lease that is kept alive.
type session struct {
	*lease.Keeper
	t     *Target
	claim logical.Claim
	epoch atomic.Int64
}

var _ logical.Session = (*session)(nil)

// Begin starts a transaction. It takes a connection when it has something to send.
func (s *session) Begin(ctx context.Context) (logical.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Wrap(err, "postgres: begin")
	}
	if err := s.t.open(); err != nil {
		return nil, err
	}
	return &tx{s: s, pool: s.t.data, epoch: s.epoch.Load()}, nil
}

// LoadMemo returns what was last stored for the loop.
func (s *session) LoadMemo(ctx context.Context) (state logical.MemoState, err error) {
	err = s.t.transact(ctx, func(tx pgx.Tx) error {
		state = logical.MemoState{}
		var epoch int64
		var point, mode *string
		var pointTime, since *time.Time
		var skip *int
		err := tx.QueryRow(ctx, `SELECT e.epoch, m.point, m.point_time, m.mode, m.consistent_since, m.skip
FROM `+s.t.staging+`epochs AS e LEFT JOIN `+s.t.staging+`memo AS m USING (loop) WHERE e.loop = $1`, s.claim.Loop).
			Scan(&epoch, &point, &pointTime, &mode, &since, &skip)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && epoch != s.epoch.Load() {
			return fenced(s.claim.Loop)
		}
		if point != nil {
			state.Point = []byte(*point)
		}
		if mode != nil {
			state.Mode = *mode
		}
		if skip != nil {
			state.Skip = *skip
		}
		state.PointTime, state.ConsistentSince = orZero(pointTime), orZero(since)
		return err
	})
	return state, s.noteFenced(err)
}

// SaveMemo stores the memo in a transaction of its own, which never waits for data.
func (s *session) SaveMemo(ctx context.Context, state logical.MemoState) error {
	if err := s.t.open(); err != nil {
		return err
	}
	x := &tx{s: s, pool: s.t.control, epoch: s.epoch.Load()}
	if err := x.SetMemo(ctx, state); err != nil {
		_ = x.Rollback(ctx) // The error of the memo is the one to report.
		return err
	}
	err := x.Commit(ctx)
	if err != nil {
		_ = x.Rollback(ctx) // The same.
	}
	return err
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
