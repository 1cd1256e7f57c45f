package sqlite

import (
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

// TestTwoTablesOfTheSourceAreNeverOne: what has one name in SQLite stays apart, also after a restart.
func TestTwoTablesOfTheSourceAreNeverOne(t *testing.T) {
	t.Parallel()
	k, v := logical.Column{Name: "k", Kind: logical.KindInt64, Key: true}, logical.Column{Name: "v", Kind: logical.KindInt64}
	table := func(schema, name string) *logical.Relation {
		return &logical.Relation{Schema: schema, Name: name, Columns: []logical.Column{k, v}}
	}
	points := func(schema, name string) *logical.Relation {
		rel := *cpu(field("v", logical.KindInt64))
		rel.Schema, rel.Name = schema, name
		return &rel
	}
	for _, c := range []struct {
		ddl      string
		one, two *logical.Relation
	}{
		{`CREATE TABLE "a.b.c" (k INTEGER PRIMARY KEY, v INTEGER)`, table("a", "b.c"), table("a.b", "c")},
		{`CREATE TABLE "a.b" (k INTEGER PRIMARY KEY, v INTEGER)`, table("", "a.b"), table("a", "b")},
		{`CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER)`, table("", "t"), table("", "T")},
		{`CREATE TABLE "a.b" (time INTEGER, series BLOB, host TEXT, v INTEGER, PRIMARY KEY (time, series))`, points("", "a.b"), points("a", "b")},
	} {
		target := open(t, Config{})
		exec(t, target, c.ddl)
		s := take(t, target, "loop", "me")
		put := func(s logical.Session, r *logical.Relation) error {
			if r.Points {
				return tryApply(t.Context(), s, point(r, 1, 1, logical.Text("h"), logical.Int64(1)))
			}
			return tryApply(t.Context(), s, logical.Mutation{Op: logical.OpUpsert, Relation: r, Values: []logical.Value{logical.Int64(1), logical.Int64(1)}})
		}
		refused := func(s logical.Session) {
			t.Helper()
			err := put(s, c.two)
			if err == nil || !strings.Contains(err.Error(), "cannot hold those") || logical.ClassOf(err) != logical.ClassRetry || logical.HintOf(err) == "" {
				t.Errorf("%s: the second has it, too: %v", c.ddl, err)
			}
		}
		if err := put(s, c.one); err != nil {
			t.Fatal(err)
		}
		refused(s)
		again := open(t, Config{Path: target.cfg.Path})
		s = take(t, again, "loop", "me")
		refused(s)
		same := *c.one
		if same.Schema == "" {
			same.Schema = "main"
		}
		if err := put(s, &same); err != nil {
			t.Errorf("%s: the first has lost it: %v", c.ddl, err)
		}
	}
}
