package sqlite

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	logicaltest.RunTarget(t, func(t testing.TB) logical.Target { return open(t, Config{}) }, conformance())
}

func conformance() logicaltest.Options {
	return logicaltest.Options{
		Read:        readTable,
		CreateTable: createTable,
		Another: func(t testing.TB, target logical.Target) logical.Target {
			another, err := Open(t.Context(), target.(*Target).cfg)
			if err != nil {
				t.Fatal(err)
			}
			return another
		},
	}
}

// connect opens the target's file beside it.
func connect(t testing.TB, target logical.Target) *sqlite3.Conn {
	t.Helper()
	db, err := sqlite3.Open(target.(*Target).cfg.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Exec("PRAGMA busy_timeout=10000"); err != nil {
		t.Fatal(err)
	}
	return db
}

func createTable(t testing.TB, target logical.Target, rel *logical.Relation) {
	t.Helper()
	var columns, keys []string
	for _, c := range rel.Columns {
		declared := map[logical.Kind]string{
			logical.KindInt64: "INTEGER", logical.KindFloat64: "REAL", logical.KindBool: "INTEGER", logical.KindText: "TEXT",
		}[c.Kind]
		columns = append(columns, ident.Quote(c.Name)+" "+declared)
		if c.Key {
			keys = append(keys, ident.Quote(c.Name))
		}
	}
	sql := fmt.Sprintf("CREATE TABLE %s (%s, PRIMARY KEY (%s))", ident.Quote(rel.Name), strings.Join(columns, ", "), strings.Join(keys, ", "))
	if err := connect(t, target).Exec(sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func readTable(t testing.TB, target logical.Target, rel *logical.Relation) []logicaltest.Row {
	t.Helper()
	var columns []string
	for _, c := range rel.Columns {
		columns = append(columns, ident.Quote(c.Name))
	}
	stmt, _, err := connect(t, target).Prepare("SELECT " + strings.Join(columns, ", ") + " FROM " + ident.Quote(rel.Name))
	if err != nil {
		if strings.Contains(err.Error(), "no such table") {
			return nil
		}
		t.Fatal(err)
	}
	defer stmt.Close()
	var rows []logicaltest.Row
	for stmt.Step() {
		row := logicaltest.Row{}
		for i, c := range rel.Columns {
			if stmt.ColumnType(i) != sqlite3.NULL {
				row[c.Name] = columnText(stmt, i, c.Kind)
			}
		}
		rows = append(rows, row)
	}
	if err := stmt.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

func columnText(stmt *sqlite3.Stmt, i int, kind logical.Kind) string {
	switch {
	case kind == logical.KindUUID:
		return hex.EncodeToString(stmt.ColumnRawBlob(i))
	case kind == logical.KindBool:
		return strconv.FormatBool(stmt.ColumnBool(i))
	case stmt.ColumnType(i) == sqlite3.FLOAT:
		return logicaltest.FloatText(stmt.ColumnFloat(i))
	}
	return stmt.ColumnText(i)
}
