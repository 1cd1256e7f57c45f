package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestConformanceAtTheLimits runs the suite where a table has two columns beside its key, and there is one
// table: everything else goes into overflow columns, and the rows are the same.
func TestConformanceAtTheLimits(t *testing.T) {
	t.Parallel()
	options := conformance()
	options.Read = readWithOverflow
	logicaltest.RunTarget(t, func(t testing.TB) logical.Target { return open(t, Config{MaxColumns: 5, MaxTables: 1}) }, options)
}

// readWithOverflow reads rows whose values may be in the overflow column, or in the table that measurements
// share. It goes by what docs/sql-targets.md says, and by the staging tables.
func readWithOverflow(t testing.TB, target logical.Target, rel *logical.Relation) []logicaltest.Row {
	if !rel.Points {
		return readTable(t, target, rel)
	}
	conn := connect(t, target)
	ctx := context.Background()
	table, shared := "", false
	err := conn.QueryRow(ctx, `SELECT target, name = '\x01'::bytea || 'overflow'::bytea FROM _tailrace.tables
WHERE name = $1 OR name = '\x01'::bytea || 'overflow'::bytea ORDER BY name = $1 DESC`, []byte(rel.Name)).Scan(&table, &shared)
	if err != nil {
		return nil // nothing was made
	}
	members := map[string]string{}
	rows, err := conn.Query(ctx, "SELECT role, name, target FROM _tailrace.columns WHERE target_table = $1", table)
	if err != nil {
		t.Fatal(err)
	}
	over := ""
	for rows.Next() {
		var role, target string
		var name []byte
		if err := rows.Scan(&role, &name, &target); err != nil {
			t.Fatal(err)
		}
		members[role+":"+string(name)] = target
		if role == "overflow" {
			over = ident.Quote(target)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, c := range rel.Columns {
		role, member := "field", c.Name
		if c.Role == logical.RoleTag {
			role, member = "tag", "tag:"+c.Name
		}
		switch column := members[role+":"+c.Name]; {
		case c.Role == logical.RoleTime:
			columns = append(columns, `((extract(epoch FROM "time") * 1000000)::bigint * 1000 + nanos)::text`)
		case c.Role == logical.RoleSeries:
			columns = append(columns, "series::text")
		case column != "":
			columns = append(columns, ident.Quote(column)+"::text")
		case over != "":
			columns = append(columns, over+" ->> '"+strings.ReplaceAll(member, "'", "''")+"'")
		default:
			columns = append(columns, "NULL::text")
		}
	}
	query := "SELECT " + strings.Join(columns, ", ") + " FROM " + ident.Quote(table)
	if shared {
		query += " WHERE measurement = '" + rel.Name + "'"
	}
	result, err := conn.Query(ctx, query, pgx.QueryExecModeExec)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	var list []logicaltest.Row
	for result.Next() {
		row := logicaltest.Row{}
		for i, v := range result.RawValues() {
			if v != nil {
				row[rel.Columns[i].Name] = normal(string(v), rel.Columns[i].Kind)
			}
		}
		list = append(list, row)
	}
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestOverflowIsCountedAndNamed: what has no column of its own is found, counted, and its reason logged.
func TestOverflowIsCountedAndNamed(t *testing.T) {
	t.Parallel()
	target := open(t, Config{MaxColumns: 5, MaxTables: 1})
	s := take(t, target, "loop", "me")
	wide := logicaltest.Points("m", []string{"host", "rack"}, logicaltest.Field("a", logical.KindInt64), logicaltest.Field("tag:x", logical.KindUint64),
		logicaltest.Field("overflow", logical.KindText))
	i, x := logical.Int64, logical.Text
	point := logicaltest.Point(wide, 1, 1, x("h"), x("r"), i(1), logical.Uint64(1<<63), x("\"\\\x01"))
	if err := logicaltest.Apply(t.Context(), s, point); err != nil {
		t.Fatal(err)
	}
	other := logicaltest.Points("other", []string{"host"}, logicaltest.Field("a", logical.KindInt64))
	if err := logicaltest.Apply(t.Context(), s, logicaltest.Point(other, 1, 1, x("h"), i(2)), logicaltest.Point(other, 2, 1, x("h"), logical.Value{})); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(rows(t, target, `SELECT host, rack, overflow ->> 'a', overflow ->> 'field:tag:x', overflow ->> 'overflow' FROM m`)); got != "[[h r 1 9223372036854775808 \"\\\x01]]" {
		t.Errorf("got %q", got)
	}
	if got := fmt.Sprint(rows(t, target, `SELECT measurement, nanos, overflow FROM overflow ORDER BY nanos`)); got != `[[other 1 {"a": 2, "tag:host": "h"}] [other 2 {"tag:host": "h"}]]` {
		t.Errorf("got %s", got)
	}
	if n := target.cfg.Tally.Overflowed.Load(); n != 6 {
		t.Errorf("%d values are counted, want 6", n)
	}
	// What JSON cannot hold is refused alone.
	bad := logicaltest.Point(wide, 2, 1, x("h"), x("r"), i(1), logical.Uint64(1), x("a\x00b"))
	good := logicaltest.Point(wide, 3, 1, x("h"), x("r"), i(1), logical.Uint64(1), x("ab"))
	err := logicaltest.Apply(t.Context(), s, good, bad)
	if logical.ClassOf(err) != logical.ClassReject || fmt.Sprint(rejectedAt(err)) != "[1]" {
		t.Errorf("got %v", err)
	}
	// One measurement does not empty the table of all.
	err = logicaltest.Apply(t.Context(), s, logical.Mutation{Op: logical.OpTruncate, Relation: other})
	if logical.ClassOf(err) != logical.ClassReject {
		t.Errorf("got %v", err)
	}
	// A schema of another stream has a limit of its own.
	elsewhere := logicaltest.Points("other", []string{"host"}, logicaltest.Field("a", logical.KindInt64))
	elsewhere.Schema = "elsewhere"
	if err := logicaltest.Apply(t.Context(), s, logicaltest.Point(elsewhere, 1, 1, x("h"), i(2))); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, target, `SELECT a FROM elsewhere.other`); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}
