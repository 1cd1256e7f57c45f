package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// A counter applies transactions that each add a row to a log and set the memo, and settles what it
// does not know, until n are in.
type counter struct {
	target *Target
	loop   string
	rel    *logical.Relation
	series byte
}

func (c *counter) run(ctx context.Context, n int) error {
	for {
		done, err := c.attempt(ctx, n)
		if done || ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil || logical.ClassOf(err) == logical.ClassReject || logical.ClassOf(err) == logical.ClassConstraint {
			return fmt.Errorf("loop %s: %w", c.loop, err)
		}
	}
}

func (c *counter) attempt(ctx context.Context, n int) (done bool, err error) {
	s, err := c.target.Take(ctx, logical.Claim{Loop: c.loop, Holder: "me"})
	if err != nil {
		return false, err
	}
	defer s.Release(context.WithoutCancel(ctx))
	for {
		state, err := s.LoadMemo(ctx)
		if err != nil {
			return false, err
		}
		at := 0
		if state.Point != nil {
			if err := json.Unmarshal(state.Point, &at); err != nil {
				return false, err
			}
		}
		if err := s.Prepare(ctx, []*logical.Relation{c.rel}); err != nil {
			return false, err
		}
		for ; at < n; at++ {
			if err = c.one(ctx, s, at); err != nil {
				break
			}
		}
		if err == nil {
			return true, nil
		}
		if err := s.Fence(ctx); err != nil {
			return false, err
		}
	}
}

func (c *counter) one(ctx context.Context, s logical.Session, at int) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	muts := make([]logical.Mutation, 1+at%7)
	for k := range muts {
		muts[k] = logicaltest.Point(c.rel, int64(at*10+k), c.series, logical.Int64(int64(at)))
	}
	if err := tx.Apply(ctx, muts); err != nil {
		return err
	}
	if err := tx.SetMemo(ctx, logical.MemoState{Point: json.RawMessage(fmt.Sprint(at + 1)), Mode: "serial"}); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// exactlyOnce runs loops while something disturbs them, and counts by a trigger how often each point
// was applied.
func exactlyOnce(t *testing.T, target *Target, transactions int, disturb func(ctx context.Context, r *rand.Rand) error) {
	t.Helper()
	const loops = 3
	rel := logicaltest.Points("m", nil, logicaltest.Field("v", logical.KindInt64))
	s := take(t, target, "prepare", "me")
	if err := s.Prepare(t.Context(), []*logical.Relation{rel}); err != nil {
		t.Fatal(err)
	}
	exec(t, target, `CREATE TABLE applied (series uuid, nanos smallint, "time" timestamptz);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO applied VALUES (NEW.series, NEW.nanos, NEW."time"); RETURN NEW; END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON m FOR EACH ROW EXECUTE FUNCTION note()`)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range loops {
		wg.Go(func() {
			c := &counter{target: target, loop: fmt.Sprint(i), rel: logicaltest.Points("m", nil, logicaltest.Field("v", logical.KindInt64)), series: byte(i)}
			if err := c.run(ctx, transactions); err != nil {
				t.Error(err)
			}
		})
	}
	running, stop := context.WithCancel(ctx)
	disturbed := make(chan error, 1)
	go func() { disturbed <- disturb(running, rand.New(rand.NewPCG(logicaltest.Seed(t), 3))) }()
	wg.Wait()
	stop()
	if err := <-disturbed; err != nil {
		t.Error(err)
	}
	want := 0
	for at := range transactions {
		want += loops * (1 + at%7)
	}
	if got := rows(t, target, "SELECT (SELECT count(*) FROM m), (SELECT count(*) FROM applied)"); got[0][0] != fmt.Sprint(want) || got[0][1] != fmt.Sprint(want) {
		t.Errorf("%s points were applied %s times, want %d, each once", got[0][0], got[0][1], want)
	}
}

func TestTerminatedConnectionsLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	exactlyOnce(t, target, logicaltest.Count(150, 20_000), func(ctx context.Context, r *rand.Rand) error {
		conn, err := pgx.Connect(ctx, target.cfg.DSN)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		timer := time.NewTicker(time.Millisecond)
		defer timer.Stop()
		for ctx.Err() == nil {
			_, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'tailrace' AND datname = current_database() ORDER BY random() LIMIT $1`, 1+r.IntN(3))
			if err != nil && ctx.Err() == nil {
				return err
			}
			timer.Reset(time.Duration(1 + r.Int64N(int64(60*time.Millisecond))))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		return nil
	})
}

func TestKilledServerLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, testenv.PostgresOptions{})
	target := open(t, Config{DSN: server.DSN("postgres")})
	kills := logicaltest.Count(2, 30)
	exactlyOnce(t, target, logicaltest.Count(400, 15_000), func(ctx context.Context, r *rand.Rand) error {
		for range kills {
			timer := time.NewTimer(time.Duration(50+r.IntN(400)) * time.Millisecond)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return nil
			}
			server.Kill()
			if err := server.Start(); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestCutConnectionsLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	direct := open(t, Config{})
	link := testenv.NewLink(t, portOf(t, direct))
	target := open(t, Config{DSN: viaPort(t, direct.cfg.DSN, link.Port())})
	exactlyOnce(t, target, logicaltest.Count(40, 5000), func(ctx context.Context, r *rand.Rand) error {
		for ctx.Err() == nil {
			timer := time.NewTimer(time.Duration(1+r.IntN(60)) * time.Millisecond)
			select {
			case <-timer.C:
				link.Cut()
			case <-ctx.Done():
				timer.Stop()
			}
		}
		return nil
	})
}
