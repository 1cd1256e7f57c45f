package postgres

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/util/fan"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

const family = `CREATE TABLE parent (k bigint PRIMARY KEY, code bigint UNIQUE);
CREATE TABLE child (k bigint PRIMARY KEY, p bigint REFERENCES parent ON DELETE CASCADE);
CREATE TABLE orphan (k bigint PRIMARY KEY, p bigint REFERENCES parent ON DELETE SET NULL);
CREATE TABLE coded (k bigint PRIMARY KEY, code bigint REFERENCES parent (code) ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE tree (k bigint PRIMARY KEY, p bigint REFERENCES tree ON DELETE CASCADE);
INSERT INTO parent VALUES (1, 10); INSERT INTO child VALUES (1, 1); INSERT INTO orphan VALUES (1, 1); INSERT INTO coded VALUES (1, 10);
INSERT INTO tree VALUES (1, NULL), (2, NULL), (3, 1)`

func bigints(name string, columns ...string) *logical.Relation {
	var list []logical.Column
	for _, c := range columns {
		list = append(list, logical.Column{Name: c, Kind: logical.KindInt64})
	}
	return logicaltest.Table(name, list...)
}

// TestOrderOfWhatForeignKeysDo: the target deletes and changes the rows that referred to another one at that place
// in the source's order, and not those that did before or do after it.
func TestOrderOfWhatForeignKeysDo(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	exec(t, target, family)
	parent, child, orphan := bigints("parent", "k", "code"), bigints("child", "k", "p"), bigints("orphan", "k", "p")
	coded, tree := bigints("coded", "k", "code"), bigints("tree", "k", "p")
	i, absent := logical.Int64, logical.Value{}
	for _, c := range []struct {
		what, sql, want string
		muts            []logical.Mutation
	}{
		{"children move before their parent goes", "SELECT child.p, orphan.p, coded.code FROM child, orphan, coded", "[[2 2 20]]", []logical.Mutation{
			mutate(logical.OpUpsert, parent, i(2), i(20)), mutate(logical.OpPatch, child, i(1), i(2)), mutate(logical.OpPatch, orphan, i(1), i(2)),
			mutate(logical.OpPatch, coded, i(1), i(20)), mutate(logical.OpDelete, parent, i(1), absent),
		}},
		{"a subtree moves before its root goes", "SELECT k, p FROM tree ORDER BY k", "[[2 NULL] [3 2]]", []logical.Mutation{
			mutate(logical.OpPatch, tree, i(3), i(2)), mutate(logical.OpDelete, tree, i(1), absent),
		}},
		{"the parent goes and comes again, and then a child comes", "SELECT k, p FROM child", "[[7 2]]", []logical.Mutation{
			mutate(logical.OpDelete, parent, i(2), absent), mutate(logical.OpUpsert, parent, i(2), i(20)), mutate(logical.OpUpsert, child, i(7), i(2)),
		}},
		{"a row refers to the value that another one gets", "SELECT coded.k, coded.code FROM coded ORDER BY k", "[[4 21] [5 22]]", []logical.Mutation{
			mutate(logical.OpUpsert, coded, i(4), i(20)), mutate(logical.OpPatch, parent, i(2), i(21)),
			mutate(logical.OpUpsert, parent, i(3), i(22)), mutate(logical.OpUpsert, coded, i(5), i(22)),
		}},
	} {
		if err := logicaltest.Apply(t.Context(), s, c.muts...); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if got := rows(t, target, c.sql); fmt.Sprint(got) != c.want {
			t.Errorf("%s: got %v, want %s", c.what, got, c.want)
		}
	}
}

// TestOrderOfWhatForeignKeysDoInFanMode: the rows sit in other shards than the one that takes them along.
func TestOrderOfWhatForeignKeysDoInFanMode(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	exec(t, target, family)
	parent, child := bigints("parent", "k", "code"), bigints("child", "k", "p")
	f := fan.New(fan.Config{Session: s, Shards: 4, Reaches: s.(logical.Reacher).Reaches})
	defer func() { _ = f.Close(context.Background()) }() // closed below, too
	i, absent := logical.Int64, logical.Value{}
	const children, rounds = 20, 15
	for n := int64(1); n <= rounds; n++ {
		muts := []logical.Mutation{mutate(logical.OpUpsert, parent, i(n+1), i(10+n))}
		for k := int64(1); k <= children; k++ {
			op := logical.OpPatch
			if n == 1 {
				op = logical.OpUpsert
			}
			muts = append(muts, mutate(op, child, i(k), i(n+1)))
		}
		muts = append(muts, mutate(logical.OpDelete, parent, i(n), absent))
		if err := f.Begin(t.Context(), place(n)); err != nil {
			t.Fatal(err)
		}
		if err := f.Data(t.Context(), muts); err != nil {
			t.Fatal(err)
		}
		if err := f.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, target, "SELECT count(*), min(p), max(p) FROM child"); fmt.Sprint(got) != fmt.Sprintf("[[%d %d %d]]", children, rounds+1, rounds+1) {
		t.Errorf("count and parents of the children: %v", got)
	}
}

type place int64

func (p place) Compare(other logical.Stamp) int { return cmp.Compare(p, other.(place)) }
