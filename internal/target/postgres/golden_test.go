package postgres

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// update rewrites the golden files: go test -run Golden -update.
var update = flag.Bool("update", false, "rewrite the golden files")

// The SQL that is sent, for a reviewer to read. For CockroachDB, of which there is no server to test
// with, it is all that there is.
func TestGoldenSQL(t *testing.T) {
	t.Parallel()
	for name, crdb := range map[string]bool{"postgres": false, "cockroach": true} {
		got := goldenSQL(t, crdb)
		path := "testdata/" + name + ".sql"
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || string(want) != got {
			t.Errorf("%s differs (%v); if that is right, run the test with -update. It is now:\n%s", path, err, got)
		}
	}
}

func goldenSQL(t *testing.T, crdb bool) string {
	t.Helper()
	target, err := Open(context.Background(), Config{DSN: "postgres://nobody@127.0.0.1:1/nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	target.crdb.Store(crdb)
	var b strings.Builder
	say := func(title, sql string) { fmt.Fprintf(&b, "-- %s\n%s;\n\n", title, sql) }
	var settings []string
	for _, s := range target.settings(crdb) {
		settings = append(settings, fmt.Sprintf("set_config('%s', %s, false)", s.name, s.value))
	}
	say("each session", "SELECT "+strings.Join(settings, ", "))
	s := &session{t: target, claim: logical.Claim{Loop: "loop"}}
	x := &tx{s: s, w: newWork(), epoch: 7}
	for _, statement := range x.prove(nil) {
		say(statement.what, statement.sql)
	}
	tab := &table{name: tableName{"public", "cpu"}, quoted: `"public"."cpu"`, copyable: !crdb, overflow: 6, columns: []column{
		{name: "time", wire: wireTimestamptz, notNull: true},
		{name: "series", wire: wireUUID, notNull: true},
		{name: "nanos", wire: wireInt2, notNull: true},
		{name: "host", wire: wireText},
		{name: "usage", wire: wireFloat8},
		{name: "mood", wire: wireCast, castName: `public."Mood"`},
		{name: "overflow", wire: wireJSONB},
	}, uniques: [][]int{{0, 1, 2}}, sqls: newSQLs()}
	rel := logicaltest.Points("cpu", []string{"host"}, logicaltest.Field("usage", logical.KindFloat64), logicaltest.Field("mood", logical.KindText))
	p := newPlan(rel, tab)
	for at, from := range []int{0, 1, 0, 2, 3, 4} {
		p.sources[at] = source{column: from, wire: tab.columns[at].wire, nanos: at == 2}
	}
	if err := p.setKeys(map[int]int{0: 0, 1: 1, 2: 0}); err != nil {
		t.Fatal(err)
	}
	mask := make([]byte, len(tab.columns))
	for at := range mask {
		mask[at] = byte(tab.columns[at].wire) + 1
	}
	for _, v := range []verb{verbUpsert, verbSparse, verbFill, verbFillAdd, verbFillSet, verbInsert, verbAdd, verbPatch, verbDelete, verbLateAdd, verbLateSet, verbFree, verbMove, verbTruncate} {
		g := p.groupSQL(v, mask)
		say(fmt.Sprintf("%s (%c)", v, v), g.sql)
	}
	mask[5], mask[6] = 0, 0
	if g := p.groupSQL(verbUpsert, mask); g.copy != "" {
		say("many new rows", g.copy)
		merge := g.merge()
		say("many rows of which some are there", merge.create+";\n"+merge.copy+";\n"+merge.merge)
	}
	for n, step := range migrations() {
		say(fmt.Sprintf("staging tables, version %d", n+1), strings.TrimSuffix(strings.TrimSpace(strings.ReplaceAll(step, "STAGING.", target.staging)), ";"))
	}
	return b.String()
}
