package sqlite

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/logical"
)

func dec(text string) logical.Value {
	d, _, err := apd.NewFromString(text)
	if err != nil {
		panic(err)
	}
	return logical.Decimal(d)
}

// refusedValue stands for a value that must not be stored.
const refusedValue = "refused"

func TestEveryKindInEveryColumn(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	at := time.Date(2024, 2, 29, 12, 34, 56, 123456789, time.UTC)
	id := [16]byte{1, 15: 255}
	for n, c := range []struct {
		declared string
		value    logical.Value
		want     string
	}{
		{"INTEGER", logical.Int64(math.MinInt64), "INTEGER:-9223372036854775808"},
		{"INTEGER", logical.Uint64(math.MaxUint64), refusedValue},
		{"INTEGER", logical.Float64(3), "INTEGER:3"},
		{"INTEGER", logical.Float64(3.5), refusedValue},
		{"INTEGER", logical.Float64(math.NaN()), refusedValue},
		{"INTEGER", logical.Bool(true), "INTEGER:1"},
		{"INTEGER", logical.UnixNano(-1), "INTEGER:-1"},
		{"INTEGER", dec("1e3"), "INTEGER:1000"},
		{"INTEGER", logical.Time(time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)), refusedValue},
		{"INTEGER", logical.InfiniteTime(1), refusedValue},
		{"INTEGER", logical.UnixNano(math.MinInt64), "INTEGER:-9223372036854775808"},
		{"INTEGER", logical.UnixNano(math.MaxInt64), "INTEGER:9223372036854775807"},
		{"REAL", logical.Float64(0.1), "FLOAT:0.1"},
		{"REAL", logical.Float64(math.Inf(1)), "FLOAT:Inf"},
		{"REAL", logical.Float64(math.NaN()), refusedValue},
		{"REAL", logical.Int64(1<<53 + 1), refusedValue},
		{"REAL", dec("0.1"), "FLOAT:0.1"},
		{"REAL", dec("0.12345678901234567890"), refusedValue},
		{"REAL", logical.Uint64(1 << 63), "FLOAT:9.223372036854775808e+18"},
		{"TEXT", logical.Text("a\x00b\xff"), "TEXT:a\x00b\xff"},
		{"TEXT", logical.Uint64(math.MaxUint64), "TEXT:18446744073709551615"},
		{"TEXT", dec("12345678901234567890.12345678901234567890"), "TEXT:12345678901234567890.12345678901234567890"},
		{"TEXT", logical.Time(at), "TEXT:2024-02-29 12:34:56.123456789"},
		{"TEXT", logical.InfiniteTime(-1), "TEXT:-infinity"},
		{"TEXT", logical.Time(time.Date(-43, 3, 15, 0, 0, 0, 0, time.UTC)), "TEXT:0044-03-15 00:00:00 BC"},
		{"TEXT", logical.UUID(&id), "TEXT:01000000-0000-0000-0000-0000000000ff"},
		{"TEXT", logical.JSON(`{"a":1}`), `TEXT:{"a":1}`},
		{"TEXT", logical.Float64(math.NaN()), "TEXT:NaN"},
		{"TEXT", logical.Bool(true), "TEXT:true"},
		{"BLOB", logical.Bytes([]byte{0, 255}), "BLOB:\x00\xff"},
		{"BLOB", logical.Bytes(nil), "BLOB:"},
		{"BLOB", logical.Int64(5), "INTEGER:5"},
		{"NUMERIC", dec("1.25"), "FLOAT:1.25"},
		{"NUMERIC", dec("12345678901234567890.5"), refusedValue},
		{"DATETIME", logical.Time(at), "TEXT:2024-02-29 12:34:56.123456789"},
		{"VARCHAR(5)", logical.Text("longer than five"), "TEXT:longer than five"},
	} {
		name := fmt.Sprintf("t%d", n)
		exec(t, target, fmt.Sprintf("CREATE TABLE %s (k INTEGER PRIMARY KEY, v %s)", name, c.declared))
		rel := &logical.Relation{Name: name, Columns: []logical.Column{{Name: "k", Kind: logical.KindInt64, Key: true}, {Name: "v", Kind: c.value.Kind()}}}
		err := tryApply(t.Context(), s, logical.Mutation{Op: logical.OpUpsert, Relation: rel, Values: []logical.Value{logical.Int64(1), c.value}})
		what := fmt.Sprintf("%s value into %s", c.value.Kind(), c.declared)
		if c.want == refusedValue {
			if logical.ClassOf(err) != logical.ClassReject {
				t.Errorf("%s is not refused: %v", what, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		got := rows(t, target, "SELECT v FROM "+name)[0][0]
		if got != c.want && !(strings.HasPrefix(c.want, "FLOAT:9.2") && strings.HasPrefix(got, "FLOAT:9.223372036854775")) {
			t.Errorf("%s: got %q, want %q", what, got, c.want)
		}
	}
}

// NULL is equal to nothing in a unique index, so an upsert of it would insert for ever.
func TestNullInTheKeyIsRefused(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	exec(t, target, "CREATE TABLE t (k TEXT PRIMARY KEY, v INTEGER)")
	rel := &logical.Relation{Name: "t", Columns: []logical.Column{{Name: "k", Kind: logical.KindText, Key: true}, {Name: "v", Kind: logical.KindInt64}}}
	err := tryApply(t.Context(), s, logical.Mutation{Op: logical.OpUpsert, Relation: rel, Values: []logical.Value{logical.Null(), logical.Int64(1)}})
	if logical.ClassOf(err) != logical.ClassReject {
		t.Errorf("got %v", err)
	}
}

func TestConstraintsAndTheirClasses(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	exec(t, target, `CREATE TABLE t (k INTEGER PRIMARY KEY, u INTEGER UNIQUE, n INTEGER NOT NULL DEFAULT 0, c INTEGER CHECK (c < 10));
CREATE TRIGGER no BEFORE INSERT ON t WHEN NEW.c = 5 BEGIN SELECT RAISE(ABORT, 'five is not welcome'); END`)
	rel := &logical.Relation{Name: "t", Columns: []logical.Column{
		{Name: "k", Kind: logical.KindInt64, Key: true},
		{Name: "u", Kind: logical.KindInt64},
		{Name: "n", Kind: logical.KindInt64},
		{Name: "c", Kind: logical.KindInt64},
	}}
	row := func(k, u int64, n, c logical.Value) logical.Mutation {
		return logical.Mutation{Op: logical.OpUpsert, Relation: rel, Values: []logical.Value{logical.Int64(k), logical.Int64(u), n, c}}
	}
	one := logical.Int64(1)
	var many []logical.Mutation
	for k := range int64(50) {
		many = append(many, row(k, k, one, one))
	}
	for what, test := range map[string]struct {
		bad   logical.Mutation
		class logical.Class
	}{
		"unique":   {row(100, 3, one, one), logical.ClassConstraint},
		"not null": {row(100, 100, logical.Null(), one), logical.ClassReject},
		"check":    {row(100, 100, one, logical.Int64(11)), logical.ClassReject},
		"trigger":  {row(100, 100, one, logical.Int64(5)), logical.ClassReject},
	} {
		err := tryApply(t.Context(), s, append(many[:30:30], append([]logical.Mutation{test.bad}, many[30:]...)...)...)
		if logical.ClassOf(err) != test.class || len(logical.RejectedOf(err)) != 1 || logical.RejectedOf(err)[0].Index != 30 {
			t.Errorf("%s: got %v, class %v, rejected %v", what, err, logical.ClassOf(err), logical.RejectedOf(err))
		}
	}
	if class, _, _ := classOf(sqlite3.TOOBIG, 0); class != logical.ClassReject {
		t.Errorf("too big: class %v", class)
	}
}
