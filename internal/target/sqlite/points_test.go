package sqlite

import (
	"math"
	"reflect"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestPointBecomesRowOfTypedColumns(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "a", "me")
	rel := cpu(field("f", logical.KindFloat64), field("i", logical.KindInt64), field("u", logical.KindUint64),
		field("b", logical.KindBool), field("s", logical.KindText))
	apply(t, s, point(rel, -1, 1, logical.Text("a"), logical.Float64(1.5), logical.Int64(math.MinInt64),
		logical.Uint64(math.MaxUint64), logical.Bool(true), logical.Text("x\x00y")))
	got := rows(t, target, `SELECT time, hex(series), host, f, i, u, b, s FROM cpu`)
	want := [][]string{{
		"INTEGER:-1", "TEXT:01000000000000000000000000000000", "TEXT:a", "FLOAT:1.5",
		"INTEGER:-9223372036854775808", "TEXT:18446744073709551615", "INTEGER:1", "TEXT:x\x00y",
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestLaterPointFillsInAndOverwritesOnlyItsFields(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "a", "me")
	rel := cpu(field("x", logical.KindInt64), field("y", logical.KindInt64))
	apply(t, s,
		point(rel, 5, 1, logical.Text("a"), logical.Int64(1), logical.Int64(2)),
		point(rel, 5, 1, logical.Text("a"), logical.Int64(3), logical.Value{}),
		point(rel, 6, 1, logical.Text("a"), logical.Value{}, logical.Int64(4)))
	wider := cpu(field("z", logical.KindInt64))
	apply(t, s, point(wider, 5, 1, logical.Text("a"), logical.Int64(9)))
	got := rows(t, target, `SELECT time, host, x, y, z FROM cpu ORDER BY time`)
	want := [][]string{
		{"INTEGER:5", "TEXT:a", "INTEGER:3", "INTEGER:2", "INTEGER:9"},
		{"INTEGER:6", "TEXT:a", "NULL", "INTEGER:4", "NULL"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTypeConflictRejectsThatPointAlone(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "a", "me")
	apply(t, s, point(cpu(field("v", logical.KindInt64)), 1, 1, logical.Text("a"), logical.Int64(1)))
	floats, strings := cpu(field("v", logical.KindFloat64)), cpu(field("v", logical.KindText))
	err := tryApply(t.Context(), s,
		point(floats, 2, 1, logical.Text("a"), logical.Float64(2)), // nothing is lost
		point(floats, 3, 1, logical.Text("a"), logical.Float64(2.5)),
		point(floats, 4, 1, logical.Text("a"), logical.Float64(4)),
		point(strings, 5, 1, logical.Text("a"), logical.Text("5")))
	if logical.ClassOf(err) != logical.ClassReject || len(logical.RejectedOf(err)) == 0 || logical.RejectedOf(err)[0].Index != 1 {
		t.Fatalf("got %v, class %v, rejected %v", err, logical.ClassOf(err), logical.RejectedOf(err))
	}
	if got := rows(t, target, `SELECT time FROM cpu`); len(got) != 1 {
		t.Errorf("the batch that failed left %d rows behind", len(got)-1)
	}
	apply(t, s, point(floats, 2, 1, logical.Text("a"), logical.Float64(2)))
	if got := rows(t, target, `SELECT v FROM cpu WHERE time = 2`); got[0][0] != "INTEGER:2" {
		t.Errorf("got %s", got)
	}
}

func TestReservedAndCollidingNames(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "a", "me")
	rel := points("sqlite_x", []string{"time", "host", "Host"}, field("series", logical.KindInt64), field("host", logical.KindInt64))
	apply(t, s, point(rel, 1, 1, logical.Text("t"), logical.Text("h"), logical.Text("H"), logical.Int64(1), logical.Int64(2)))
	got := rows(t, target, `SELECT time_tag, host, Host_03986b4f, series_field, host_field FROM "m_sqlite_x_122a9c31"`)
	want := [][]string{{"TEXT:t", "TEXT:h", "TEXT:H", "INTEGER:1", "INTEGER:2"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q\nin %q", got, want, rows(t, target, "SELECT sql FROM sqlite_schema"))
	}
}
