package lineprotocol

import (
	"math"
	"strings"
	"testing"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A row of the table of edge cases in which the two parsers of InfluxDB agree or differ. Our answer
// is the normalised text, or the refusal of the line with this number.
type row struct {
	name, in string
	want     string // without " 7\n" where a line has no timestamp of its own
	bad      int    // number of the bad line; 0 if the body is accepted
	why      reason
}

var rows = []row{
	{name: "CRLF after a number", in: "m v=1\r\nm v=2 5\r\n", want: "m v=1 7\nm v=2 5\n"},
	{name: "CRLF after an integer and a boolean", in: "m v=1i\r\nm v=t\r\n", want: "m v=1i 7\nm v=t 7\n"},
	{name: "CRLF after a string", in: "m v=\"a\"\r\n", want: "m v=\"a\" 7\n"},
	{name: "CRLF after blanks", in: "m v=1 \r\nm v=1 5 \r\n", want: "m v=1 7\nm v=1 5\n"},
	{name: "blank CRLF line", in: "\r\n  \r\nm v=1 5\r\n\r\n", want: "m v=1 5\n"},
	{name: "CRLF within a string", in: "m v=\"a\r\nb\" 5\n", want: "m v=\"a\r\nb\" 5\n"},
	{name: "CR at the very end", in: "m v=1\r\n\r\nm v=2 5\r", want: "m v=1 7\nm v=2 5\n"},
	{name: "a lone CR", in: "m v=1\rm v=2", bad: 1, why: badNumber},
	{name: "leading spaces", in: "   m v=1 5\n", want: "m v=1 5\n"},
	{name: "comment", in: "# m v=1\n  # m\nm v=1 5", want: "m v=1 5\n"},
	{name: "comment with quotes and backslash", in: "# it's a=\"b\nm v=1 5\n#\\\nm v=2 6", want: "m v=1 5\nm v=2 6\n"},
	{name: "blank lines", in: "\n\n  \nm v=1 5\n\n", want: "m v=1 5\n"},
	{name: "several spaces", in: "m,t=a   v=1,w=2   5\n", want: "m,t=a v=1,w=2 5\n"},
	{name: "trailing spaces", in: "m v=1 5  \nm v=1  \n", want: "m v=1 5\nm v=1 7\n"},
	{name: "TAB instead of the first space", in: "m\tv=1 5", bad: 1, why: badFieldFormat},
	{name: "TAB instead of the second space", in: "m v=1\t5", bad: 1, why: badNumber},
	{name: "TAB beside a space", in: "\tm \tv=1 \t5", want: "m v=1 5\n"},
	{name: "duplicate tag key", in: "m,a=1,a=1 v=1 5", bad: 1, why: badDuplicateTag},
	{name: "duplicate tag key, unsorted", in: "m,b=1,a=1,b=2 v=1 5", bad: 1, why: badDuplicateTag},
	{name: "unsorted tags keep their order", in: "m,b=1,a=2 v=1 5", want: "m,b=1,a=2 v=1 5\n"},
	{name: "duplicate field key", in: "m v=1,v=2 5", want: "m v=1,v=2 5\n"},
	{name: "duplicate field key of another type", in: "m v=1,v=\"a\" 5", want: "m v=1,v=\"a\" 5\n"},
	{name: "empty tag value", in: "m,a= v=1", bad: 1, why: badTagValue},
	{name: "empty tag value before a comma", in: "m,a=,b=1 v=1", bad: 1, why: badTagValue},
	{name: "empty tag key", in: "m,=a v=1", bad: 1, why: badTagKey},
	{name: "space instead of a tag", in: "m, v=1", bad: 1, why: badTagKey},
	{name: "trailing comma", in: "m v=1, 5", bad: 1, why: badFieldKey},
	{name: "trailing comma at the end", in: "m v=1,", bad: 1, why: badNoFields},
	{name: "missing value", in: "m v= 5", bad: 1, why: badFieldValue},
	{name: "missing value before a comma", in: "m v=,w=1 5", bad: 1, why: badFieldValue},
	{name: "missing value at the end", in: "m v=", bad: 1, why: badFieldValue},
	{name: "missing field key", in: "m =1", bad: 1, why: badFieldKey},
	{name: "half a field", in: "m v", bad: 1, why: badFieldFormat},
	{name: "no fields", in: "m,a=b\n", bad: 1, why: badNoFields},
	{name: "no fields but a blank", in: "m \n", bad: 1, why: badNoFields},
	{name: "leading comma", in: ",a=b v=1", bad: 1, why: badMeasurement},
	{name: "equals sign in a tag value", in: "m,a=b=c v=1", bad: 1, why: badTagFormat},
	{name: "NaN", in: "m v=NaN", bad: 1, why: badBoolean},
	{name: "nan", in: "m v=nan", bad: 1, why: badBoolean},
	{name: "Inf", in: "m v=Inf", bad: 1, why: badBoolean},
	{name: "-Inf", in: "m v=-Inf", bad: 1, why: badNumber},
	{name: "+1", in: "m v=+1", bad: 1, why: badBoolean},
	{name: "1f", in: "m v=1f", bad: 1, why: badNumber},
	{name: "hex", in: "m v=0x10", bad: 1, why: badNumber},
	{name: "1e3i", in: "m v=1e3i", bad: 1, why: badNumber},
	{name: "1.5i", in: "m v=1.5i", bad: 1, why: badNumber},
	{name: "1e", in: "m v=1e", bad: 1, why: badNumber},
	{name: "a minus sign", in: "m v=-", bad: 1, why: badNumber},
	{name: "a point", in: "m v=.", bad: 1, why: badNumber},
	{name: "i", in: "m v=i", bad: 1, why: badBoolean},
	{name: "1_0", in: "m v=1_0", bad: 1, why: badNumber},
	{name: "1e400", in: "m v=1e400", bad: 1, why: badFloat},
	{name: "a float of 400 digits", in: "m v=" + strings.Repeat("9", 400), bad: 1, why: badFloat},
	{name: "200 digits and e200", in: "m v=" + strings.Repeat("9", 250) + "e99", bad: 1, why: badFloat},
	{name: "odd floats", in: "m a=1.,b=.5,c=-.5,d=1e308,e=1e-400,f=1E+5,g=1.e5 5", want: "m a=1.,b=.5,c=-.5,d=1e308,e=1e-400,f=1E+5,g=1.e5 5\n"},
	{name: "007i", in: "m v=007i,w=-0i,x=0u 5", want: "m v=007i,w=-0i,x=0u 5\n"},
	{name: "int64 and uint64 limits", in: "m a=9223372036854775807i,b=-9223372036854775808i,c=18446744073709551615u 5", want: "m a=9223372036854775807i,b=-9223372036854775808i,c=18446744073709551615u 5\n"},
	{name: "int64 overflow", in: "m v=9223372036854775808i", bad: 1, why: badInteger},
	{name: "int64 underflow", in: "m v=-9223372036854775809i", bad: 1, why: badInteger},
	{name: "uint64 overflow", in: "m v=18446744073709551616u", bad: 1, why: badUnsigned},
	{name: "-1u", in: "m v=-1u", bad: 1, why: badNumber},
	{name: "booleans", in: "m a=t,b=T,c=true,d=True,e=TRUE,f=f,g=F,h=false,i=False,j=FALSE 5", want: "m a=t,b=T,c=true,d=True,e=TRUE,f=f,g=F,h=false,i=False,j=FALSE 5\n"},
	{name: "tRUE", in: "m v=tRUE", bad: 1, why: badBoolean},
	{name: "raw newline in a string", in: "m v=\"a\nb\" 5\nm v=2 6", want: "m v=\"a\nb\" 5\nm v=2 6\n"},
	{name: "escapes in a string stay", in: `m v="\n\t\r\d\"\\" 5`, want: `m v="\n\t\r\d\"\\" 5` + "\n"},
	{name: "something after a string", in: `m v="a"x 5`, bad: 1, why: badAfterValue},
	{name: "unterminated quote", in: "m v=\"a\nm v=2\n", bad: 1, why: badQuotes},
	{name: "unterminated quote by escape", in: `m v="a\"`, bad: 1, why: badQuotes},
	{name: "equals sign in a measurement", in: `a=b,t=1 v=1 5`, want: "a=b,t=1 v=1 5\n"},
	{name: "escaped equals sign in a measurement", in: `a\=b v=1 5`, want: `a\=b v=1 5` + "\n"},
	{name: "two backslashes before a space", in: `m,t=a\\ b v=1 5`, want: `m,t=a\\ b v=1 5` + "\n"},
	{name: "two backslashes before a space in a measurement", in: `a\\ b v=1 5`, want: `a\\ b v=1 5` + "\n"},
	{name: "two backslashes in a field key", in: `m a\\ b=1 5`, bad: 1, why: badFieldKeyEscape},
	{name: "quotes in names are literal", in: `"m",t="a b="c" 5`, want: `"m",t="a b="c" 5` + "\n"},
	{name: "quotes in names", in: `"m",t="a" "f"=1 5`, want: `"m",t="a" "f"=1 5` + "\n"},
	{name: "time max", in: "m v=1 9223372036854775807", bad: 1, why: badTimeRange},
	{name: "time min", in: "m v=1 -9223372036854775808", bad: 1, why: badTimeRange},
	{name: "time min and one", in: "m v=1 -9223372036854775807", bad: 1, why: badTimeRange},
	{name: "the range of time", in: "m v=1 9223372036854775806\nm v=1 -9223372036854775806", want: "m v=1 9223372036854775806\nm v=1 -9223372036854775806\n"},
	{name: "time of 30 digits", in: "m v=1 999999999999999999999999999999", bad: 1, why: badTimeRange},
	{name: "zeros before the time", in: "m v=1 0005\nm v=1 -0\nm v=1 -005", want: "m v=1 5\nm v=1 0\nm v=1 -5\n"},
	{name: "time is a float", in: "m v=1 1.5", bad: 1, why: badTimestamp},
	{name: "time with exponent", in: "m v=1 1e9", bad: 1, why: badTimestamp},
	{name: "time is a minus sign", in: "m v=1 -", bad: 1, why: badTimestamp},
	{name: "something after the time", in: "m v=1 5 6", bad: 1, why: badAfterTime},
	{name: "invalid UTF-8", in: "m\xff,t=\xfe v=\"\xfd\" 5", want: "m\xff,t=\xfe v=\"\xfd\" 5\n"},
	{name: "control characters in names", in: "m\x01,t=\x02 a\x03=1 5", want: "m\x01,t=\x02 a\x03=1 5\n"},
	{name: "NUL in a string", in: "m v=\"\x00\" 5", want: "m v=\"\x00\" 5\n"},
	{name: "tag key time", in: "m,time=a v=1", bad: 1, why: badReservedTag},
	{name: "tag key _field", in: "m,_field=a v=1", bad: 1, why: badReservedTag},
	{name: "tag key _measurement", in: "m,a=b,_measurement=a v=1", bad: 1, why: badReservedTag},
	{name: "field named time", in: "m time=1 5", want: "m time=1 5\n"},
	{name: "key of 65535 bytes", in: "m,t=" + strings.Repeat("x", 65535-4-4-1) + " v=1 5", want: "m,t=" + strings.Repeat("x", 65535-4-4-1) + " v=1 5\n"},
	{name: "key of 65536 bytes", in: "m,t=" + strings.Repeat("x", 65536-4-4-1) + " v=1 5", bad: 1, why: badKeyLength},
	{name: "string of 200 kB", in: "m v=\"" + strings.Repeat("x", 200_000) + "\" 5", want: "m v=\"" + strings.Repeat("x", 200_000) + "\" 5\n"},
	{name: "a bad line amid good ones", in: "m v=1 1\n\nm v=\"a\nb\" 2\nm v=x 3\nm v=1 4", bad: 5, why: badBoolean},
}

func TestTableOfEdgeCases(t *testing.T) {
	t.Parallel()
	for _, c := range rows {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, _, err := normalize(t, c.in, Options{Now: unix(7)})
			if c.bad == 0 {
				if err != nil || got != c.want {
					t.Errorf("got %.300q, %v\nwant %.300q", got, err, c.want)
				}
				return
			}
			bad := new(ParseError)
			if !errors.As(err, &bad) || len(bad.Lines) == 0 || bad.Lines[0].Line != c.bad || bad.Lines[0].Reason != c.why.String() {
				t.Errorf("got %.300q, %v\nwant line %d: %s", got, err, c.bad, c.why)
			}
		})
	}
}

// The same rows, read from a buffer that ends after every byte.
func TestTableHoldsWhereverReadsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range rows {
		if len(c.in) > 1000 {
			continue
		}
		for _, size := range []int{1, 2, 3, 5, 8, 13} {
			n := Normalizer{small: true, in: make([]byte, 0, size)}
			res, err := n.Normalize(slowReader{strings.NewReader(c.in)}, Options{Now: unix(7)})
			got := join(res.Blocks)
			if c.bad == 0 && (err != nil || got != c.want) {
				t.Errorf("%s, buffer of %d: got %q, %v", c.name, size, got, err)
			}
			if bad := new(ParseError); c.bad != 0 && (!errors.As(err, &bad) || bad.Lines[0].Line != c.bad || bad.Lines[0].Reason != c.why.String()) {
				t.Errorf("%s, buffer of %d: got %v, want line %d: %s", c.name, size, err, c.bad, c.why)
			}
		}
	}
}

func TestValuesAreWhatInfluxDBStores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		want logical.Value
	}{
		{`1.`, logical.Float64(1)},
		{`.5`, logical.Float64(.5)},
		{`-.5`, logical.Float64(-.5)},
		{`1e308`, logical.Float64(1e308)},
		{`1e-400`, logical.Float64(0)},
		{`-0`, logical.Float64(math.Copysign(0, -1))},
		{`0.1`, logical.Float64(.1)},
		{`123456789012345.6789`, logical.Float64(123456789012345.6789)},
		{`0.30000000000000004`, logical.Float64(0.30000000000000004)},
		{`999999999999999`, logical.Float64(999999999999999)},
		{`007i`, logical.Int64(7)},
		{`-9223372036854775808i`, logical.Int64(math.MinInt64)},
		{`00000000000000000000000000005i`, logical.Int64(5)},
		{`9223372036854775807i`, logical.Int64(math.MaxInt64)},
		{`18446744073709551615u`, logical.Uint64(math.MaxUint64)},
		{`T`, logical.Bool(true)},
		{`False`, logical.Bool(false)},
		{`""`, logical.Text("")},
		{`"a, b=c\"d\\e"`, logical.Text(`a, b=c"d\e`)},
		{`"\n\t\r\d\,"`, logical.Text(`\n\t\r\d\,`)},
		{"\"a\nb\"", logical.Text("a\nb")},
		{`"\\\""`, logical.Text(`\"`)},
		{`"\\\\"`, logical.Text(`\\`)},
	} {
		m := decode(t, "m v="+c.in+" 5\n")
		if got := column(m[0], logical.RoleField, "v"); len(m) != 1 || !sameValue(got, c.want) {
			t.Errorf("%s: got %v %v", c.in, got.Kind(), got)
		}
	}
}

func TestNamesAreUnescapedByTheirRules(t *testing.T) {
	t.Parallel()
	m := decode(t, `a\,b\ c\=d\e"f\",t\,a\ g\=\x=v\,a\ l\=\"\\ u\ e f\,i\ e\=l\d\"=1 5`+"\n")[0]
	if want := `a,b c=d\e"f\"`; m.Relation.Name != want {
		t.Errorf("measurement %q, want %q", m.Relation.Name, want)
	}
	if c := m.Relation.Columns[2]; c.Role != logical.RoleTag || c.Name != `t,a g=\x` {
		t.Errorf("tag key %q", c.Name)
	}
	if got, want := m.Values[2].Text(), `v,a l=\"\ u e`; got != want {
		t.Errorf("tag value %q, want %q", got, want)
	}
	if c := m.Relation.Columns[3]; c.Role != logical.RoleField || c.Name != `f,i e=l\d"` {
		t.Errorf("field key %q", c.Name)
	}
}
