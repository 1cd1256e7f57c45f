package postgres

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestGoldenSession records every statement of a session's life as it travels, for a reviewer to read: once to the
// server, and once by the dialect that CockroachDB is spoken to in, of which there is no server to test with. What it sends
// is at least understood by PostgreSQL.
func TestGoldenSession(t *testing.T) {
	t.Parallel()
	for name, cockroach := range map[string]bool{"postgres": false, "cockroach": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := goldenSession(t, cockroach)
			path := "testdata/" + name + "_session.sql"
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || string(want) != got {
				t.Errorf("%s differs (%v); if that is right, run the test with -update. It is now:\n%s", path, err, got)
			}
			if cockroach {
				for _, no := range []string{"advisory", "LOCK TABLE", "COPY", "ISOLATION LEVEL", "synchronous_commit"} {
					if strings.Contains(strings.ToUpper(got), strings.ToUpper(no)) {
						t.Errorf("CockroachDB is sent %q", no)
					}
				}
			}
		})
	}
}

func goldenSession(t *testing.T, cockroach bool) string {
	t.Helper()
	direct := open(t, Config{})
	exec(t, direct, `CREATE TABLE parent (k bigint PRIMARY KEY, v bigint); CREATE TABLE child (k bigint PRIMARY KEY, p bigint REFERENCES parent ON DELETE CASCADE);
CREATE TABLE theirs ("time" timestamptz, nanos smallint, series uuid, host text, v bigint, PRIMARY KEY ("time", series, nanos))`)
	r := &recorder{cockroach: cockroach}
	port := r.listen(t, fmt.Sprintf("127.0.0.1:%d", portOf(t, direct)))
	target, err := Open(t.Context(), Config{DSN: viaPort(t, direct.cfg.DSN, port), Conns: 3, MaxColumns: 5, MaxTables: 1, IndexTags: []string{"host"}, copyRows: 4, mergeValues: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := target.Close(); err != nil {
			t.Error(err)
		}
	}()
	var b strings.Builder
	step := func(title string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", title, err)
		}
		for i, sql := range r.drain() {
			if i == 0 {
				fmt.Fprintf(&b, "-- %s\n\n", title)
			}
			b.WriteString(sql + ";\n\n")
		}
	}
	ctx, i := t.Context(), logical.Int64
	claim := logical.Claim{Loop: "loop", Holder: "me", TTL: time.Hour}
	session, err := target.Take(ctx, claim)
	step("a loop is taken over for the first time", err)
	if target.crdb.Load() != cockroach {
		t.Fatal("the server is not taken for what it says that it is")
	}
	_, _, _, err = target.tryTake(ctx, logical.Claim{Loop: "loop", Holder: "somebody else", TTL: time.Hour})
	step("somebody else wants it", err)
	_, err = session.LoadMemo(ctx)
	step("the memo is read", err)
	step("and stored", session.SaveMemo(ctx, logical.MemoState{Point: []byte(`{"n":1}`), Mode: "fan"}))
	step("the lease is renewed", session.(interface{ renew(context.Context) error }).renew(ctx))
	step("the epoch is raised", session.Fence(ctx))
	points := func(name string, fields ...string) func(ns int64) logical.Mutation {
		var columns []logical.Column
		values := []logical.Value{logical.Text("h")}
		for _, f := range fields {
			columns, values = append(columns, logicaltest.Field(f, logical.KindInt64)), append(values, i(1))
		}
		rel := logicaltest.Points(name, []string{"host"}, columns...)
		return func(ns int64) logical.Mutation { return logicaltest.Point(rel, ns, 1, values...) }
	}
	one := points("m", "a")
	step("a point makes its table", logicaltest.Apply(ctx, session, one(1)))
	two := points("m", "a", "b", "c")
	step("another one extends it, and fills the overflow column", logicaltest.Apply(ctx, session, two(2)))
	step("there are no more tables", logicaltest.Apply(ctx, session, points("n", "a")(1)))
	step("a table of the user's", logicaltest.Apply(ctx, session, points("theirs", "v")(1)))
	step("many points", logicaltest.Apply(ctx, session, one(11000), one(12000), one(13000), one(14000), one(15000)))
	step("many points of which some are there", logicaltest.Apply(ctx, session, one(11000), one(12000), one(13000), one(14000), one(16000)))
	parent, child, absent := bigints("parent", "k", "v"), bigints("child", "k", "p"), logical.Value{}
	step("rows of databases", logicaltest.Apply(ctx, session, mutate(logical.OpUpsert, parent, i(1), i(1)), mutate(logical.OpUpsert, parent, i(2), i(1)),
		mutate(logical.OpUpsert, child, i(1), i(1)), mutate(logical.OpPatch, child, i(1), i(2))))
	step("and their deletes", logicaltest.Apply(ctx, session, mutate(logical.OpDelete, parent, i(1), absent)))
	step("a row that comes anew", logicaltest.Apply(ctx, session, mutate(logical.OpReplace, child, i(1), i(2))))
	rekey := mutate(logical.OpRekey, parent, i(3), i(1))
	rekey.OldKey = []logical.Value{i(9)}
	step("another key", logicaltest.Apply(ctx, session, rekey))
	step("no rows", logicaltest.Apply(ctx, session, logical.Mutation{Op: logical.OpTruncate, Relation: child}))
	tx, err := session.Begin(ctx)
	step("begin", err)
	step("letters are set aside", tx.SetAside(ctx, []logical.DeadLetter{{Table: "m", Op: logical.OpUpsert, Payload: []byte("m a=1"), Reason: "no"}}))
	step("taken back", tx.TakeBack(ctx, []int64{99}))
	step("kept alive", tx.Apply(ctx, nil))
	step("the constraints are checked", tx.(logical.Checker).Check(ctx))
	step("the end", tx.Commit(ctx))
	letters, err := target.ListDeadLetters(ctx, "loop", 0, 10)
	step("letters are listed", err)
	_, _, err = target.CountDeadLetters(ctx, "loop")
	step("counted", err)
	step("thrown away", target.DiscardDeadLetters(ctx, "loop", []int64{letters[0].ID}))
	step("the lease is given back", session.Release(ctx))
	step("the loop is forgotten", target.Forget(ctx, claim, false))
	return b.String()
}
