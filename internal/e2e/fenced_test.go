package e2e

import (
	"slices"
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
		// gives says that the orphaned statement is given up by the server's own timeout, while the
		// lock is still held; otherwise it commits late.
		gives bool
	}{
		{name: "serial, commits late", args: []string{"--backfillWindow", "0s"}},
		{name: "serial, times out", args: []string{"--backfillWindow", "0s", "--applyTimeout", "1s"}, gives: true},
		{name: "immediate, commits late", args: []string{"--immediate"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, dsn := t.TempDir(), env.Postgres(t)
			db := openPostgres(t, dsn)
			args := append([]string{"--targetConn", dsn, "--retryDelay", "20ms"}, c.args...)
			p := launch(t, dir, args...)
			p.write("fence,k=a value=1i 1000")
			awaitCount(t, db, "SELECT value FROM fence", 1)
			execute(t, db,
				`CREATE TABLE history (id serial, value bigint)`,
				`CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
					INSERT INTO history (value) VALUES (NEW.value);
					RETURN NEW;
				END $$`,
				`CREATE TRIGGER note AFTER INSERT OR UPDATE ON fence FOR EACH ROW EXECUTE FUNCTION note()`,
			)
			eventually(t, 30*time.Second, "the first point is not acknowledged", func() bool {
				return p.metric("replications_queue_current_bytes_queued") == 0
			})
			release := holdTable(t, db, "fence")
			p.write("fence,k=a value=2i 1000")
			awaitCount(t, db, lockWaiters+" AND query NOT LIKE '%advisory%'", 1)
			p.kill()

			p = launch(t, dir, args...)
			p.write("fence,k=a value=3i 1000")
			p.write("fence,k=a value=4i 1000")
			if c.gives {
				eventually(t, 30*time.Second, "the orphaned statement does not time out", func() bool {
					return p.metric("logical_commit_failure_total") > 1
				})
			} else {
				awaitCount(t, db, lockWaiters+" AND query LIKE '%advisory%'", 1) // the successor waits for the orphan
				if n := count(t, db, lockWaiters); n != 2 {
					t.Errorf("%d sessions wait, want the orphan and the successor", n)
				}
			}
			release()
			awaitCount(t, db, "SELECT value FROM fence", 4)
			eventually(t, 30*time.Second, "the values are not acknowledged", func() bool {
				return p.metric("replications_queue_current_bytes_queued") == 0
			})
			awaitCount(t, db, "SELECT value FROM fence", 4)
			history := column(t, db, "SELECT value FROM history ORDER BY id")
			if !slices.IsSorted(history) {
				t.Errorf("the values went back: %v", history)
			}
			if late := history[0] == 2; late == c.gives {
				t.Errorf("applied %v: whether the orphan committed late is not as it was meant to be", history)
			}
		})
	}
}
