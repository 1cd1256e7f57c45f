package logical

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/cockroachdb/apd/v3"
)

func TestValueIsSmallAndReadsBack(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(Value{}); size > 24 {
		t.Errorf("a Value takes %d bytes, want at most 24", size)
	}
	uuid := [16]byte{1, 15: 9}
	dec := apd.New(125, -2)
	for _, c := range []struct {
		got  Value
		kind Kind
		ok   func(Value) bool
	}{
		{Value{}, KindAbsent, Value.IsAbsent},
		{Null(), KindNull, Value.IsNull},
		{Bool(true), KindBool, Value.Bool},
		{Int64(math.MinInt64), KindInt64, func(v Value) bool { return v.Int64() == math.MinInt64 }},
		{Uint64(math.MaxUint64), KindUint64, func(v Value) bool { return v.Uint64() == math.MaxUint64 }},
		{Float64(math.Inf(-1)), KindFloat64, func(v Value) bool { return math.IsInf(v.Float64(), -1) }},
		{Decimal(dec), KindDecimal, func(v Value) bool { return v.Decimal().Cmp(dec) == 0 }},
		{Text(""), KindText, func(v Value) bool { return v.Text() == "" }},
		{Text("täg"), KindText, func(v Value) bool { return v.Text() == "täg" }},
		{Bytes([]byte{0, 1}), KindBytes, func(v Value) bool { return string(v.Bytes()) == "\x00\x01" }},
		{UUID(&uuid), KindUUID, func(v Value) bool { return [16]byte(v.Bytes()) == uuid }},
		{JSON("{}"), KindJSON, func(v Value) bool { return v.Text() == "{}" }},
		{InfiniteTime(-1), KindTime, func(v Value) bool { return v.Infinite() == -1 }},
	} {
		if c.got.Kind() != c.kind || !c.ok(c.got) {
			t.Errorf("%v: reads back as something else", c.kind)
		}
	}
}

func TestUnixNanoIsFlooredBefore1970(t *testing.T) {
	t.Parallel()
	for _, ns := range []int64{0, 1, -1, 999, -999, -1e9, -1e9 - 1, math.MaxInt64, math.MinInt64} {
		sec, nanos := UnixNano(ns).Unix()
		if nanos < 0 || nanos > 999_999_999 || sec*1e9+int64(nanos) != ns {
			t.Errorf("%d ns: got %d s + %d ns", ns, sec, nanos)
		}
		if got := UnixNano(ns).Time(); !got.Equal(time.Unix(0, ns)) {
			t.Errorf("%d ns: got %s", ns, got)
		}
	}
}

func TestKeyEncodingTellsKeysApart(t *testing.T) {
	t.Parallel()
	rel := func(schema, name string, n int) *Relation {
		r := &Relation{Schema: schema, Name: name}
		for range n {
			r.Columns = append(r.Columns, Column{Key: true})
		}
		return r
	}
	one, two := rel("s", "t", 1), rel("s", "t", 2)
	muts := []Mutation{
		{Relation: one, Values: []Value{Text("a")}},
		{Relation: one, Values: []Value{Bytes([]byte("a"))}},
		{Relation: one, Values: []Value{Null()}},
		{Relation: one, Values: []Value{Int64(1)}},
		{Relation: two, Values: []Value{Text("a"), Text("bc")}},
		{Relation: two, Values: []Value{Text("ab"), Text("c")}},
		{Relation: rel("st", "", 1), Values: []Value{Text("a")}},
		{Relation: rel("", "st", 1), Values: []Value{Text("a")}},
	}
	seen := map[string]int{}
	for i := range muts {
		key := string(muts[i].AppendKey(nil))
		if j, dup := seen[key]; dup {
			t.Errorf("mutations %d and %d have one key", j, i)
		}
		seen[key] = i
	}
	a := Mutation{Relation: one, Values: []Value{Decimal(apd.New(10, -1))}}
	b := Mutation{Relation: one, Values: []Value{Decimal(apd.New(100, -2))}}
	if string(a.AppendKey(nil)) != string(b.AppendKey(nil)) {
		t.Error("1.0 and 1.00 are two keys")
	}
	a.Values, b.Values = []Value{Float64(0)}, []Value{Float64(math.Copysign(0, -1))}
	if string(a.AppendKey(nil)) != string(b.AppendKey(nil)) {
		t.Error("0 and -0 are two keys")
	}
}
