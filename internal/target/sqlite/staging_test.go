package sqlite

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/logical"
)

// TestStagingOfEachVersionIsMigrated starts from the tables of every version that ever was, with what a
// loop had stored in them: it goes on where it was.
func TestStagingOfEachVersionIsMigrated(t *testing.T) {
	t.Parallel()
	for version := 1; version <= len(migrations()); version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "older.db")
			db, err := sqlite3.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			err = db.Exec(strings.Join(migrations()[:version], "") + fmt.Sprintf(`
UPDATE _tailrace_version SET version = %d;
INSERT INTO _tailrace_memo (loop, point, mode, updated) VALUES ('loop', '{"seq":3}', 'serial', 1);
INSERT INTO _tailrace_dead_letters (loop, relation, op, reason, time) VALUES ('loop', 'cpu', 'patch', 'no', 1), ('loop', 'cpu', 'patch', 'no', 1)`, version))
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			target := open(t, Config{Path: path})
			s, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me"})
			if err != nil {
				t.Fatal(err)
			}
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
			if err := s.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
