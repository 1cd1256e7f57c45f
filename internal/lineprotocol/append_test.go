package lineprotocol

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestAppendedPointReadsBack(t *testing.T) {
	t.Parallel()
	seed := uint64(soak(3, 11))
	rnd := rand.New(rand.NewPCG(seed, seed))
	for range soak(5_000, 200_000) {
		p := randomPoint(rnd)
		line, err := AppendPoint(nil, &p)
		if err != nil {
			continue
		}
		got, _, err := normalize(t, string(line), Options{})
		if err != nil || got != string(line) {
			t.Fatalf("seed %d: %q became %q, %v", seed, line, got, err)
		}
		m := decode(t, got)
		if len(m) != 1 || m[0].Relation.Name != p.Measurement || !sameValue(m[0].Values[0], logical.UnixNano(p.Time)) {
			t.Fatalf("seed %d: %q from %+v", seed, line, p)
		}
		for _, tag := range p.Tags {
			if v := column(m[0], logical.RoleTag, tag.Key); v.IsAbsent() || v.Text() != tag.Value {
				t.Fatalf("seed %d: tag %q of %q", seed, tag.Key, line)
			}
		}
		last := map[string]logical.Value{}
		for _, f := range p.Fields {
			last[f.Key] = f.Value
		}
		for key, want := range last {
			if v := column(m[0], logical.RoleField, key); !sameValue(v, want) {
				t.Fatalf("seed %d: field %q of %q", seed, key, line)
			}
		}
		if want := SeriesHash(p.Tags); [16]byte(m[0].Values[1].Bytes()) != want {
			t.Fatalf("seed %d: series of %q", seed, line)
		}
	}
}

// randomPoint makes a point whose names and texts are full of what must be escaped.
func randomPoint(rnd *rand.Rand) Point {
	name := func() string {
		const alphabet = `ab,= \"` + "#\té\x00"
		b := make([]byte, 1+rnd.IntN(5))
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(b)
	}
	p := Point{Measurement: name(), Time: int64(rnd.Uint64())}
	for range rnd.IntN(4) {
		p.Tags = append(p.Tags, Tag{name(), name()})
	}
	for range 1 + rnd.IntN(4) {
		p.Fields = append(p.Fields, Field{name(), randomValue(rnd, name)})
	}
	return p
}

func randomValue(rnd *rand.Rand, name func() string) logical.Value {
	switch rnd.IntN(5) {
	case 0:
		if f := math.Float64frombits(rnd.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			return logical.Float64(f)
		}
		return logical.Float64(float64(rnd.IntN(1e6)) / 100)
	case 1:
		return logical.Int64(int64(rnd.Uint64()))
	case 2:
		return logical.Uint64(rnd.Uint64())
	case 3:
		return logical.Bool(rnd.IntN(2) == 0)
	}
	return logical.Text(name() + "\n" + name())
}

func TestAppendRefusesWhatCannotBeWritten(t *testing.T) {
	t.Parallel()
	one := []Field{{"f", logical.Int64(1)}}
	for name, p := range map[string]Point{
		"no measurement":        {Fields: one},
		"comment":               {Measurement: "#m", Fields: one},
		"blank measurement":     {Measurement: "\tm", Fields: one},
		"backslash at the end":  {Measurement: `m\`, Fields: one},
		"line feed":             {Measurement: "m\nn", Fields: one},
		"no fields":             {Measurement: "m"},
		"empty field key":       {Measurement: "m", Fields: []Field{{"", logical.Int64(1)}}},
		"empty tag":             {Measurement: "m", Tags: []Tag{{"a", ""}}, Fields: one},
		"duplicate tag":         {Measurement: "m", Tags: []Tag{{"a", "1"}, {"a", "2"}}, Fields: one},
		"reserved tag":          {Measurement: "m", Tags: []Tag{{"time", "1"}}, Fields: one},
		"NaN":                   {Measurement: "m", Fields: []Field{{"f", logical.Float64(math.NaN())}}},
		"infinity":              {Measurement: "m", Fields: []Field{{"f", logical.Float64(math.Inf(-1))}}},
		"null":                  {Measurement: "m", Fields: []Field{{"f", logical.Null()}}},
		"time out of range":     {Measurement: "m", Fields: one, Time: math.MaxInt64},
		"backslash before a =":  {Measurement: `m\=n`, Fields: one},
		"ambiguous field key":   {Measurement: "m", Fields: []Field{{`a\,b`, logical.Int64(1)}}},
		"backslash and a quote": {Measurement: "m", Fields: []Field{{`a\"b`, logical.Int64(1)}}},
	} {
		dst := []byte("before")
		if got, err := AppendPoint(dst, &p); err == nil || string(got) != "before" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
