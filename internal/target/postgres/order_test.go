package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

func userRelation() *logical.Relation {
	return logicaltest.Table("u", logical.Column{Name: "k", Kind: logical.KindInt64}, logical.Column{Name: "email", Kind: logical.KindText})
}

func mutate(op logical.Op, rel *logical.Relation, values ...logical.Value) logical.Mutation {
	return logical.Mutation{Op: op, Relation: rel, Values: values}
}

// What is unique besides the key passes from row to row, in an order that merging by key loses.
func TestSecondUniqueKeyPassesBetweenRows(t *testing.T) {
	t.Parallel()
	for _, copyRows := range []int{1, 1000} {
		target := open(t, Config{copyRows: copyRows})
		s := take(t, target, "loop", "me")
		exec(t, target, "CREATE TABLE u (k bigint PRIMARY KEY, email text UNIQUE); INSERT INTO u VALUES (100, 'taken')")
		rel := userRelation()
		i, x := logical.Int64, logical.Text
		if err := logicaltest.Apply(t.Context(), s,
			mutate(logical.OpUpsert, rel, i(1), x("a")),
			mutate(logical.OpUpsert, rel, i(2), x("b")),
			mutate(logical.OpUpsert, rel, i(1), x("c")), // a is free
			mutate(logical.OpUpsert, rel, i(2), x("a")), // b is free
			mutate(logical.OpUpsert, rel, i(1), x("b")),
			mutate(logical.OpUpsert, rel, i(3), x("c")),
			mutate(logical.OpDelete, rel, i(3), logical.Value{}),
			mutate(logical.OpUpsert, rel, i(4), x("c")),
		); err != nil {
			t.Fatal(err)
		}
		if got := rows(t, target, "SELECT k, email FROM u ORDER BY k"); fmt.Sprint(got) != "[[1 b] [2 a] [4 c] [100 taken]]" {
			t.Errorf("got %v", got)
		}
		// Two rows swap, one statement after the other.
		if err := logicaltest.Apply(t.Context(), s,
			mutate(logical.OpPatch, rel, i(1), x("tmp")), mutate(logical.OpPatch, rel, i(2), x("b")), mutate(logical.OpPatch, rel, i(1), x("a"))); err != nil {
			t.Fatal(err)
		}
		if got := rows(t, target, "SELECT k, email FROM u ORDER BY k"); fmt.Sprint(got) != "[[1 a] [2 b] [4 c] [100 taken]]" {
			t.Errorf("got %v", got)
		}
		// One that is really taken is named, and its class says that another order may help.
		err := logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, rel, i(7), x("free")), mutate(logical.OpUpsert, rel, i(8), x("taken")))
		if logical.ClassOf(err) != logical.ClassConstraint || fmt.Sprint(rejectedAt(err)) != "[1]" {
			t.Errorf("got %v, class %v, rejected %v", err, logical.ClassOf(err), rejectedAt(err))
		}
	}
}

func TestForeignKeysInTheOrderOfTheSource(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	exec(t, target, `CREATE TABLE parent (k bigint PRIMARY KEY, n bigint); CREATE TABLE child (k bigint PRIMARY KEY, p bigint REFERENCES parent)`)
	parent := logicaltest.Table("parent", logical.Column{Name: "k", Kind: logical.KindInt64}, logical.Column{Name: "n", Kind: logical.KindInt64})
	child := logicaltest.Table("child", logical.Column{Name: "k", Kind: logical.KindInt64}, logical.Column{Name: "p", Kind: logical.KindInt64})
	i := logical.Int64
	absent := logical.Value{}
	if err := logicaltest.Apply(t.Context(), s,
		mutate(logical.OpUpsert, parent, i(1), i(0)), mutate(logical.OpUpsert, child, i(1), i(1)),
		mutate(logical.OpUpsert, parent, i(2), i(0)), mutate(logical.OpPatch, child, i(1), i(2)), mutate(logical.OpDelete, parent, i(1), absent),
	); err != nil {
		t.Fatal(err)
	}
	if err := logicaltest.Apply(t.Context(), s, mutate(logical.OpDelete, child, i(1), absent), mutate(logical.OpDelete, parent, i(2), absent)); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, target, "SELECT (SELECT count(*) FROM parent), (SELECT count(*) FROM child)"); fmt.Sprint(got) != "[[0 0]]" {
		t.Errorf("got %v", got)
	}
	orphan := logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, child, i(9), i(9)))
	if logical.ClassOf(orphan) != logical.ClassConstraint {
		t.Errorf("an orphan: %v, class %v", orphan, logical.ClassOf(orphan))
	}
	truncate := logical.Mutation{Op: logical.OpTruncate, Relation: parent}
	if err := logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, parent, i(1), i(0)), truncate); err != nil {
		t.Errorf("truncate of a table that others refer to: %v", err)
	}
}

// Keys that differ in their bytes and are equal to the server.
func TestKeysThatAreEqualToTheServerAlone(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	exec(t, target, `CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE c (k text COLLATE nocase PRIMARY KEY, v bigint); CREATE TABLE d (k date PRIMARY KEY, v bigint); CREATE TABLE n (k numeric PRIMARY KEY, v bigint)`)
	for table, keys := range map[string][]logical.Value{
		"c": {logical.Text("Abc"), logical.Text("aBC")}, "d": {logical.Text("2024-02-01"), logical.Text("2024-2-1")}, "n": {dec("1.0"), dec("1.000")},
	} {
		rel := logicaltest.Table(table, logical.Column{Name: "k", Kind: keys[0].Kind()}, logical.Column{Name: "v", Kind: logical.KindInt64})
		if err := logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, rel, keys[0], logical.Int64(1)), mutate(logical.OpUpsert, rel, keys[1], logical.Int64(2))); err != nil {
			t.Errorf("%s: %v", table, err)
			continue
		}
		if got := rows(t, target, "SELECT count(*), max(v) FROM "+table); fmt.Sprint(got) != "[[1 2]]" {
			t.Errorf("%s: got %v", table, got)
		}
	}
}

// Of each statement that fails in a batch the row is named where there is a way to know.
func TestRowThatTheServerRefusesIsNamed(t *testing.T) {
	t.Parallel()
	target := open(t, Config{copyRows: 2})
	s := take(t, target, "loop", "me")
	exec(t, target, "CREATE TABLE u (k bigint PRIMARY KEY, email text CHECK (email <> 'bad'))")
	rel := userRelation()
	i, x := logical.Int64, logical.Text
	err := logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, rel, i(3), x("ok")), mutate(logical.OpUpsert, rel, i(2), x("bad")), mutate(logical.OpUpsert, rel, i(1), x("ok")))
	if logical.ClassOf(err) != logical.ClassReject || fmt.Sprint(rejectedAt(err)) != "[1]" {
		t.Errorf("by COPY: %v, rejected %v", err, rejectedAt(err))
	}
	err = logicaltest.Apply(t.Context(), s, mutate(logical.OpUpsert, rel, i(2), x("bad")))
	if logical.ClassOf(err) != logical.ClassReject || fmt.Sprint(rejectedAt(err)) != "[0]" {
		t.Errorf("alone: %v, rejected %v", err, rejectedAt(err))
	}
}

func TestMissingColumnsMayBeIgnored(t *testing.T) {
	t.Parallel()
	for _, ignore := range []bool{true, false} {
		target := open(t, Config{IgnoreMissingColumns: ignore})
		s := take(t, target, "loop", "me")
		exec(t, target, "CREATE TABLE u (k bigint PRIMARY KEY, other text)")
		exec(t, target, `CREATE TABLE m ("time" timestamptz, nanos smallint, series uuid, PRIMARY KEY ("time", nanos, series))`)
		user := mutate(logical.OpUpsert, userRelation(), logical.Int64(1), logical.Text("a"))
		err := logicaltest.Apply(t.Context(), s, user)
		if ignore && err != nil {
			t.Errorf("ignored: %v", err)
		}
		if ignore {
			removed := user
			removed.Op = logical.OpDelete
			if err := logicaltest.Apply(t.Context(), s, hostPoint(1, 1, "a", "x", 1), removed); err != nil {
				t.Error(err)
			}
			if n := target.cfg.Tally.Ignored.Load(); n != 4 { // email, and of the point two tags and a field
				t.Errorf("%d values are counted, want 4", n)
			}
		} else if !ignore {
			wantRetry(t, "a missing column", err, `"email"`, "ALTER TABLE")
		}
	}
}

// TestUserWithoutTemporaryTables: large batches go another way.
func TestUserWithoutTemporaryTables(t *testing.T) {
	t.Parallel()
	owner := open(t, Config{})
	database := rows(t, owner, "SELECT current_database()")[0][0]
	user := "app_" + database // users are the server's
	exec(t, owner, fmt.Sprintf("CREATE ROLE %[1]s LOGIN; GRANT ALL ON SCHEMA public TO %[1]s; GRANT CREATE ON DATABASE %[2]s TO %[1]s; REVOKE TEMPORARY ON DATABASE %[2]s FROM PUBLIC", user, database))
	target := open(t, Config{DSN: strings.Replace(owner.cfg.DSN, "postgres@", user+"@", 1), copyRows: 1, mergeValues: 1})
	s := take(t, target, "loop", "me")
	_, mut := value(1)
	for range 4 {
		if err := logicaltest.Apply(t.Context(), s, mut(1)); err != nil {
			t.Fatal(err)
		}
	}
	if !target.noTemp.Load() {
		t.Error("no temporary table was tried")
	}
}

// rejectedAt returns the places of the mutations that were refused.
func rejectedAt(err error) (at []int) {
	for _, r := range logical.RejectedOf(err) {
		at = append(at, r.Index)
	}
	return at
}
