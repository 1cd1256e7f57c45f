package postgres

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/apd/v3"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

func dec(text string) logical.Value {
	d, _, err := apd.NewFromString(text)
	if err != nil {
		panic(err)
	}
	return logical.Decimal(d)
}

func uuid(text string) logical.Value {
	var id [16]byte
	for i := range id {
		if _, err := fmt.Sscanf(text[2*i:2*i+2], "%02x", &id[i]); err != nil {
			panic(err)
		}
	}
	return logical.UUID(&id)
}

// refused stands for a value that must not be stored.
const refused = "\x00refused"

// Each value goes into a column of each type and is read back as the server's text.
func TestEveryKindInEveryType(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	exec(t, target, "CREATE TYPE mood AS ENUM ('sad', 'ok', 'Happy one'); CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	at := time.Date(2024, 2, 29, 12, 34, 56, 123456789, time.UTC)
	long := strings.Repeat("9", 500) + "." + strings.Repeat("7", 100)
	for n, c := range []struct {
		declared string
		value    logical.Value
		want     string
	}{
		{"boolean", logical.Bool(true), "true"},
		{"boolean", logical.Bool(false), "false"},
		{"boolean", logical.Int64(1), refused},
		{"smallint", logical.Int64(-32768), "-32768"},
		{"smallint", logical.Int64(32768), refused},
		{"integer", logical.Int64(math.MaxInt32), "2147483647"},
		{"integer", logical.Int64(math.MinInt32 - 1), refused},
		{"integer", logical.Float64(7), "7"},
		{"integer", logical.Float64(7.5), refused},
		{"integer", logical.Float64(math.NaN()), refused},
		{"bigint", logical.Int64(math.MinInt64), "-9223372036854775808"},
		{"bigint", logical.Uint64(math.MaxUint64), refused},
		{"bigint", logical.Uint64(math.MaxInt64), "9223372036854775807"},
		{"bigint", dec("12e3"), "12000"},
		{"bigint", dec("1.5"), refused},
		{"real", logical.Float64(1.5), "1.5"},
		{"real", logical.Float64(0.1), refused},
		{"real", logical.Float64(math.Inf(1)), "Infinity"},
		{"real", logical.Float64(math.NaN()), "NaN"},
		{"double precision", logical.Float64(0.1), "0.1"},
		{"double precision", logical.Float64(math.Inf(-1)), "-Infinity"},
		{"double precision", logical.Float64(math.NaN()), "NaN"},
		{"double precision", logical.Float64(math.Copysign(0, -1)), "-0"},
		{"double precision", logical.Int64(1 << 53), "9.007199254740992e+15"},
		{"double precision", logical.Int64(1<<53 + 1), refused},
		{"double precision", dec("0.1"), "0.1"},
		{"double precision", dec("0.10000000000000000001"), refused},
		{"numeric", dec("NaN"), "NaN"},
		{"numeric", dec("Infinity"), "Infinity"},
		{"numeric", dec("-Infinity"), "-Infinity"},
		{"numeric", dec("1.500"), "1.500"},
		{"numeric", dec("-0.00012"), "-0.00012"},
		{"numeric", dec("0.000"), "0.000"},
		{"numeric", dec(long), long},
		{"numeric", dec("-1e30"), "-1" + strings.Repeat("0", 30)},
		{"numeric", dec("1e-20000"), refused},
		{"numeric", logical.Uint64(math.MaxUint64), "18446744073709551615"},
		{"numeric", logical.Int64(math.MinInt64), "-9223372036854775808"},
		{"numeric", logical.Float64(1e-7), "0.0000001"},
		{"numeric", logical.Float64(123.25), "123.25"},
		{"numeric", logical.Text("12.50"), "12.50"},
		{"text", logical.Text(""), ""},
		{"text", logical.Text("tab\t\\N \"q\" 'ünïcödé 🌊'"), "tab\t\\N \"q\" 'ünïcödé 🌊'"},
		{"text", logical.Text("a\x00b"), refused},
		{"text", logical.Text("a\xffb"), refused},
		{"text", logical.Int64(5), "5"},
		{"varchar(3)", logical.Text("äöü"), "äöü"},
		{"varchar(3)", logical.Text("äöüß"), refused},
		{"char(4)", logical.Text("ab"), "ab"},
		{"name", logical.Text("n"), "n"},
		{"bytea", logical.Bytes([]byte{0, 255, 92}), `\x00ff5c`},
		{"bytea", logical.Bytes(nil), `\x`},
		{"timestamptz", logical.Time(at), "2024-02-29 12:34:56.123456+00"},
		{"timestamptz", logical.InfiniteTime(1), "infinity"},
		{"timestamptz", logical.InfiniteTime(-1), "-infinity"},
		{"timestamptz", logical.UnixNano(-1), "1969-12-31 23:59:59.999999+00"},
		{"timestamptz", logical.Time(time.Date(-43, 3, 15, 0, 0, 0, 0, time.UTC)), "0044-03-15 00:00:00+00 BC"},
		{"timestamptz", logical.Time(time.Date(-4713, 11, 24, 0, 0, 0, 0, time.UTC)), "4714-11-24 00:00:00+00 BC"},
		{"timestamptz", logical.Time(time.Date(-4713, 11, 23, 23, 59, 59, 999999999, time.UTC)), refused},
		{"timestamptz", logical.Time(time.Date(294276, 12, 31, 23, 59, 59, 0, time.UTC)), "294276-12-31 23:59:59+00"},
		{"timestamptz", logical.Time(time.Date(294277, 1, 1, 0, 0, 0, 0, time.UTC)), refused},
		{"timestamptz", logical.Time(time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC)), refused},
		{"timestamp", logical.Time(at), "2024-02-29 12:34:56.123456"},
		{"date", logical.Time(day), "2024-02-29"},
		{"date", logical.Time(at), refused},
		{"date", logical.Text("2024-02-29"), "2024-02-29"},
		{"interval", logical.Text("1 year 2 mons -3 days 04:05:06.789"), "1 year 2 mons -3 days +04:05:06.789"},
		{"time", logical.Text("24:00:00"), "24:00:00"},
		{"timetz", logical.Text("12:00:00+02"), "12:00:00+02"},
		{"uuid", uuid("000102030405060708090a0b0c0d0eff"), "00010203-0405-0607-0809-0a0b0c0d0eff"},
		{"uuid", logical.Text("00010203-0405-0607-0809-0A0B0C0D0EFF"), "00010203-0405-0607-0809-0a0b0c0d0eff"},
		{"json", logical.JSON(`{"a":  1.0, "a": 2}`), `{"a":  1.0, "a": 2}`},
		{"jsonb", logical.JSON(`{"b":1,"a":[null]}`), `{"a": [null], "b": 1}`},
		{"jsonb", logical.Text(`"x"`), `"x"`},
		{"jsonb", logical.Bool(true), "true"},
		{"integer[]", logical.Text("{{1,NULL},{3,4}}"), "{{1,NULL},{3,4}}"},
		{"text[]", logical.Text(`{"a,b",NULL,"q\"x"}`), `{"a,b",NULL,"q\"x"}`},
		{"mood", logical.Text("Happy one"), "Happy one"},
		{"mood[]", logical.Text(`{sad,"Happy one"}`), `{sad,"Happy one"}`},
		{"positive", logical.Int64(5), "5"},
		{"positive", logical.Int64(-5), refused},
		{"bit(5)", logical.Text("10101"), "10101"},
		{"bit varying(8)", logical.Text("101"), "101"},
		{"inet", logical.Text("10.0.0.1/8"), "10.0.0.1/8"},
		{"macaddr", logical.Text("08:00:2b:01:02:03"), "08:00:2b:01:02:03"},
		{"point", logical.Text("(1.5,2)"), "(1.5,2)"},
		{"int4range", logical.Text("[1,5)"), "[1,5)"},
		{"xml", logical.Text("<a/>"), "<a/>"},
		{"money", logical.Text("12.34"), "$12.34"},
		{"oid", logical.Int64(4294967295), "4294967295"},
		{`"char"`, logical.Text("x"), "x"},
		{"tsvector", logical.Text("'a':1 'b':2"), "'a':1 'b':2"},
	} {
		name := fmt.Sprintf("t%d", n)
		exec(t, target, fmt.Sprintf("CREATE TABLE %s (k int PRIMARY KEY, v %s)", name, c.declared))
		rel := logicaltest.Table(name, logical.Column{Name: "k", Kind: logical.KindInt64}, logical.Column{Name: "v", Kind: c.value.Kind()})
		mut := logical.Mutation{Op: logical.OpUpsert, Relation: rel, Values: []logical.Value{logical.Int64(1), c.value}}
		patch := logical.Mutation{Op: logical.OpPatch, Relation: rel, Values: mut.Values}
		err := logicaltest.Apply(t.Context(), s, mut, patch)
		what := fmt.Sprintf("%s value into %s", c.value.Kind(), c.declared)
		if c.want == refused {
			if logical.ClassOf(err) != logical.ClassReject {
				t.Errorf("%s is not refused: %v", what, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if got := rows(t, target, "SELECT v::text FROM "+name)[0][0]; strings.TrimRight(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", what, got, c.want)
		}
	}
}

// Random values of the types that have a binary form, by both ways of writing.
func TestRandomValuesReadBackEqual(t *testing.T) {
	t.Parallel()
	for _, copyRows := range []int{1, 1 << 30} {
		t.Run(fmt.Sprintf("copy from %d rows", copyRows), func(t *testing.T) {
			t.Parallel()
			target := open(t, Config{copyRows: copyRows})
			s := take(t, target, "loop", "me")
			exec(t, target, `CREATE TABLE r (k bigint PRIMARY KEY, i bigint, u numeric(20,0), f float8, d numeric, t text, b bytea, ts timestamptz, id uuid)`)
			rel := logicaltest.Table("r", logical.Column{Name: "k", Kind: logical.KindInt64}, logical.Column{Name: "i", Kind: logical.KindInt64},
				logical.Column{Name: "u", Kind: logical.KindUint64}, logical.Column{Name: "f", Kind: logical.KindFloat64},
				logical.Column{Name: "d", Kind: logical.KindDecimal}, logical.Column{Name: "t", Kind: logical.KindText},
				logical.Column{Name: "b", Kind: logical.KindBytes}, logical.Column{Name: "ts", Kind: logical.KindTime},
				logical.Column{Name: "id", Kind: logical.KindUUID})
			r := rand.New(rand.NewPCG(logicaltest.Seed(t), 4))
			n := logicaltest.Count(2000, 100_000)
			muts := make([]logical.Mutation, n)
			for i := range muts {
				muts[i] = logical.Mutation{Op: logical.OpUpsert, Relation: rel, Values: randomValues(r, int64(i))}
			}
			if err := logicaltest.Apply(t.Context(), s, muts...); err != nil {
				t.Fatal(err)
			}
			got := rows(t, target, `SELECT k, i, u, f, d, convert_to(t, 'UTF8'), b, (extract(epoch FROM ts) * 1000000)::bigint, replace(id::text, '-', '') FROM r ORDER BY k`)
			if len(got) != n {
				t.Fatalf("%d rows, want %d", len(got), n)
			}
			for i, m := range muts {
				for c, v := range m.Values {
					if v.Kind() == logical.KindFloat64 {
						f, err := strconv.ParseFloat(got[i][c], 64)
						if err != nil {
							t.Fatal(err)
						}
						got[i][c] = fmt.Sprint(f)
					}
					if want := expected(v); got[i][c] != want {
						t.Fatalf("row %d, column %s: got %q, want %q", i, ident.Quote(rel.Columns[c].Name), got[i][c], want)
					}
				}
			}
		})
	}
}

func randomValues(r *rand.Rand, k int64) []logical.Value {
	var id [16]byte
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	digits := make([]byte, 1+r.IntN(60))
	for i := range digits {
		digits[i] = byte('0' + r.IntN(10))
	}
	d, _, err := apd.NewFromString(fmt.Sprintf("%s%se%d", []string{"", "-"}[r.IntN(2)], digits, r.IntN(80)-40))
	if err != nil {
		panic(err)
	}
	bytes := make([]byte, r.IntN(40))
	text := make([]rune, r.IntN(20))
	for i := range bytes {
		bytes[i] = byte(r.Uint32())
	}
	for i := range text {
		text[i] = []rune{'a', '\t', '\n', '\\', 'é', '€', '🌊', '"', '\'', 1}[r.IntN(10)]
	}
	values := []logical.Value{
		logical.Int64(k), logical.Int64(int64(r.Uint64())), logical.Uint64(r.Uint64() >> r.IntN(64)),
		logical.Float64(math.Float64frombits(r.Uint64()>>1<<1 | uint64(r.IntN(2)))), logical.Decimal(d), logical.Text(string(text)), logical.Bytes(bytes),
		logical.UnixNano(int64(r.Uint64())), logical.UUID(&id),
	}
	if r.IntN(4) == 0 {
		values[1+r.IntN(8)] = logical.Null()
	}
	return values
}

// expected is the text of a value, written without the code under test.
func expected(v logical.Value) string {
	switch v.Kind() {
	case logical.KindNull:
		return "NULL"
	case logical.KindFloat64:
		return fmt.Sprint(v.Float64())
	case logical.KindDecimal:
		d := v.Decimal()
		if d.IsZero() && d.Exponent >= 0 {
			return "0"
		} else if d.IsZero() {
			return "0." + strings.Repeat("0", int(-d.Exponent))
		}
		return d.Text('f')
	case logical.KindText:
		return fmt.Sprintf(`\x%x`, v.Text())
	case logical.KindBytes:
		return fmt.Sprintf(`\x%x`, v.Bytes())
	case logical.KindTime:
		sec, nanos := v.Unix()
		return fmt.Sprint(sec*1_000_000 + int64(nanos/1000))
	case logical.KindUUID:
		return fmt.Sprintf("%x", v.Bytes())
	case logical.KindUint64:
		return fmt.Sprint(v.Uint64())
	}
	return fmt.Sprint(v.Int64())
}
