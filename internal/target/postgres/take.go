package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/lease"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Take takes the loop over. It waits until another holder's lease is given back or has run out by
// the server's clock, and then for the transactions of older epochs.
func (t *Target) Take(ctx context.Context, claim logical.Claim) (logical.Session, error) {
	if claim.TTL <= 0 {
		claim.TTL = 30 * time.Second
	}
	for {
		if err := t.open(); err != nil {
			return nil, err
		}
		epoch, remaining, holder, err := t.attemptTake(ctx, claim)
		if err != nil {
			t.restage(err)
			return nil, err
		}
		if epoch > 0 {
			return t.register(claim, epoch, time.Now()), nil
		}
		if err := lease.Wait(ctx, min(remaining, time.Second)); err != nil {
			return nil, errors.Wrapf(err, "postgres: waiting for the lease of loop %q, held by %q", claim.Loop, holder)
		}
	}
}

// answerTime is what a try to take a loop over may take in addition to the apply timeout, by which the
// server itself ends its statements.
const answerTime = 2 * time.Second

// attemptTake is tryTake, bounded in time: a connection may be dead without a word, and the caller
// waits for as long as a lease lasts.
func (t *Target) attemptTake(ctx context.Context, claim logical.Claim) (epoch int64, remaining time.Duration, holder string, err error) {
	bound := t.cfg.ApplyTimeout + answerTime
	attempt, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if err = t.stage(attempt); err == nil {
		epoch, remaining, holder, err = t.tryTake(attempt, claim)
	}
	if err != nil && attempt.Err() != nil && ctx.Err() == nil {
		err = retry(errors.Errorf("postgres: no answer from the server within %s: %v", bound, err), hintConnection)
	}
	return epoch, remaining, holder, err
}

// restage looks for the staging tables again if they are gone.
func (t *Target) restage(err error) {
	if code := sqlState(err); code == "42P01" || code == "3F000" {
		t.staged.Store(false)
	}
}

// tryTake takes the loop over and returns its epoch; 0 if somebody else holds the lease.
func (t *Target) tryTake(ctx context.Context, claim logical.Claim) (epoch int64, remaining time.Duration, holder string, err error) {
	err = t.raise(ctx, claim.Loop, func(tx pgx.Tx) error {
		epoch = 0
		var mine bool
		err := tx.QueryRow(ctx, `INSERT INTO `+t.staging+`leases AS l (loop, epoch, holder, ttl_ms, expires)
VALUES ($1, 0, $2, $3, clock_timestamp())
ON CONFLICT (loop) DO UPDATE SET holder = excluded.holder, ttl_ms = excluded.ttl_ms
WHERE l.holder IN ('', excluded.holder) OR l.expires <= clock_timestamp()
RETURNING true`, claim.Loop, claim.Holder, claim.TTL.Milliseconds()).Scan(&mine)
		if errors.Is(err, pgx.ErrNoRows) {
			var seconds float64
			err = tx.QueryRow(ctx, "SELECT holder, extract(epoch FROM expires - clock_timestamp())::float8 FROM "+t.staging+"leases WHERE loop = $1",
				claim.Loop).Scan(&holder, &seconds)
			remaining = time.Duration(seconds * float64(time.Second))
			return err
		}
		if err != nil {
			return err
		}
		epoch, err = t.bump(ctx, tx, claim.Loop)
		return err
	})
	return epoch, remaining, holder, err
}

// How long raising an epoch, or making tables, waits for a lock at first before it lets others have the connection;
// and how long at most while there are any who want it.
const (
	firstLockWait   = 100 * time.Millisecond
	crowdedLockWait = 400 * time.Millisecond
)

// raise runs fn, which raises the epoch of a loop, in a transaction. It waits for the loop's older
// transactions, for as long as the apply timeout. Between its tries it gives its connection back, so
// that other loops need not wait for what hangs in this one; the tries grow longer, because each one
// keeps newer transactions of the loop waiting, and gets through in the end. While others wait, it pauses as well.
func (t *Target) raise(ctx context.Context, loop string, fn func(tx pgx.Tx) error) error {
	end := time.Now().Add(t.cfg.ApplyTimeout)
	for wait := firstLockWait; ; {
		last := wait >= time.Until(end)
		if last {
			wait = max(time.Until(end), 10*time.Millisecond)
		}
		err := t.transactSlowly(ctx, t.epochs, wait, fn)
		code := sqlState(err)
		switch {
		case code == "55P03" && !last:
			if wait *= 2; t.epochs.crowded() {
				wait = min(wait, crowdedLockWait)
				if err := lease.Wait(ctx, min(wait, time.Until(end))); err != nil {
					return errors.Wrapf(err, "postgres: waiting for an older transaction of loop %q", loop)
				}
			}
			continue
		case (code == "55P03" || code == "57014") && ctx.Err() == nil:
			return retry(errors.Errorf("postgres: an older transaction of loop %q is still open at the server", loop),
				"it ends by itself within the apply timeout or the idle timeout; pg_stat_activity shows what it waits for")
		}
		return err
	}
}

// bump raises the epoch of a loop, once the transactions that prove the old one have ended, and
// dates the lease.
func (t *Target) bump(ctx context.Context, tx pgx.Tx, loop string) (epoch int64, err error) {
	if !t.crdb.Load() {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", t.epochKey(loop)); err != nil {
			return 0, err
		}
	}
	// In CockroachDB the shared locks that transactions have on the row make this wait.
	err = tx.QueryRow(ctx, `INSERT INTO `+t.staging+`epochs AS e (loop, epoch) VALUES ($1, 1)
ON CONFLICT (loop) DO UPDATE SET epoch = e.epoch + 1 RETURNING epoch`, loop).Scan(&epoch)
	if err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, "UPDATE "+t.staging+"leases SET epoch = $2, expires = clock_timestamp() + ttl_ms * interval '1 ms' WHERE loop = $1", loop, epoch)
	return epoch, err
}

// epochKey is the advisory lock that transactions of a loop share, and that raising its epoch has
// to itself. A lock on the epoch's row would do as well, but each transaction would then write to
// that row, and shards that lock it together use up multixact ids, whose exhaustion makes the server
// vacuum every table.
func (t *Target) epochKey(loop string) int64 { return lockKey("epoch", t.cfg.StagingSchema, loop) }

// register starts to keep the lease of a new session, and ends the one that it takes over from.
func (t *Target) register(claim logical.Claim, epoch int64, written time.Time) *session {
	s := &session{t: t, claim: claim}
	s.epoch.Store(epoch)
	s.Keeper = lease.New(lease.Config{Loop: claim.Loop, TTL: claim.TTL, Renew: s.renew, Written: written, Logger: t.cfg.Logger})
	t.keepers.Start(s.Keeper)
	return s
}

// renew writes the lease anew.
func (s *session) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(s.claim.TTL/3, time.Second))
	defer cancel()
	return s.t.transact(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE `+s.t.staging+`leases SET expires = clock_timestamp() + ttl_ms * interval '1 ms'
WHERE loop = $1 AND epoch = $2`, s.claim.Loop, s.epoch.Load())
		if err == nil && tag.RowsAffected() == 0 {
			err = fenced(s.claim.Loop)
		}
		return err
	})
}

// Fence bumps the epoch. It waits, at the server, for transactions of the session that are open.
func (s *session) Fence(ctx context.Context) error {
	epoch := s.epoch.Load()
	var bumped int64
	err := s.t.raise(ctx, s.claim.Loop, func(tx pgx.Tx) error {
		if err := s.check(ctx, tx); err != nil {
			return err
		}
		var err error
		if bumped, err = s.t.bump(ctx, tx, s.claim.Loop); err == nil && bumped != epoch+1 {
			err = fenced(s.claim.Loop)
		}
		return err
	})
	if err == nil {
		// If the answer to COMMIT was lost the epoch at the server may be the new one: this session is
		// fenced then like any other that is not the owner, and the loop takes over anew.
		s.epoch.Store(bumped)
	}
	return s.noteFenced(err)
}

// check proves that the epoch is the session's, for now.
func (s *session) check(ctx context.Context, tx pgx.Tx) error {
	var epoch int64
	err := tx.QueryRow(ctx, "SELECT epoch FROM "+s.t.staging+"epochs WHERE loop = $1", s.claim.Loop).Scan(&epoch)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && epoch != s.epoch.Load() {
		return fenced(s.claim.Loop)
	}
	return err
}

// noteFenced loses the lease if the error says that the epoch is somebody else's.
func (s *session) noteFenced(err error) error {
	if err != nil && logical.ClassOf(err) == logical.ClassFenced {
		s.Lose()
	}
	return err
}

// Release gives the lease back.
func (s *session) Release(ctx context.Context) error {
	return s.t.keepers.Release(s.Keeper, func() error {
		return s.t.transact(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE "+s.t.staging+"leases SET holder = '', expires = clock_timestamp() WHERE loop = $1 AND epoch = $2",
				s.claim.Loop, s.epoch.Load())
			return err
		})
	})
}
