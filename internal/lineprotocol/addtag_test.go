package lineprotocol

import (
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

func addedTag(tb testing.TB, key, value string) *AddedTag {
	tb.Helper()
	tag, err := NewAddedTag(key, value)
	if err != nil {
		tb.Fatal(err)
	}
	return tag
}

func TestAddedTagIsPutInItsPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, value, in, out string }{
		{"o", "a", "m v=1 5", "m,o=a v=1 5\n"},
		{"o", "a", "m,a=1,z=2 v=1 5", "m,a=1,o=a,z=2 v=1 5\n"},
		{"o", "a", "m,a=1 v=1 5", "m,a=1,o=a v=1 5\n"},
		{"o", "a", "m,z=1 v=1 5", "m,o=a,z=1 v=1 5\n"},
		// Tags that are not sorted stay in their order.
		{"o", "a", "m,z=1,b=2 v=1 5", "m,o=a,z=1,b=2 v=1 5\n"},
		// A line that has the tag stays as it is, whatever the value.
		{"o", "a", "m,o=b v=1 5", "m,o=b v=1 5\n"},
		{"o", "a", "m,z=1,o=b,a=3 v=1 5", "m,z=1,o=b,a=3 v=1 5\n"},
		// So do escapes, strings, blanks that are left out, and a timestamp that is made.
		{"o p", "a=b,c", `m\ x,a\,=\=1,z=2\  v="o p=\"x" 5`, `m\ x,a\,=\=1,o\ p=a\=b\,c,z=2\  v="o p=\"x" 5` + "\n"},
		{"o", "a", "  m   v=1,v=2 ", "m,o=a v=1,v=2 1700000000123456789\n"},
		{"o", "é", "m,o\\ =x v=\"a\nb\" 5", "m,o=é,o\\ =x v=\"a\nb\" 5\n"},
		{"o p", "a", `m,o\ p=x v=1 5`, `m,o\ p=x v=1 5` + "\n"},
		{"o", "a", `m\\,x=1\\ v=1 5`, "bad"},
	} {
		got, _, err := normalize(t, c.in, Options{AddTag: addedTag(t, c.key, c.value)})
		if c.out == "bad" {
			if plain, _, refused := normalize(t, c.in, Options{}); (err == nil) != (refused == nil) {
				t.Errorf("%q: %q %v, without the tag %q %v", c.in, got, err, plain, refused)
			}
			continue
		}
		if err != nil || got != c.out {
			t.Errorf("%q: got %q, %v, want %q", c.in, got, err, c.out)
		}
	}
}

func TestAddedTagThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"", "a"},
		{"o", ""},
		{"o", `a\`},
		{`o\`, "a"},
		{"time", "a"},
		{"_field", "a"},
		{"o", "a\nb"},
		{"o\x00", "a"},
		{"o", "\xff"},
		{"o", strings.Repeat("x", 40000)},
	} {
		if tag, err := NewAddedTag(c[0], c[1]); err == nil {
			t.Errorf("%q=%q becomes %q", c[0], c[1], tag.text)
		}
	}
}

func TestKeyThatTheAddedTagMakesTooLong(t *testing.T) {
	t.Parallel()
	fits := "m,a=" + strings.Repeat("x", maxKeyLen-len("m,a=")-keySeparatorLen-len("v")) + " v=1 5"
	if _, _, err := normalize(t, fits, Options{}); err != nil {
		t.Fatal(err)
	}
	_, res, err := normalize(t, "m v=1 1\n"+fits+"\nm v=1 2", Options{Mode: Partial, AddTag: addedTag(t, "o", "a")})
	if err != nil || res.Points != 2 || res.Refused == nil || res.Refused.Lines[0].Line != 2 ||
		!strings.Contains(res.Refused.Error(), "the tag that this server adds") {
		t.Errorf("%d points, %v, %v", res.Points, res.Refused, err)
	}
}

// With a tag added, all else is as without it: the same lines are taken (but for the length of keys), each
// is its bytes with one insertion, it decodes to the same values, and the series is that of the tag set.
func FuzzAddTag(f *testing.F) {
	corpus(f, func(s string) { f.Add(s, "tailrace_origin", "plant a") })
	f.Fuzz(func(t *testing.T, body, key, value string) {
		tag, err := NewAddedTag(key, value)
		if err != nil || len(body)+len(tag.text) > 60000 {
			return
		}
		plain, plainRes, _ := normalize(t, body, Options{Mode: Partial})
		got, res, err := normalize(t, body, Options{Mode: Partial, AddTag: tag})
		if err != nil || res.Points != plainRes.Points || (res.Refused == nil) != (plainRes.Refused == nil) {
			t.Fatalf("%d points and %v, without the tag %d and %v", res.Points, res.Refused, plainRes.Points, plainRes.Refused)
		}
		if again, _, err := normalize(t, got, Options{AddTag: tag}); err != nil || again != got {
			t.Fatalf("%q becomes %q, %v", got, again, err)
		}
		was, is := decode(t, plain), decode(t, got)
		for i := range is {
			had := column(was[i], logical.RoleTag, key)
			have := column(is[i], logical.RoleTag, key)
			switch {
			case !had.IsAbsent():
				if string(was[i].Raw) != string(is[i].Raw) {
					t.Fatalf("%q has the tag and became %q", was[i].Raw, is[i].Raw)
				}
				continue
			case have.IsAbsent() || have.Text() != value:
				t.Fatalf("%q became %q, in which the tag is %v", was[i].Raw, is[i].Raw, have)
			case len(is[i].Values) != len(was[i].Values)+1:
				t.Fatalf("%q became %q", was[i].Raw, is[i].Raw)
			}
			at := strings.Index(string(is[i].Raw), string(tag.text))
			for found := false; !found; at++ {
				if at < 0 || at+len(tag.text) > len(is[i].Raw) {
					t.Fatalf("%q became %q", was[i].Raw, is[i].Raw)
				}
				found = string(is[i].Raw[:at])+string(is[i].Raw[at+len(tag.text):]) == string(was[i].Raw)
			}
			tags := []Tag{{key, value}}
			for k, c := range was[i].Relation.Columns {
				if c.Role == logical.RoleTag {
					tags = append(tags, Tag{c.Name, was[i].Values[k].Text()})
				}
			}
			if [16]byte(is[i].Values[1].Bytes()) != SeriesHash(tags) {
				t.Fatalf("%q is of another series than its tags", is[i].Raw)
			}
		}
	})
}

// A KeyReader reads what a Decoder reads, and never past a block.
func FuzzKeyReader(f *testing.F) {
	corpus(f, func(s string) { f.Add(s) })
	f.Fuzz(func(t *testing.T, body string) {
		var k KeyReader
		for rest := []byte(body); len(rest) > 0; { // from a disk, it may be anything
			n, err := k.Read(rest)
			if err != nil {
				break
			}
			rest = rest[n:]
		}
		block, _, _ := normalize(t, body, Options{Mode: Partial})
		at := 0
		for _, m := range decode(t, block) {
			n, err := k.Read([]byte(block[at:]))
			if err != nil || block[at:at+n] != string(m.Raw)+"\n" {
				t.Fatalf("%q: read %d bytes, %v, want %q", block[at:], n, err, m.Raw)
			}
			at += n
			if string(k.Measurement()) != m.Relation.Name {
				t.Fatalf("%q: measurement %q", m.Raw, k.Measurement())
			}
			tags := 0
			for _, c := range m.Relation.Columns {
				if c.Role == logical.RoleTag {
					tags++
				}
			}
			if k.Tags() != tags {
				t.Fatalf("%q: %d tags", m.Raw, k.Tags())
			}
			for i := range k.Tags() {
				key, value := k.Tag(i)
				if v := column(m, logical.RoleTag, string(key)); v.IsAbsent() || v.Text() != string(value) {
					t.Fatalf("%q: tag %q=%q", m.Raw, key, value)
				}
			}
		}
		if at != len(block) {
			t.Fatalf("%d bytes of %q are left", len(block)-at, block)
		}
	})
}
