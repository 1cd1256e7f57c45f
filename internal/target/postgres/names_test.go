package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestNamesOfColumnsThatEveryTableHas: fields and tags that are called like them do not stop their stream.
func TestNamesOfColumnsThatEveryTableHas(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	tags := append([]string{}, systemColumns()...)
	var fields []logical.Column
	values := make([]logical.Value, 0, 2*len(tags)+1)
	for range tags {
		values = append(values, logical.Text("tag"))
	}
	for _, name := range append(systemColumns(), "XMIN") {
		fields = append(fields, logicaltest.Field(name, logical.KindInt64))
		values = append(values, logical.Int64(1))
	}
	if err := logicaltest.Apply(t.Context(), s, logicaltest.Point(logicaltest.Points("m", tags, fields...), 1000, 1, values...)); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, target, `SELECT xmin_tag, xmin_field, "XMIN_field", ctid_field, tableoid_field FROM m`); fmt.Sprint(got) != "[[tag 1 1 1 1]]" {
		t.Errorf("got %v", got)
	}
}

// TestNamesAreReservedAsTheServerReservesThem asks the server itself which names its tables have already.
func TestNamesAreReservedAsTheServerReservesThem(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	space := columnSpace()
	for _, row := range rows(t, target, "SELECT DISTINCT attname FROM pg_attribute WHERE attnum < 0") {
		if got := space.Assign(row[0], "_field"); got == row[0] {
			t.Errorf("%s is given out", got)
		}
	}
}

// TestNothingSilentWhereTagAndFieldFindOneColumn: somebody has added a column which both could adopt.
func TestNothingSilentWhereTagAndFieldFindOneColumn(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	first := logicaltest.Points("m", []string{"host"}, logicaltest.Field("v", logical.KindInt64))
	if err := logicaltest.Apply(t.Context(), s, logicaltest.Point(first, 1000, 1, logical.Text("h"), logical.Int64(1))); err != nil {
		t.Fatal(err)
	}
	exec(t, target, "ALTER TABLE m ADD COLUMN x text")
	rel := logicaltest.Points("m", []string{"host", "x"}, logicaltest.Field("x", logical.KindText))
	if err := logicaltest.Apply(t.Context(), s, logicaltest.Point(rel, 2000, 2, logical.Text("h"), logical.Text("TAG"), logical.Text("FIELD"))); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, target, "SELECT x, x_field FROM m WHERE x IS NOT NULL"); fmt.Sprint(got) != "[[TAG FIELD]]" {
		t.Errorf("got %v", got)
	}
}

// TestNamesOfTypes: a table is a type, so that a measurement cannot have the name of one that is there.
func TestNamesOfTypes(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	exec(t, target, "CREATE TYPE mood AS ENUM ('sad'); CREATE DOMAIN size AS int; CREATE TYPE pair AS (a int, b int); CREATE TYPE span AS RANGE (subtype = int); CREATE SEQUENCE seq; CREATE VIEW seen AS SELECT 1")
	for _, name := range []string{"mood", "size", "pair", "span", "seq", "_mood", "plain", "_plain"} {
		rel := logicaltest.Points(name, []string{"host"}, logicaltest.Field("v", logical.KindInt64))
		if err := logicaltest.Apply(t.Context(), s, logicaltest.Point(rel, 1000, 1, logical.Text("h"), logical.Int64(1))); err != nil {
			t.Errorf("%s: class %v: %v", name, logical.ClassOf(err), err)
		}
	}
	if got := rows(t, target, "SELECT convert_from(name, 'UTF8') FROM _tailrace.tables WHERE target = convert_from(name, 'UTF8') ORDER BY 1"); fmt.Sprint(got) != "[[_mood] [_plain] [plain]]" {
		t.Errorf("names that need not change: %v", got)
	}
}

// TestNamesOfSchemasThatTheServerKeeps are refused when the target is opened; those of a source become others.
func TestNamesOfSchemasThatTheServerKeeps(t *testing.T) {
	t.Parallel()
	dsn := env.Postgres(t)
	for _, name := range []string{"pg_mine", "PG_mine", "information_schema", "crdb_internal", strings.Repeat("x", 64), "a\x00"} {
		for _, cfg := range []Config{{DSN: dsn, Schema: name}, {DSN: dsn, StagingSchema: name}} {
			if target, err := Open(t.Context(), cfg); err == nil {
				t.Errorf("%q is taken", name)
				_ = target.Close() // nothing uses it
			} else if !strings.Contains(err.Error(), "cannot be the name of a schema") {
				t.Error(err)
			}
		}
	}
	target := open(t, Config{DSN: dsn})
	s := take(t, target, "loop", "me")
	for n, name := range []string{"pg_mine", "information_schema", "crdb_internal"} {
		rel := logicaltest.Points("m", []string{"host"}, logicaltest.Field("v", logical.KindInt64))
		rel.Schema = name
		if err := logicaltest.Apply(t.Context(), s, logicaltest.Point(rel, 1000, 1, logical.Text("h"), logical.Int64(1))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := rows(t, target, "SELECT count(*) FROM _tailrace.tables"); got[0][0] != fmt.Sprint(n+1) {
			t.Errorf("%s: %v tables", name, got)
		}
	}
}
