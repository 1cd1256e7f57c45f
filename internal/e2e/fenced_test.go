package e2e

import (
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFencedLateCommitDoesNotOverwriteNewerValues kills the server while its statement waits for a lock.
// PostgreSQL does not notice: the statement, and the COMMIT behind it, stay alive. The successor takes
// newer values for the same key; when the lock is released they must be what stays.
func TestFencedLateCommitDoesNotOverwriteNewerValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		// overtakes says that only the orphaned statement waits for the lock, so that nothing but the
		// epoch keeps its successor from overtaking it. Otherwise both want a lock on the table.
		overtakes bool
		// timesOut says that the server gives the orphan up while the lock is still held; otherwise it
		// commits late.
		timesOut bool
	}{
		{name: "lock on the table, serial", args: []string{"--backfillWindow", "0s"}},
		{name: "lock on the table, immediate", args: []string{"--immediate"}},
		{name: "lock of the orphan's own, serial", args: []string{"--backfillWindow", "0s"}, overtakes: true},
		{name: "lock of the orphan's own, immediate", args: []string{"--immediate"}, overtakes: true},
		{name: "the orphan times out", args: []string{"--applyTimeout", "1s"}, timesOut: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, dsn := t.TempDir(), env.Postgres(t)
			db := openPostgres(t, dsn)
			args := append([]string{"--targetConn", dsn, "--retryDelay", "20ms"}, c.args...)
			p := launch(t, dir, args...)
			p.write("fence,k=a value=1i 1000")
			awaitCount(t, db, "SELECT value FROM fence", 1)
			eventually(t, 30*time.Second, "the first point is not acknowledged", func() bool {
				return p.metric("replications_queue_current_bytes_queued") == 0
			})
			watchFence(t, db)
			var release func()
			if c.overtakes {
				release = holdFirst(t, db)
			} else {
				release = holdTable(t, db, "fence")
			}
			p.write("fence,k=a value=2i 1000")
			awaitCount(t, db, lockWaiters, 1)
			orphan := fmt.Sprintf("SELECT count(*) FROM pg_stat_activity WHERE pid = %d",
				count(t, db, strings.Replace(lockWaiters, "count(*)", "max(pid)", 1)))
			p.kill()

			p = launch(t, dir, args...)
			p.write("fence,k=a value=3i 1000")
			p.write("fence,k=a value=4i 1000")
			if c.timesOut {
				awaitCount(t, db, orphan, 0)
			} else {
				eventually(t, 30*time.Second, "the successor neither waits nor goes on", func() bool {
					return count(t, db, lockWaiters) == 2 || count(t, db, "SELECT value FROM fence") == 4
				})
				awaitCount(t, db, orphan, 1)
			}
			release()
			awaitCount(t, db, "SELECT value FROM fence", 4)
			eventually(t, 30*time.Second, "the values are not acknowledged, or the orphan does not end", func() bool {
				return p.metric("replications_queue_current_bytes_queued") == 0 &&
					count(t, db, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tailrace' AND datname = current_database() AND state <> 'idle'`) == 0
			})
			history := column(t, db, "SELECT value FROM history ORDER BY id")
			if n := count(t, db, "SELECT value FROM fence"); n != 4 || !slices.IsSorted(history) {
				t.Errorf("the value is %d; the values went back: %v", n, history)
			}
			if !c.timesOut && history[0] != 2 {
				t.Errorf("applied %v: the orphan has not committed late", history)
			}
		})
	}
}

// watchFence notes the values in the order in which they are applied.
func watchFence(t *testing.T, db *sql.DB) {
	t.Helper()
	execute(t, db,
		`CREATE TABLE history (id serial, value bigint)`,
		`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO history (value) VALUES (NEW.value);
			RETURN NEW;
		END $$`,
		`CREATE TRIGGER note AFTER INSERT OR UPDATE ON fence FOR EACH ROW EXECUTE FUNCTION note()`,
	)
}

// holdFirst makes the next statement that writes to the table wait, and no later one.
func holdFirst(t *testing.T, db *sql.DB) (release func()) {
	t.Helper()
	execute(t, db,
		`CREATE SEQUENCE arrivals`,
		`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('arrivals') = 1 THEN PERFORM pg_advisory_xact_lock(42); END IF;
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER hold BEFORE INSERT ON fence FOR EACH STATEMENT EXECUTE FUNCTION hold()`,
	)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = tx.Rollback() } // it may have ended
	t.Cleanup(release)
	if _, err := tx.Exec("SELECT pg_advisory_xact_lock(42)"); err != nil {
		t.Fatal(err)
	}
	return release
}
