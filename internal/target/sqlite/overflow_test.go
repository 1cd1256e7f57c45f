package sqlite

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

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
	logicaltest.RunTarget(t, func(t testing.TB) logical.Target { return open(t, Config{MaxColumns: 4, MaxTables: 1}) }, options)
}

// readWithOverflow reads rows whose values may be in the overflow column, or in the table that measurements
// share. It goes by what docs/sql-targets.md says, and by the staging tables.
func readWithOverflow(t testing.TB, target logical.Target, rel *logical.Relation) []logicaltest.Row {
	if !rel.Points {
		return readTable(t, target, rel)
	}
	db := connect(t, target)
	query := func(sql string, row func(s *sqlite3.Stmt)) {
		stmt, _, err := db.Prepare(sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		defer stmt.Close()
		for stmt.Step() {
			row(stmt)
		}
		if err := stmt.Err(); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	quote := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	own, shared := "", ""
	query("SELECT name, target FROM _tailrace_tables", func(s *sqlite3.Stmt) {
		switch s.ColumnText(0) {
		case rel.Name:
			own = s.ColumnText(1)
		case "\x01overflow":
			shared = s.ColumnText(1)
		}
	})
	table := own
	if own == "" {
		if table = shared; table == "" {
			return nil
		}
	}
	columns, over := map[string]string{}, ""
	query("SELECT role, name, target FROM _tailrace_columns WHERE target_table = "+quote(table), func(s *sqlite3.Stmt) {
		columns[s.ColumnText(0)+":"+s.ColumnText(1)] = s.ColumnText(2)
		if s.ColumnText(0) == "overflow" {
			over = s.ColumnText(2)
		}
	})
	var exprs []string
	for _, c := range rel.Columns {
		role := "field"
		if c.Role == logical.RoleTag {
			role = "tag"
		}
		switch column := columns[role+":"+c.Name]; {
		case c.Key:
			exprs = append(exprs, ident.Quote(c.Name))
		case column != "":
			exprs = append(exprs, ident.Quote(column))
		default:
			exprs = append(exprs, "NULL")
		}
	}
	if over == "" {
		exprs = append(exprs, "NULL")
	} else {
		exprs = append(exprs, ident.Quote(over))
	}
	sql := "SELECT " + strings.Join(exprs, ", ") + " FROM " + ident.Quote(table)
	if own == "" {
		sql += " WHERE measurement = " + quote(rel.Name)
	}
	var rows []logicaltest.Row
	query(sql, func(s *sqlite3.Stmt) {
		row := logicaltest.Row{}
		members := map[string]any{}
		if text := s.ColumnText(len(rel.Columns)); text != "" {
			dec := json.NewDecoder(strings.NewReader(text))
			dec.UseNumber()
			if err := dec.Decode(&members); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		for i, c := range rel.Columns {
			if s.ColumnType(i) != sqlite3.NULL {
				row[c.Name] = columnText(s, i, c.Kind)
				continue
			}
			name := c.Name
			if c.Role == logical.RoleTag {
				name = "tag:" + name
			}
			switch v := members[name].(type) {
			case nil:
			case json.Number:
				row[c.Name] = v.String()
				if f, err := v.Float64(); err == nil && c.Kind == logical.KindFloat64 {
					row[c.Name] = logicaltest.FloatText(f)
				}
			default:
				row[c.Name] = fmt.Sprint(v)
			}
		}
		rows = append(rows, row)
	})
	return rows
}

// TestOverflowIsCountedAndNamed: what has no column of its own is found and counted.
func TestOverflowIsCountedAndNamed(t *testing.T) {
	t.Parallel()
	target := open(t, Config{MaxColumns: 4, MaxTables: 1})
	s := take(t, target, "loop", "me")
	wide := points("m", []string{"host", "rack"}, field("a", logical.KindInt64), field("tag:x", logical.KindUint64), field("overflow", logical.KindText))
	i, x := logical.Int64, logical.Text
	apply(t, s, point(wide, 1, 1, x("h"), x("r"), i(1), logical.Uint64(1<<63), x("\"\\\x01")))
	other := points("it's other", []string{"host"}, field("a", logical.KindInt64))
	apply(t, s, point(other, 1, 1, x("h"), i(2)), point(other, 2, 1, x("h"), logical.Value{}))
	if got := fmt.Sprint(rows(t, target, `SELECT host, rack, overflow FROM m`)); got != `[[TEXT:h TEXT:r TEXT:{"a":1,"field:tag:x":9223372036854775808,"overflow":"\"\\\u0001"}]]` {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(rows(t, target, `SELECT measurement, time, overflow FROM overflow ORDER BY time`)); got != `[[TEXT:it's other INTEGER:1 TEXT:{"tag:host":"h","a":2}] [TEXT:it's other INTEGER:2 TEXT:{"tag:host":"h"}]]` {
		t.Errorf("got %s", got)
	}
	if n := target.cfg.Tally.Overflowed.Load(); n != 6 {
		t.Errorf("%d values are counted, want 6", n)
	}
	// What JSON cannot hold is refused alone.
	bad := point(wide, 2, 1, x("h"), x("r"), i(1), logical.Uint64(1), x("a\x00b"))
	good := point(wide, 3, 1, x("h"), x("r"), i(1), logical.Uint64(1), x("ab"))
	err := tryApply(t.Context(), s, good, bad)
	if list := logical.RejectedOf(err); logical.ClassOf(err) != logical.ClassReject || len(list) != 1 || list[0].Index != 1 {
		t.Errorf("got %v", err)
	}
	// One measurement does not empty the table of all.
	if err := tryApply(t.Context(), s, logical.Mutation{Op: logical.OpTruncate, Relation: other}); logical.ClassOf(err) != logical.ClassReject {
		t.Errorf("got %v", err)
	}
}
