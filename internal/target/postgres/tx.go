package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// deferBytes is how much a transaction may hold back. A small one is sent as a whole with its
// COMMIT, in one round trip.
const deferBytes = 64 << 10

// A tx is one transaction of a session. What it is to do is collected as statements, and sent when
// there is enough of it, or at the commit.
type tx struct {
	s       *session
	pool    *pgxpool.Pool
	epoch   int64 // of the session when the transaction was begun
	conn    *pgxpool.Conn
	w       *work    // statements that were not sent yet; nil before the first
	begun   bool     // BEGIN was sent
	calls   int      // of Apply
	inside  bool     // of a call of Apply
	guard   bool     // what fails after the savepoint can be given up to it
	copied  []*table // tables that are locked and whose columns were compared
	temps   []string // temporary tables that hold rows
	noted   noted    // what is counted when it is committed
	suspect *table   // whose constraints may not be those that are known
	ended   bool
	err     error // what went wrong; only Rollback may follow
}

var _ logical.Tx = (*tx)(nil)

// Apply applies mutations. Small ones may be sent with the commit.
func (x *tx) Apply(ctx context.Context, muts []logical.Mutation) error {
	x.calls++
	x.inside = true
	defer func() { x.inside = false }()
	return x.do(ctx, func() error {
		if len(muts) == 0 {
			if x.begun || x.w.size() > 0 {
				x.w.add(statement{sql: "SELECT 1", what: "keep alive"})
				return x.flush(ctx)
			}
			return nil
		}
		if err := x.apply(ctx, muts); err != nil {
			return err
		}
		if x.w.size() >= deferBytes {
			return x.flush(ctx)
		}
		return nil
	})
}

// SetMemo stores the loop's memo as part of the transaction.
func (x *tx) SetMemo(ctx context.Context, state logical.MemoState) error {
	return x.do(ctx, func() error {
		w := x.w
		w.add(statement{
			sql: `INSERT INTO ` + x.s.t.staging + `memo AS m (loop, point, point_time, mode, consistent_since, skip, updated)
VALUES ($1::text, $2::text, $3::timestamptz, $4::text, $5::timestamptz, $6::bigint, clock_timestamp())
ON CONFLICT (loop) DO UPDATE SET point = excluded.point, point_time = excluded.point_time, mode = excluded.mode,
	consistent_since = excluded.consistent_since, skip = excluded.skip, updated = excluded.updated`, what: "store the memo",
			params: w.textParams(text(x.s.claim.Loop), jsonText(state.Point), timeText(state.PointTime), text(state.Mode), timeText(state.ConsistentSince),
				text(formatInt(int64(state.Skip)))),
			asText: true,
		})
		return nil
	})
}

// SetAside stores dead letters as part of the transaction.
func (x *tx) SetAside(ctx context.Context, letters []logical.DeadLetter) error {
	return x.do(ctx, func() error {
		for i := range letters {
			x.setAside(&letters[i])
		}
		if x.w.size() >= deferBytes {
			return x.flush(ctx)
		}
		return nil
	})
}

// TakeBack removes dead letters as part of the transaction.
func (x *tx) TakeBack(ctx context.Context, ids []int64) error {
	return x.do(ctx, func() error {
		if len(ids) > 0 {
			x.takeBack(ids)
		}
		return nil
	})
}

// Check checks the constraints that are deferred to the end of the transaction.
func (x *tx) Check(ctx context.Context) error {
	return x.do(ctx, func() error {
		x.w.add(statement{sql: "SET CONSTRAINTS ALL IMMEDIATE", what: "check deferred constraints", asText: true})
		return x.flush(ctx)
	})
}

// Commit ends the transaction.
func (x *tx) Commit(ctx context.Context) error {
	err := x.do(ctx, func() error {
		x.w.add(statement{sql: "COMMIT", what: "commit", commits: true})
		return x.flush(ctx)
	})
	if err == nil {
		x.noted.count(x.s.t.cfg.Tally)
		x.end()
	}
	return err
}

// Rollback gives the transaction up. It reaches the server even if ctx is done.
func (x *tx) Rollback(ctx context.Context) error {
	if x.ended {
		return nil
	}
	x.abort(ctx)
	x.end()
	return nil
}

// do runs a part of the transaction.
func (x *tx) do(ctx context.Context, part func() error) error {
	switch {
	case x.ended:
		return errors.New("postgres: the transaction has ended")
	case x.err != nil:
		return errors.WithMessage(x.err, "postgres: the transaction has failed before")
	case ctx.Err() != nil:
		x.err = errors.Wrap(ctx.Err(), "postgres")
	default:
		if x.w == nil {
			x.w = x.s.t.works.Get().(*work)
			x.w.reset()
		}
		x.err = part()
	}
	if x.err != nil {
		x.err = x.s.noteFenced(x.err)
		x.abort(ctx)
		x.err = x.doubtOrder(ctx, x.err)
	}
	return x.err
}

// abort ends the transaction at the server and gives the connection back, so that nobody has to
// wait for the caller's Rollback.
func (x *tx) abort(ctx context.Context) {
	if x.conn == nil {
		return
	}
	pg := x.conn.Conn().PgConn()
	if !pg.IsClosed() && pg.TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		_, _ = pg.Exec(ctx, "ROLLBACK").ReadAll() // A connection that is not idle then is closed.
		cancel()
	}
	x.release()
}

// end gives everything back.
func (x *tx) end() {
	x.ended = true
	x.release()
	if x.w != nil {
		x.s.t.works.Put(x.w)
		x.w = nil
	}
}

func (x *tx) release() {
	if x.conn != nil {
		x.conn.Release() // which closes it, if a transaction is open or it has failed
		x.conn = nil
	}
}
