package postgres

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/apd/v3"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A kindOfValue is a type of columns, with random values of it: as Tailrace is given them, and as a person
// writes them in SQL.
type kindOfValue struct {
	declared string
	key      bool // it may be part of a key
	random   func(r *rand.Rand) (logical.Value, string)
}

// Types that the tests make.
const randomTypes = `CREATE TYPE "Mo od" AS ENUM ('sad', 'so-so', 'Very "happy"', ''''); CREATE DOMAIN "posi tive" AS numeric CHECK (VALUE > 0);
CREATE TYPE pair AS (x int, "Y y" text)`

func quoteLiteral(s string) string { return `'` + strings.ReplaceAll(s, `'`, `''`) + `'` }

// asText makes values that arrive as the source's text.
func asText(texts ...string) func(r *rand.Rand) (logical.Value, string) {
	return func(r *rand.Rand) (logical.Value, string) {
		text := texts[r.IntN(len(texts))]
		return logical.Text(text), quoteLiteral(text)
	}
}

// arrays makes arrays of up to three dimensions, with NULLs and other lower bounds.
func arrays(element func(r *rand.Rand) string) func(r *rand.Rand) (logical.Value, string) {
	return func(r *rand.Rand) (logical.Value, string) {
		dimensions := make([]int, r.IntN(4))
		bounds := ""
		for i := range dimensions {
			dimensions[i] = 1 + r.IntN(3)
			from := r.IntN(5) - 2
			bounds += fmt.Sprintf("[%d:%d]", from, from+dimensions[i]-1)
		}
		var build func(level int) string
		build = func(level int) string {
			if level == len(dimensions) {
				if r.IntN(5) == 0 {
					return "NULL"
				}
				return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(element(r)) + `"`
			}
			parts := make([]string, dimensions[level])
			for i := range parts {
				parts[i] = build(level + 1)
			}
			return "{" + strings.Join(parts, ",") + "}"
		}
		text := "{}"
		if len(dimensions) > 0 {
			if text = build(0); r.IntN(2) == 0 {
				text = bounds + "=" + text
			}
		}
		return logical.Text(text), quoteLiteral(text)
	}
}

func randomText(r *rand.Rand) string {
	text := make([]rune, r.IntN(12))
	for i := range text {
		text[i] = []rune{'a', 'B', '\t', '\n', '\\', 'é', '€', '🌊', '"', '\'', ',', '{', '}', ' ', 1}[r.IntN(15)]
	}
	return string(text)
}

func randomInt(bits int) func(r *rand.Rand) (logical.Value, string) {
	return func(r *rand.Rand) (logical.Value, string) {
		n := int64(r.Uint64()) >> (64 - bits) >> r.IntN(bits)
		switch r.IntN(8) {
		case 0:
			n = math.MinInt64 >> (64 - bits)
		case 1:
			n = math.MaxInt64 >> (64 - bits)
		}
		return logical.Int64(n), quoteLiteral(strconv.FormatInt(n, 10))
	}
}

func randomFloat(r *rand.Rand) (logical.Value, string) {
	f := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, math.Float64frombits(r.Uint64())}[r.IntN(8)]
	return logical.Float64(f), quoteLiteral(strconv.FormatFloat(f, 'g', -1, 64))
}

func randomNumeric(r *rand.Rand) (logical.Value, string) {
	text := []string{"NaN", "Infinity", "-Infinity", "0", "0.000", "-0.1"}[r.IntN(6)]
	if r.IntN(2) == 0 {
		var digits strings.Builder
		for range 1 + r.IntN(120) {
			digits.WriteByte(byte('0' + r.IntN(10)))
		}
		text = fmt.Sprintf("%s%se%d", []string{"", "-"}[r.IntN(2)], digits.String(), r.IntN(200)-100)
	}
	d, _, err := apd.NewFromString(text)
	if err != nil {
		panic(err)
	}
	return logical.Decimal(d), quoteLiteral(text)
}

// randomTime covers what the server's calendar does, by whole microseconds and by nanoseconds.
func randomTime(r *rand.Rand) (logical.Value, string) {
	switch r.IntN(8) {
	case 0:
		return logical.InfiniteTime(1), "'infinity'"
	case 1:
		return logical.InfiniteTime(-1), "'-infinity'"
	}
	const first, last = -210_866_803_200, 9_224_318_016_000 // the server's own limits
	span := []int64{last - first, 1 << 32}[r.IntN(2)]
	t := time.Unix(first+r.Int64N(span), int64(r.IntN(1e9))).UTC()
	year, era := t.Year(), ""
	if year <= 0 {
		year, era = 1-year, " BC"
	}
	text := fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d.%06d+00%s", year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond()/1000, era)
	return logical.Time(t), quoteLiteral(text)
}

func randomInterval(r *rand.Rand) (logical.Value, string) {
	text := fmt.Sprintf("%d mons %d days %d.%06d secs", r.IntN(2001)-1000, r.IntN(2001)-1000, r.IntN(200000)-100000, r.IntN(1e6))
	return logical.Text(text), quoteLiteral(text)
}

// kindsOfValues lists the types of docs/types.md.
func kindsOfValues() []kindOfValue {
	decimal := func(r *rand.Rand) string { _, text := randomNumeric(r); return strings.Trim(text, "'") }
	number := func(r *rand.Rand) string { return strconv.Itoa(r.IntN(1000) - 500) }
	bits := func(n int) string {
		return fmt.Sprintf("%b", n)
	}
	return []kindOfValue{
		{"bigint", true, randomInt(64)},
		{"integer", true, randomInt(32)},
		{"smallint", true, randomInt(16)},
		{"text", true, func(r *rand.Rand) (logical.Value, string) {
			s := randomText(r)
			return logical.Text(s), quoteLiteral(s)
		}},
		{"uuid", true, func(r *rand.Rand) (logical.Value, string) {
			var id [16]byte
			for i := range id {
				id[i] = byte(r.Uint32())
			}
			return logical.UUID(&id), quoteLiteral(fmt.Sprintf("%x", id))
		}},
		{"timestamptz", true, randomTime},
		{"numeric", true, randomNumeric},
		{"boolean", true, func(r *rand.Rand) (logical.Value, string) {
			b := r.IntN(2) == 0
			return logical.Bool(b), strconv.FormatBool(b)
		}},
		{`"Mo od"`, true, asText("sad", "so-so", `Very "happy"`, "'")},
		{"date", true, asText("2024-02-29", "0044-03-15 BC", "infinity", "-infinity", "5874897-12-31")},
		{"inet", true, asText("10.0.0.1/8", "::1", "fe80::/10")},
		{"bit(5)", true, func(r *rand.Rand) (logical.Value, string) {
			text := fmt.Sprintf("%05b", r.IntN(32))
			return logical.Text(text), quoteLiteral(text)
		}},
		{"bytea", true, func(r *rand.Rand) (logical.Value, string) {
			b := make([]byte, r.IntN(20))
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			return logical.Bytes(b), quoteLiteral(fmt.Sprintf(`\x%x`, b))
		}},
		{"double precision", false, randomFloat},
		{"real", false, func(r *rand.Rand) (logical.Value, string) {
			f := math.Float32frombits(r.Uint32())
			return logical.Float64(float64(f)), quoteLiteral(strconv.FormatFloat(float64(f), 'g', -1, 32))
		}},
		{"numeric(20,0)", false, func(r *rand.Rand) (logical.Value, string) {
			n := r.Uint64() >> r.IntN(64)
			return logical.Uint64(n), quoteLiteral(strconv.FormatUint(n, 10))
		}},
		{"numeric(12,3)", false, func(r *rand.Rand) (logical.Value, string) { // the column rounds
			text := fmt.Sprintf("%d.%d", r.IntN(2000)-1000, r.IntN(1e6))
			d, _, err := apd.NewFromString(text)
			if err != nil {
				panic(err)
			}
			return logical.Decimal(d), quoteLiteral(text)
		}},
		{"timestamp", false, func(r *rand.Rand) (logical.Value, string) {
			v, text := randomTime(r)
			return v, strings.Replace(text, "+00", "", 1)
		}},
		{"interval", false, randomInterval},
		{"time", false, asText("00:00:00", "24:00:00", "12:34:56.789012")},
		{"timetz", false, asText("12:00:00+02", "00:00:00.000001-15:59")},
		{"json", false, func(*rand.Rand) (logical.Value, string) {
			text := `{"a":  1.0, "a": [null, "\u00e9'"]}`
			return logical.JSON(text), quoteLiteral(text)
		}},
		{"jsonb", false, func(r *rand.Rand) (logical.Value, string) {
			text := fmt.Sprintf(`{"n": %d, "deep": {"x": [true, null, "%d"]}}`, r.Int64(), r.IntN(10))
			return logical.JSON(text), quoteLiteral(text)
		}},
		{"integer[]", false, arrays(number)},
		{"text[]", false, arrays(randomText)},
		{"numeric[]", false, arrays(decimal)},
		{`"Mo od"[]`, false, arrays(func(r *rand.Rand) string { return []string{"sad", "so-so", `Very "happy"`}[r.IntN(3)] })},
		{"interval[]", false, arrays(func(r *rand.Rand) string { _, text := randomInterval(r); return strings.Trim(text, "'") })},
		{`"posi tive"`, false, func(r *rand.Rand) (logical.Value, string) {
			n := 1 + r.Int64N(1000)
			return logical.Int64(n), strconv.FormatInt(n, 10)
		}},
		{"bit varying(12)", false, func(r *rand.Rand) (logical.Value, string) {
			text := bits(r.IntN(1 << 12))
			return logical.Text(text), quoteLiteral(text)
		}},
		{"varchar(8)", false, func(r *rand.Rand) (logical.Value, string) {
			text := []rune(randomText(r))
			s := string(text[:min(8, len(text))])
			return logical.Text(s), quoteLiteral(s)
		}},
		{"char(6)", false, asText("", "ab", "äöüßab")},
		{"int4range", false, asText("[1,5)", "(,7]", "empty", "(,)")},
		{"tstzrange", false, asText(`["2024-01-01 00:00:00+00","infinity")`, "empty")},
		{"int4multirange", false, asText("{}", "{[1,2),[5,9)}")},
		{"cidr", false, asText("10.0.0.0/8")},
		{"macaddr", false, asText("08:00:2b:01:02:03")},
		{"point", false, asText("(1.5,-2)")},
		{"box", false, asText("(1,2),(0,0)")},
		{"tsvector", false, asText("'a':1 'b c':2", "")},
		{"xml", false, asText("<a/>", "<b>ü</b>")},
		{"pair", false, asText(`(1,"x y")`, "(,)")},
		{"pg_lsn", true, asText("0/0", "16/B374D848")},
		{"money", false, asText("12.34", "-0.01")},
	}
}
