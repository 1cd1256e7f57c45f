package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// wantRetry checks that an error may heal and tells an operator what to do.
func wantRetry(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	if err == nil || logical.ClassOf(err) != logical.ClassRetry || logical.HintOf(err) == "" {
		t.Errorf("%s: got %v, class %v, hint %q", what, err, logical.ClassOf(err), logical.HintOf(err))
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q does not say %q", what, err, part)
		}
	}
}

func value(n int64) (*logical.Relation, func(key int64) logical.Mutation) {
	rel := logicaltest.Points("m", nil, logicaltest.Field("v", logical.KindInt64))
	return rel, func(key int64) logical.Mutation { return logicaltest.Point(rel, key, 1, logical.Int64(n)) }
}

// A client is lost while its statement waits for a lock; its successor writes newer values; the lock
// is released. FENCED: the newer values stay.
func TestLateCommitDoesNotOverwriteNewerValues(t *testing.T) {
	t.Parallel()
	for _, parts := range []string{"in one round trip", "in parts"} {
		t.Run(parts, func(t *testing.T) {
			t.Parallel()
			direct := open(t, Config{})
			link := testenv.NewLink(t, portOf(t, direct))
			lost := open(t, Config{DSN: viaPort(t, direct.cfg.DSN, link.Port())})
			old := take(t, lost, "loop", "me")
			_, older := value(1)
			_, newer := value(2)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := logicaltest.Apply(ctx, old, older(1)); err != nil {
				t.Fatal(err)
			}
			// What is older waits in a trigger, what is newer does not.
			exec(t, direct, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF NEW.v = 1 THEN PERFORM pg_advisory_xact_lock(42); END IF; RETURN NEW; END $$;
CREATE TRIGGER hold BEFORE INSERT ON m FOR EACH ROW EXECUTE FUNCTION hold()`)
			locker := connect(t, direct)
			lock, err := locker.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := lock.Exec(ctx, "SELECT pg_advisory_xact_lock(42)"); err != nil {
				t.Fatal(err)
			}
			gone, give := context.WithCancel(ctx)
			defer give()
			lateDone := make(chan error, 1)
			go func() { lateDone <- applyLate(gone, old, parts == "in parts", older(7)) }()
			awaitWaiters(t, direct, 1, nil)
			link.Freeze()

			taken := make(chan logical.Session, 1)
			go func() {
				s, err := direct.Take(ctx, logical.Claim{Loop: "loop", Holder: "me"})
				if err != nil {
					t.Error(err)
				}
				taken <- s
			}()
			awaitWaiters(t, direct, 2, func() bool { return len(taken) > 0 })
			if len(taken) > 0 {
				t.Error("the loop was taken over while a transaction of the predecessor was open")
			}
			if err := lock.Rollback(ctx); err != nil {
				t.Fatal(err)
			}
			if parts == "in parts" { // its COMMIT was not sent, and never will be
				endIdle(t, direct)
			}
			young := <-taken
			if young == nil {
				return
			}
			if err := logicaltest.Apply(ctx, young, newer(7)); err != nil {
				t.Fatal(err)
			}
			give()
			link.Thaw()
			<-lateDone
			if got := rows(t, direct, `SELECT v FROM m WHERE nanos = 7`); len(got) != 1 || got[0][0] != "2" {
				t.Errorf("the table holds %v, want the newer value 2", got)
			}
			if err := young.Release(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

func applyLate(ctx context.Context, s logical.Session, inParts bool, mut logical.Mutation) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if err := tx.Apply(ctx, []logical.Mutation{mut}); err != nil {
		return err
	}
	if inParts {
		if err := flushNow(ctx, tx); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// flushNow sends what waits, as a larger transaction would.
func flushNow(ctx context.Context, t logical.Tx) error {
	x := t.(*tx)
	return x.do(ctx, func() error { return x.flush(ctx) })
}

// awaitWaiters waits until n sessions wait for advisory locks, or enough says that they need not.
func awaitWaiters(t *testing.T, target *Target, n int, enough func() bool) {
	t.Helper()
	until(t, func() bool {
		return enough != nil && enough() || rows(t, target, `SELECT count(*) FROM pg_locks
WHERE NOT granted AND locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)[0][0] == fmt.Sprint(n)
	})
}

// endIdle ends the sessions that are idle in a transaction, as the server does after its timeout.
func endIdle(t *testing.T, target *Target) {
	t.Helper()
	until(t, func() bool {
		return rows(t, target, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE state = 'idle in transaction' AND application_name = 'tailrace' AND datname = current_database()`)[0][0] != "0"
	})
}

func until(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for !done() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("it does not happen")
		}
	}
}

func portOf(t testing.TB, target *Target) int {
	t.Helper()
	cfg, err := pgx.ParseConfig(target.cfg.DSN)
	if err != nil {
		t.Fatal(err)
	}
	return int(cfg.Port)
}

func viaPort(t testing.TB, dsn string, port int) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(dsn, fmt.Sprintf(":%d/", cfg.Port), fmt.Sprintf(":%d/", port), 1)
}

// A frozen process holds its epoch no longer than the server's timeout, and finds itself fenced.
func TestFrozenProcessIsFenced(t *testing.T) {
	t.Parallel()
	direct := open(t, Config{})
	link := testenv.NewLink(t, portOf(t, direct))
	frozen := open(t, Config{DSN: viaPort(t, direct.cfg.DSN, link.Port()), IdleTimeout: 300 * time.Millisecond})
	_, mut := value(1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	old, err := frozen.Take(ctx, logical.Claim{Loop: "loop", Holder: "one", TTL: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := logicaltest.Apply(ctx, old, mut(1)); err != nil {
		t.Fatal(err)
	}
	open, err := old.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := open.Apply(ctx, []logical.Mutation{mut(2)}); err != nil {
		t.Fatal(err)
	}
	if err := flushNow(ctx, open); err != nil {
		t.Fatal(err)
	}
	link.Freeze()
	young, err := direct.Take(ctx, logical.Claim{Loop: "loop", Holder: "two", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	link.Thaw()
	if err := open.Commit(ctx); err == nil {
		t.Error("the transaction of the frozen process was committed")
	}
	_ = open.Rollback(ctx) // It is over.
	err = logicaltest.Apply(ctx, old, mut(3))
	for err != nil && logical.ClassOf(err) != logical.ClassFenced && ctx.Err() == nil { // connections that died meanwhile
		err = logicaltest.Apply(ctx, old, mut(3))
	}
	if err == nil {
		t.Error("the frozen process can write again")
	}
	<-old.Lost()
	if got := rows(t, direct, `SELECT count(*) FROM m`); got[0][0] != "1" {
		t.Errorf("%s rows, want 1", got[0][0])
	}
	if err := young.Release(ctx); err != nil {
		t.Error(err)
	}
}

func TestLockHeldLongerThanTheApplyTimeout(t *testing.T) {
	t.Parallel()
	target := open(t, Config{ApplyTimeout: time.Second})
	s := take(t, target, "loop", "me")
	_, mut := value(1)
	if err := logicaltest.Apply(t.Context(), s, mut(1)); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, target)
	if _, err := conn.Exec(t.Context(), "BEGIN; LOCK TABLE m"); err != nil {
		t.Fatal(err)
	}
	wantRetry(t, "a lock on the table", logicaltest.Apply(t.Context(), s, mut(2)), "lock", "upsert into", `"m"`)
	if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := logicaltest.Apply(t.Context(), s, mut(2)); err != nil {
		t.Errorf("it does not heal: %v", err)
	}
}

func TestTargetThatIsDownWhenItIsOpened(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, testenv.PostgresOptions{})
	server.Stop(t)
	target := open(t, Config{DSN: server.DSN("postgres")})
	_, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me"})
	wantRetry(t, "a server that is down", err, "connect")
	server.Restart(t)
	s := take(t, target, "loop", "me")
	_, mut := value(1)
	if err := logicaltest.Apply(t.Context(), s, mut(1)); err != nil {
		t.Error(err)
	}
}

func TestConfigurationFaultsSayWhatToDo(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, testenv.PostgresOptions{HBA: "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"})
	admin := open(t, Config{DSN: server.DSN("postgres")})
	exec(t, admin, `CREATE ROLE poor LOGIN PASSWORD 'right'; ALTER ROLE poor SET default_transaction_read_only = off;
CREATE ROLE reader LOGIN PASSWORD 'right'; ALTER ROLE reader SET default_transaction_read_only = on; GRANT CREATE ON DATABASE postgres TO reader`)
	as := func(user, password, database string) string {
		return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s?sslmode=disable", user, password, server.Port(), database)
	}
	for _, c := range []struct {
		what, dsn string
		parts     []string
	}{
		{"wrong password", as("poor", "wr0ng-s3cret", "postgres"), []string{"password", "pg_hba.conf"}},
		{"no such database", as("postgres", "", "nowhere"), []string{"nowhere", "create the database"}},
		{"missing rights", as("poor", "right", "postgres"), []string{"permission denied", "grant"}},
	} {
		target := open(t, Config{DSN: c.dsn})
		_, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me"})
		wantRetry(t, c.what, err, c.parts...)
		if err != nil && (strings.Contains(err.Error(), "wr0ng") || strings.Contains(fmt.Sprintf("%+v", err), "wr0ng")) {
			t.Errorf("%s: the error holds the password: %v", c.what, err)
		}
	}
	if _, err := Open(t.Context(), Config{DSN: "postgres://u:s3cret@host:notaport/db"}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a connection string that cannot be read: %v", err)
	}
}

func TestServerThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, testenv.PostgresOptions{})
	target := open(t, Config{DSN: server.DSN("postgres")})
	_, mut := value(1)
	s := take(t, target, "loop", "me")
	if err := logicaltest.Apply(t.Context(), s, mut(1)); err != nil {
		t.Fatal(err)
	}
	server.Stop(t)
	server.WriteFile(t, "standby.signal", "") // a standby whose primary is gone
	server.Restart(t)
	var err error
	for range 3 { // connections to the server before have to be found dead first
		if err = logicaltest.Apply(t.Context(), s, mut(2)); err != nil && strings.Contains(err.Error(), "25006") {
			break
		}
	}
	wantRetry(t, "a standby", err, "primary")
	exec(t, target, "SELECT pg_promote()")
	until(t, func() bool { return rows(t, target, "SELECT pg_is_in_recovery()")[0][0] == "f" })
	if err := logicaltest.Apply(t.Context(), s, mut(2)); err != nil {
		t.Errorf("it does not heal: %v", err)
	}
}

func TestCancelledCommitIsSettledByTheMemo(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	_, mut := value(1)
	if err := logicaltest.Apply(t.Context(), s, mut(1)); err != nil {
		t.Fatal(err)
	}
	for i := range int64(logicaltest.Count(12, 1000)) {
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := s.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Apply(ctx, []logical.Mutation{mut(10 + i)}); err != nil {
			t.Fatal(err)
		}
		if err := tx.SetMemo(ctx, logical.MemoState{Point: json.RawMessage(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
		go cancel()
		err = tx.Commit(ctx)
		_ = tx.Rollback(ctx)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		if err := s.Fence(t.Context()); err != nil {
			t.Fatal(err)
		}
		state, loadErr := s.LoadMemo(t.Context())
		if loadErr != nil {
			t.Fatal(loadErr)
		}
		there := string(state.Point) == fmt.Sprint(i)
		if err == nil && !there || err != nil && there && logical.ClassOf(err) != logical.ClassUnknownCommit {
			t.Fatalf("round %d: commit returned %v (class %v), and the memo is %s", i, err, logical.ClassOf(err), state.Point)
		}
		if got := rows(t, target, fmt.Sprintf("SELECT count(*) FROM m WHERE \"time\" = 'epoch' AND nanos = %d", 10+i)); i < 900 && (got[0][0] == "1") != there {
			t.Fatalf("round %d: the memo is %s, and there are %s rows", i, state.Point, got[0][0])
		}
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	disk := testenv.NewSmallDisk(t, 4, 40)
	server := testenv.StartPostgres(t, testenv.PostgresOptions{})
	target := open(t, Config{DSN: server.DSN("postgres")})
	exec(t, target, "CREATE TABLESPACE small LOCATION '"+disk.Dir+"'")
	exec(t, target, "ALTER DATABASE postgres SET default_tablespace = small")
	s := take(t, target, "loop", "me")
	rel := logicaltest.Points("m", nil, logicaltest.Field("v", logical.KindText))
	text := logical.Text(strings.Repeat("x", 1000))
	write := func(from int64) error {
		var muts []logical.Mutation
		for i := range int64(1000) {
			muts = append(muts, logicaltest.Point(rel, (from+i)*1000, 1, text))
		}
		return logicaltest.Apply(t.Context(), s, muts...)
	}
	var err error
	at := int64(0)
	for ; err == nil && at < 100_000; at += 1000 {
		err = write(at)
	}
	wantRetry(t, "a full disk", err, "free space")
	disk.Free(t)
	if err := write(at - 1000); err != nil {
		t.Fatalf("it does not heal: %v", err)
	}
	if got := rows(t, target, "SELECT count(*) FROM m"); got[0][0] != fmt.Sprint(at) {
		t.Errorf("%s rows, want %d", got[0][0], at)
	}
	server.Stop(t) // before its disk is taken away
}

// Loops whose predecessors hang at the server wait for them; other loops keep their leases and save
// their memos meanwhile, and can be fenced and taken over (ISOLATED).
func TestLoopsThatWaitLeaveAConnectionToOthers(t *testing.T) {
	t.Parallel()
	target := open(t, Config{ApplyTimeout: 8 * time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	healthy, err := target.Take(ctx, logical.Claim{Loop: "healthy", Holder: "me", TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	_, mut := value(1)
	if err := logicaltest.Apply(ctx, healthy, mut(0)); err != nil {
		t.Fatal(err)
	}
	const stuck = 3
	fences := make(chan error, stuck)
	for i := range int64(stuck) {
		s := take(t, target, fmt.Sprint("stuck", i), "me")
		open, err := s.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = open.Rollback(ctx) }()
		if err := open.Apply(ctx, []logical.Mutation{mut(i + 1)}); err != nil {
			t.Fatal(err)
		}
		if err := flushNow(ctx, open); err != nil {
			t.Fatal(err)
		}
		go func() { fences <- s.Fence(ctx) }()
	}
	until(t, func() bool {
		return rows(t, target, "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")[0][0] != "0"
	})
	for range 20 {
		start := time.Now()
		if err := healthy.SaveMemo(ctx, logical.MemoState{Point: json.RawMessage("1")}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("saving a memo took %s", took)
		}
	}
	if err := healthy.Fence(ctx); err != nil {
		t.Error(err)
	}
	if len(fences) > 0 {
		t.Errorf("a fence did not wait, or the healthy loop's took as long as the others' may: %v", <-fences)
	}
	for range stuck {
		wantRetry(t, "a transaction that hangs", <-fences, "older transaction", "still open")
	}
	select {
	case <-healthy.Lost():
		t.Error("the healthy loop has lost its lease")
	default:
	}
}

func TestTakeOverADeadConnection(t *testing.T) {
	t.Parallel()
	direct := open(t, Config{})
	link := testenv.NewLink(t, portOf(t, direct))
	target := open(t, Config{DSN: viaPort(t, direct.cfg.DSN, link.Port()), ApplyTimeout: time.Second})
	take(t, target, "first", "me") // so that there is a connection
	link.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := target.Take(ctx, logical.Claim{Loop: "loop", Holder: "me"})
	link.Thaw()
	if ctx.Err() != nil {
		t.Fatal("it has no bound of its own")
	}
	wantRetry(t, "a connection that is dead", err, "no answer from the server")
	take(t, target, "loop", "me")
}

// A transaction that is applied in parts, each of which is flushed, may break a deferred constraint in
// between: the row that is missing may be in the next part.
func TestDeferredConstraintsAreNotCheckedBetweenParts(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	exec(t, target, `CREATE TABLE parent (id bigint PRIMARY KEY);
CREATE TABLE child (id bigint PRIMARY KEY, parent bigint REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`)
	key := logical.Column{Name: "id", Kind: logical.KindInt64, Key: true}
	parent := &logical.Relation{Name: "parent", Columns: []logical.Column{key}}
	child := &logical.Relation{Name: "child", Columns: []logical.Column{key, {Name: "parent", Kind: logical.KindInt64}}}
	s := take(t, target, "loop", "me")
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, part := range []logical.Mutation{
		{Op: logical.OpUpsert, Relation: child, Values: []logical.Value{logical.Int64(1), logical.Int64(1)}},
		{Op: logical.OpUpsert, Relation: parent, Values: []logical.Value{logical.Int64(1)}},
	} {
		if err := tx.Apply(t.Context(), []logical.Mutation{part}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Apply(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}
