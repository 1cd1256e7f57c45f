package overflow

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

func field(name string) *logical.Column { return &logical.Column{Name: name, Role: logical.RoleField} }

func TestMembersAreToldApart(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for _, role := range []logical.Role{logical.RoleTag, logical.RoleField} {
		for _, name := range []string{"a", "tag:a", "field:a", "tag:tag:a", "field:tag:a", "field:field:a", ""} {
			c := &logical.Column{Name: name, Role: role}
			if other, taken := names[Name(c)]; taken {
				t.Errorf("%q is called like %q: %q", name, other, Name(c))
			}
			names[Name(c)] = name
		}
	}
}

func TestFirstMemberCounts(t *testing.T) {
	t.Parallel()
	var o Object
	for range 2 { // the memory is reused
		o.Reset()
		if !o.Empty() || string(o.JSON()) != "{}" {
			t.Errorf("an empty object is %s", o.JSON())
		}
		o.Add(field("a"), logical.Uint64(math.MaxUint64))
		o.Add(field("a"), logical.Int64(2))
		o.Add(&logical.Column{Name: "a", Role: logical.RoleTag}, logical.Text("x"))
		if got := string(o.JSON()); got != `{"a":18446744073709551615,"tag:a":"x"}` || string(o.JSON()) != got {
			t.Errorf("got %s", got)
		}
	}
}

// FuzzObject: whatever is not refused is JSON that means what was added.
func FuzzObject(f *testing.F) {
	f.Add("name", "text \x01\n\"\\ü🌊", 1e300, int64(-1))
	f.Add("\xff", "\x00", math.Inf(1), int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, name, text string, number float64, whole int64) {
		var o Object
		o.Reset()
		for _, v := range []logical.Value{logical.Text(text), logical.Float64(number), logical.Int64(whole), logical.Bool(whole > 0), logical.Null()} {
			c := field(name)
			if Refuses(c, v) != "" {
				continue
			}
			o.Reset()
			o.Add(c, v)
			var got map[string]any
			dec := json.NewDecoder(bytes.NewReader(o.JSON()))
			dec.UseNumber()
			if err := dec.Decode(&got); err != nil || len(got) != 1 {
				t.Fatalf("%s: %v", o.JSON(), err)
			}
			value, ok := got[Name(c)]
			if !ok {
				t.Fatalf("%s has no member %q", o.JSON(), Name(c))
			}
			switch v.Kind() {
			case logical.KindText:
				if value != text {
					t.Errorf("got %q, want %q", value, text)
				}
			case logical.KindFloat64:
				if n, err := value.(json.Number).Float64(); err != nil || n != number {
					t.Errorf("got %v, want %v", value, number)
				}
			case logical.KindInt64:
				if n, err := value.(json.Number).Int64(); err != nil || n != whole {
					t.Errorf("got %v, want %v", value, whole)
				}
			}
		}
	})
}
