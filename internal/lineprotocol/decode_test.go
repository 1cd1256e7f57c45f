package lineprotocol

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestColumnsOfAPoint(t *testing.T) {
	t.Parallel()
	m := decode(t, "m,z=1,a=2 s=\"x\",f=1.5,i=2i,u=3u,b=t -5\n")[0]
	want := []logical.Column{
		{Name: "time", Kind: logical.KindTime, Key: true, Role: logical.RoleTime},
		{Name: "series", Kind: logical.KindUUID, Key: true, Role: logical.RoleSeries},
		{Name: "a", Kind: logical.KindText, Role: logical.RoleTag},
		{Name: "z", Kind: logical.KindText, Role: logical.RoleTag},
		{Name: "s", Kind: logical.KindText, Role: logical.RoleField},
		{Name: "f", Kind: logical.KindFloat64, Role: logical.RoleField},
		{Name: "i", Kind: logical.KindInt64, Role: logical.RoleField},
		{Name: "u", Kind: logical.KindUint64, Role: logical.RoleField},
		{Name: "b", Kind: logical.KindBool, Role: logical.RoleField},
	}
	if got := m.Relation; fmt.Sprint(got.Columns) != fmt.Sprint(want) || !got.Points || got.Schema != "b" || got.Name != "m" {
		t.Errorf("got %+v", got)
	}
	if m.Op != logical.OpPatch || string(m.Raw) != "m,z=1,a=2 s=\"x\",f=1.5,i=2i,u=3u,b=t -5" || m.Route == 0 {
		t.Errorf("got %v %q, route %d", m.Op, m.Raw, m.Route)
	}
	for i, v := range m.Values {
		if v.Kind() != want[i].Kind {
			t.Errorf("column %s has a %s", want[i].Name, v.Kind())
		}
	}
	if got := m.Values[0].Time(); got.UnixNano() != -5 || m.Values[2].Text() != "2" || m.Values[3].Text() != "1" {
		t.Errorf("got %v", m.Values)
	}
}

func TestLastOfDuplicateFieldsCounts(t *testing.T) {
	t.Parallel()
	m := decode(t, "m a=1i,b=2i,a=\"x\" 5\nm a=\"y\",b=3i 5\n")
	if a := column(m[0], logical.RoleField, "a"); len(m[0].Relation.Columns) != 4 || !sameValue(a, logical.Text("x")) {
		t.Errorf("got %+v", m[0])
	}
	if m[0].Relation != m[1].Relation {
		t.Error("the same columns, but two Relations")
	}
}

func TestOneShapeHasOneRelation(t *testing.T) {
	t.Parallel()
	d := NewDecoder(DecoderConfig{})
	all := func(in string) (rels []*logical.Relation) {
		muts, _, err := d.Decode(nil, []byte(in), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range muts {
			rels = append(rels, m.Relation)
		}
		return rels
	}
	same := all("m,a=1,b=2 x=1,y=2i 5\nm,b=9,a=8 x=3,y=4i 6\nm,a=1,b=2 q=1 5\nm,b=2,a=1 x=1,y=2i 7\n")
	again := all("m,a=7,b=2 x=1,y=2i 5\n")
	if same[0] != same[1] || same[0] != same[3] || same[0] != again[0] || same[0] == same[2] {
		t.Errorf("got %p", append(same, again...))
	}
	other := all("m,a=1 x=1,y=2i 5\nm,a=1,b=2 x=1i,y=2i 5\nn,a=1,b=2 x=1,y=2i 5\nm,a=1,b=2 y=2i,x=1 5\nm,a=1,c=2 x=1,y=2i 5\n")
	seen := map[*logical.Relation]bool{same[0]: true}
	for i, r := range other {
		if seen[r] {
			t.Errorf("shape %d shares a Relation with another", i)
		}
		seen[r] = true
	}
}

func TestSeriesAndRouteDoNotDependOnTheSpelling(t *testing.T) {
	t.Parallel()
	m := decode(t, "m,a=1,b=2 x=1 5\nm,b=2,a=1 y=1 6\nn,a=1,b=2 x=1 5\nm,a=1,b=3 x=1 5\nm x=1 5\nm,a\\x=\\=1 x=1 5\nm,a\\x==1 x=1 5\n")
	id := func(i int) string { return string(m[i].Values[1].Bytes()) }
	if id(0) != id(1) || m[0].Route != m[1].Route {
		t.Error("the order of tags matters")
	}
	if id(0) != id(2) || m[0].Route == m[2].Route {
		t.Error("the measurement belongs to the route, and not to the series")
	}
	if id(0) == id(3) || m[0].Route == m[3].Route || id(4) == id(0) {
		t.Error("different tags, one series")
	}
	if id(5) != id(6) {
		t.Error("an escape that is not needed makes another series")
	}
}

func TestCachesAreBounded(t *testing.T) {
	t.Parallel()
	d := NewDecoder(DecoderConfig{CacheBytes: 64 << 10, RelationBytes: 64 << 10})
	var b []byte
	first := logical.Mutation{}
	for i := range 20_000 {
		b = fmt.Appendf(b[:0:0], "hot,t=h v=1 %d\nm%d,t=%d f%d=1,g=2 %d\n", i, i%3000, i, i%5000, i)
		muts, _, err := d.Decode(nil, b, 0)
		if err != nil || len(muts) != 2 {
			t.Fatal(err)
		}
		if i == 0 {
			first = muts[0]
		} else if muts[0].Relation != first.Relation {
			t.Fatalf("the shape that is in every payload got a new Relation after %d", i)
		}
	}
	if d.known.used > 64<<10 || d.relations.used+d.layouts.used+d.shapes.used > 64<<10 {
		t.Errorf("used: %d for series, %d, %d, %d for shapes", d.known.used, d.relations.used, d.layouts.used, d.shapes.used)
	}
	if n := len(d.known.young) + len(d.known.old); n > 1000 {
		t.Errorf("%d series are remembered", n)
	}
}

func TestDecodeInParts(t *testing.T) {
	t.Parallel()
	payload := join(normalized(t, benchBody(100)))
	whole := decode(t, payload)
	d := NewDecoder(DecoderConfig{Schema: "b"})
	var muts []logical.Mutation
	rest, err := []byte(payload), error(nil)
	for len(rest) > 0 {
		before := len(muts)
		if muts, rest, err = d.Decode(muts, rest, 7); err != nil || len(muts) == before || len(muts) > before+7 {
			t.Fatal(len(muts), err)
		}
	}
	if len(muts) != 100 {
		t.Fatalf("%d mutations", len(muts))
	}
	for i := range muts {
		for k := range muts[i].Values {
			if !sameValue(muts[i].Values[k], whole[i].Values[k]) {
				t.Errorf("point %d, column %d", i, k)
			}
		}
	}
}

func TestRawOnly(t *testing.T) {
	t.Parallel()
	lines := []string{`m,a=1 v=1 5`, "m,a=1 v=\"a\nb\\\"\" 6", `n,a=1 v="x" 7`, `m\ x f\ g=2 8`}
	payload := strings.Join(lines, "\n") + "\n"
	full := decode(t, payload)
	d := NewDecoder(DecoderConfig{Schema: "b", RawOnly: true})
	muts, rest, err := d.Decode(nil, []byte(payload), 0)
	if err != nil || len(rest) > 0 || len(muts) != len(lines) {
		t.Fatal(len(muts), err)
	}
	for i, m := range muts {
		if string(m.Raw) != lines[i] || m.Values != nil || m.Route != full[i].Route ||
			m.Relation.Name != full[i].Relation.Name || m.Relation.Columns != nil || !m.Relation.Points || m.Relation.Schema != "b" {
			t.Errorf("got %+v %+v", m, m.Relation)
		}
	}
	if muts[0].Relation != muts[1].Relation {
		t.Error("one measurement, two Relations")
	}
}

// Mutations are in use until they are applied: what comes later must not change them.
func TestHandedOutMemoryIsNeverReused(t *testing.T) {
	t.Parallel()
	d := NewDecoder(DecoderConfig{CacheBytes: 8 << 10, RelationBytes: 8 << 10})
	var all []logical.Mutation
	for i := range 3000 {
		payload := fmt.Appendf(nil, "m,t=%d s=\"a\\\"%d\",i=%di %d\n", i%700, i, i, i)
		var err error
		if all, _, err = d.Decode(all, payload, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range all {
		got := fmt.Sprint(m.Values[2].Text(), m.Values[3].Text(), m.Values[4].Int64(), m.Values[0].Time().UnixNano())
		if want := fmt.Sprint(fmt.Sprint(i%700), fmt.Sprintf("a\"%d", i), i, i); got != want {
			t.Fatalf("point %d: got %s, want %s", i, got, want)
		}
		if want := SeriesHash([]Tag{{"t", fmt.Sprint(i % 700)}}); [16]byte(m.Values[1].Bytes()) != want {
			t.Fatalf("point %d has another series", i)
		}
	}
}

func TestCorruptPayloadIsAnError(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"\n", " m v=1 5\n", "m v=1 5", "m v=1\n", "m v=1 \n", "m", "m ", "m,a v=1 5\n", "m v=\"x 5\n", "m v=1x 5\n", "#\n", "m v= 5\n", "\x00"} {
		for _, raw := range []bool{false, true} {
			d := NewDecoder(DecoderConfig{RawOnly: raw})
			muts, rest, err := d.Decode(nil, []byte("m v=1 5\n"+in), 0)
			if raw && err == nil && strings.HasPrefix(in, "m v") {
				continue // Raw lines are not looked into.
			}
			if err == nil || len(muts) != 1 || string(rest) != in || !strings.Contains(err.Error(), "corrupt at byte ") {
				t.Errorf("%q, raw %t: %d mutations, rest %q, %v", in, raw, len(muts), rest, err)
			}
		}
	}
}

func TestDecodingAllocatesLittle(t *testing.T) {
	data := bytes.Join([][]byte{[]byte(join(normalized(t, benchBody(5000))))}, nil)
	for _, raw := range []bool{false, true} {
		d := NewDecoder(DecoderConfig{RawOnly: raw})
		var muts []logical.Mutation
		run := func() {
			var err error
			if muts, _, err = d.Decode(muts[:0], data, 0); err != nil || len(muts) != 5000 {
				t.Fatal(len(muts), err)
			}
		}
		run()
		if got := testing.AllocsPerRun(5, run); got > 7500 { // one for the values, and few for the texts
			t.Errorf("raw %t: %.0f allocations for 5000 lines", raw, got)
		}
	}
}
