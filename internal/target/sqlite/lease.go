package sqlite

import (
	"context"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/lease"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Take takes the loop over. Another holder's lease is waited for until it expires: by the clock, or
// because it has not been renewed for its whole life while this call watched, so that a clock that
// was set back delays a successor by one life and no more.
func (t *Target) Take(ctx context.Context, claim logical.Claim) (logical.Session, error) {
	if claim.TTL <= 0 {
		claim.TTL = 30 * time.Second
	}
	var seen leaseRow
	var since time.Time
	for {
		s, row, err := t.tryTake(ctx, claim, since, seen)
		if err != nil || s != nil {
			if s == nil {
				return nil, err
			}
			return s, err
		}
		if row != seen {
			seen, since = row, time.Now()
		}
		if err := lease.Wait(ctx, min(row.remaining(t.now()), row.life()-time.Since(since), time.Second)); err != nil {
			return nil, errors.Wrapf(err, "sqlite: waiting for the lease of loop %q, held by %q", claim.Loop, row.holder)
		}
	}
}

// A leaseRow is what the file says about a loop. Times are milliseconds.
type leaseRow struct {
	epoch, ttl, expires int64
	holder              string
}

func (r *leaseRow) life() time.Duration { return time.Duration(r.ttl) * time.Millisecond }

func (r *leaseRow) remaining(now time.Time) time.Duration {
	return time.Duration(r.expires-now.UnixMilli()) * time.Millisecond
}

// tryTake takes the loop over if its lease is free, and otherwise returns who has it.
func (t *Target) tryTake(ctx context.Context, claim logical.Claim, since time.Time, seen leaseRow) (*session, leaseRow, error) {
	var s *session
	var row leaseRow
	written := time.Now()
	err := t.write(ctx, func(w *writer) error {
		found, err := w.leaseRow(claim.Loop, &row)
		if err != nil {
			return err
		}
		free := !found || row.holder == "" || row.holder == claim.Holder || row.remaining(t.now()) <= 0 ||
			row == seen && time.Since(since) >= row.life()
		if !free {
			return nil
		}
		now := t.now()
		err = w.exec(`INSERT INTO _tailrace_loops (loop, epoch, holder, ttl, expires) VALUES (?, 1, ?, ?, ?)
ON CONFLICT (loop) DO UPDATE SET epoch = epoch + 1, holder = excluded.holder, ttl = excluded.ttl, expires = excluded.expires`,
			claim.Loop, claim.Holder, claim.TTL.Milliseconds(), now.Add(claim.TTL).UnixMilli())
		if err != nil {
			return err
		}
		s = &session{t: t, claim: claim}
		s.epoch.Store(row.epoch + 1)
		return nil
	})
	if err != nil || s == nil {
		return nil, row, err
	}
	t.register(s, written)
	return s, row, nil
}

func (w *writer) leaseRow(loop string, row *leaseRow) (found bool, err error) {
	err = w.query("SELECT epoch, ttl, expires, holder FROM _tailrace_loops WHERE loop = ?", func(s *sqlite3.Stmt) error {
		*row = leaseRow{epoch: s.ColumnInt64(0), ttl: s.ColumnInt64(1), expires: s.ColumnInt64(2), holder: s.ColumnText(3)}
		found = true
		return nil
	}, loop)
	return found, err
}

// register starts to keep the lease of a new session, and ends the one that it takes over from.
func (t *Target) register(s *session, written time.Time) {
	s.Keeper = lease.New(lease.Config{Loop: s.claim.Loop, Epoch: s.epoch.Load(), TTL: s.claim.TTL, Renew: s.renew, Written: written, Logger: t.cfg.Logger})
	t.keepers.Start(s.Keeper)
}

// renew writes the lease anew, in a transaction of its own.
func (s *session) renew(ctx context.Context) error {
	return s.t.write(ctx, func(w *writer) error {
		if s.Due() > 0 {
			return nil // a transaction of the session was faster
		}
		return s.renewIn(w, s.epoch.Load())
	})
}

// renewIn writes the lease anew as part of the open transaction.
func (s *session) renewIn(w *writer, epoch int64) error {
	now := time.Now()
	var mine bool
	err := w.query("UPDATE _tailrace_loops SET expires = ? WHERE loop = ? AND epoch = ? RETURNING 1",
		func(*sqlite3.Stmt) error { mine = true; return nil },
		s.t.now().Add(s.claim.TTL).UnixMilli(), s.claim.Loop, epoch)
	if err != nil {
		return err
	}
	if !mine {
		return fenced(s.claim.Loop)
	}
	s.Renewed(now)
	return nil
}

// check proves, within a transaction, that the epoch is the loop's.
func (s *session) check(w *writer, epoch int64) error {
	var mine bool
	err := w.query("SELECT 1 FROM _tailrace_loops WHERE loop = ? AND epoch = ?",
		func(*sqlite3.Stmt) error { mine = true; return nil }, s.claim.Loop, epoch)
	if err == nil && !mine {
		s.Lose()
		err = fenced(s.claim.Loop)
	}
	return err
}

// Release gives the lease back.
func (s *session) Release(ctx context.Context) error {
	return s.t.keepers.Release(s.Keeper, func() error {
		return s.t.write(ctx, func(w *writer) error {
			return w.exec("UPDATE _tailrace_loops SET holder = '', expires = 0 WHERE loop = ? AND epoch = ?", s.claim.Loop, s.epoch.Load())
		})
	})
}
