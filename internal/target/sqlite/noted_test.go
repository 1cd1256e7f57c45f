package sqlite

import (
	"fmt"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

// TestMissingColumnsMayBeIgnored: in a table of the user's, counted when they are committed.
func TestMissingColumnsMayBeIgnored(t *testing.T) {
	t.Parallel()
	for _, ignore := range []bool{true, false} {
		target := open(t, Config{IgnoreMissingColumns: ignore})
		s := take(t, target, "loop", "me")
		exec(t, target, `CREATE TABLE cpu ("time" INTEGER, series BLOB, u REAL, PRIMARY KEY ("time", series)) STRICT;
CREATE TABLE users (k INTEGER PRIMARY KEY, name TEXT) STRICT`)
		rel := cpu(field("u", logical.KindFloat64), field("v", logical.KindFloat64))
		users := &logical.Relation{Name: "users", Columns: []logical.Column{
			{Name: "k", Kind: logical.KindInt64, Key: true}, {Name: "email", Kind: logical.KindText}, {Name: "name", Kind: logical.KindText},
		}}
		muts := []logical.Mutation{
			point(rel, 1, 1, logical.Text("h"), logical.Float64(1), logical.Float64(2)),
			point(rel, 2, 1, logical.Value{}, logical.Float64(1), logical.Value{}),
			{Op: logical.OpUpsert, Relation: users, Values: []logical.Value{logical.Int64(1), logical.Text("a@b"), logical.Text("n")}},
			{Op: logical.OpDelete, Relation: users, Values: []logical.Value{logical.Int64(2), logical.Text("a@b"), logical.Text("n")}},
		}
		tx, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = tx.Apply(t.Context(), muts)
		if rollbackErr := tx.Rollback(t.Context()); rollbackErr != nil {
			t.Fatal(rollbackErr)
		}
		if !ignore {
			if logical.ClassOf(err) != logical.ClassRetry || logical.HintOf(err) == "" {
				t.Errorf("got %v", err)
			}
			continue
		}
		if err != nil || target.cfg.Tally.Ignored.Load() != 0 {
			t.Fatalf("%d values are counted that were not committed, error %v", target.cfg.Tally.Ignored.Load(), err)
		}
		apply(t, s, muts...)
		if n := target.cfg.Tally.Ignored.Load(); n != 3 {
			t.Errorf("%d values are counted, want 3", n)
		}
		if got := fmt.Sprint(rows(t, target, "SELECT u FROM cpu"), rows(t, target, "SELECT name FROM users")); got != "[[FLOAT:1.0] [FLOAT:1.0]] [[TEXT:n]]" {
			t.Errorf("got %s", got)
		}
	}
}
