package postgres

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// TestStagingOfEachVersionIsMigrated starts from the tables of every version that ever was, with what a
// loop had stored in them: it goes on where it was.
func TestStagingOfEachVersionIsMigrated(t *testing.T) {
	t.Parallel()
	for version := 1; version <= len(migrations()); version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			dsn := env.Postgres(t)
			older := open(t, Config{DSN: dsn})
			ddl := "CREATE SCHEMA _tailrace;"
			for _, step := range migrations()[:version] {
				ddl += strings.ReplaceAll(step, "STAGING.", older.staging)
			}
			exec(t, older, fmt.Sprintf(`%s
UPDATE _tailrace.version SET version = %d;
INSERT INTO _tailrace.epochs VALUES ('loop', 7);
INSERT INTO _tailrace.leases VALUES ('loop', 7, 'me', 1000, now());
INSERT INTO _tailrace.memo (loop, point, mode, updated) VALUES ('loop', '{"seq":3}', 'serial', now());
INSERT INTO _tailrace.dead_letters (loop, relation, op, reason, time) VALUES ('loop', 'cpu', 'patch', 'no', now()), ('loop', 'cpu', 'patch', 'no', now())`,
				ddl, version))
			// Several processes find the old version at once.
			took := make(chan error)
			for range 4 {
				target := open(t, Config{DSN: dsn})
				go func() {
					_, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me", TTL: time.Minute})
					took <- err
				}()
			}
			for range 4 {
				if err := <-took; err != nil {
					t.Error(err)
				}
			}
			target := open(t, Config{DSN: dsn})
			s := take(t, target, "loop", "me")
			state, err := s.LoadMemo(t.Context())
			if err != nil || string(state.Point) != `{"seq":3}` || state.Skip != 0 {
				t.Fatalf("the memo is %+v, error %v", state, err)
			}
			state.Skip = 5
			if err := s.SaveMemo(t.Context(), state); err != nil {
				t.Fatal(err)
			}
			if state, err = s.LoadMemo(t.Context()); err != nil || state.Skip != 5 {
				t.Errorf("the memo is %+v, error %v", state, err)
			}
			letter := logical.DeadLetter{Stamp: json.RawMessage("1"), Table: "cpu", Op: logical.OpPatch, Reason: "no"}
			for range 2 {
				tx, err := s.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if err := tx.SetAside(t.Context(), []logical.DeadLetter{letter}); err != nil {
					t.Fatal(err)
				}
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if n, _, err := target.CountDeadLetters(t.Context(), "loop"); err != nil || n != 3 {
				t.Errorf("there are %d letters, want the two of before and one, error %v", n, err)
			}
			if got := rows(t, target, "SELECT version FROM _tailrace.version"); got[0][0] != fmt.Sprint(len(migrations())) {
				t.Errorf("the version is %v", got)
			}
		})
	}
}

// TestStagingOfANewerVersionIsRefused: an older program does not write what it does not understand.
func TestStagingOfANewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	dsn := env.Postgres(t)
	take(t, open(t, Config{DSN: dsn}), "loop", "me")
	target := open(t, Config{DSN: dsn})
	exec(t, target, "UPDATE _tailrace.version SET version = version + 1")
	_, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me"})
	if err == nil || !strings.Contains(err.Error(), "newer Tailrace") {
		t.Errorf("got %v", err)
	}
}
