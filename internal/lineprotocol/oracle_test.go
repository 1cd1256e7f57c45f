package lineprotocol

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	lp2 "github.com/influxdata/line-protocol/v2/lineprotocol"

	"github.com/tailrace-cdc/tailrace/logical"
)

// An oraclePoint is a point as line-protocol/v2 reads it.
type oraclePoint struct {
	measurement string
	tags        []Tag
	fields      []Field
	time        int64
}

// oracle reads the first line with line-protocol/v2.
func oracle(line []byte) (p oraclePoint, err error) {
	d := lp2.NewDecoderWithBytes(line)
	d.Next()
	m, err := d.Measurement()
	if err != nil {
		return p, err
	}
	p.measurement = string(m)
	for {
		k, v, err := d.NextTag()
		if err != nil {
			return p, err
		}
		if k == nil {
			break
		}
		p.tags = append(p.tags, Tag{string(k), string(v)})
	}
	for {
		k, v, err := d.NextField()
		if err != nil {
			return p, err
		}
		if k == nil {
			break
		}
		p.fields = append(p.fields, Field{string(k), oracleValue(v)})
	}
	ts, err := d.Time(lp2.Nanosecond, unix(7))
	p.time = ts.UnixNano()
	return p, err
}

func oracleValue(v lp2.Value) logical.Value {
	switch v.Kind() {
	case lp2.Float:
		return logical.Float64(v.FloatV())
	case lp2.Int:
		return logical.Int64(v.IntV())
	case lp2.Uint:
		return logical.Uint64(v.UintV())
	case lp2.Bool:
		return logical.Bool(v.BoolV())
	}
	return logical.Text(v.StringV())
}

// agree compares our reading of a normalised line with the oracle's.
func (p oraclePoint) agree(tb testing.TB, line string, m logical.Mutation) {
	tb.Helper()
	if name := strings.ReplaceAll(p.measurement, `\=`, `=`); m.Relation.Name != name {
		tb.Errorf("%q: measurement %q, the oracle has %q", line, m.Relation.Name, name)
	}
	if !sameValue(m.Values[0], logical.UnixNano(p.time)) {
		tb.Errorf("%q: time %v, the oracle has %d", line, m.Values[0].Time(), p.time)
	}
	if [16]byte(m.Values[1].Bytes()) != SeriesHash(p.tags) {
		tb.Errorf("%q: another series than the oracle's tags %q have", line, p.tags)
	}
	last := map[string]logical.Value{}
	for _, f := range p.fields {
		last[strings.ReplaceAll(f.Key, `\"`, `"`)] = f.Value
	}
	if len(m.Relation.Columns) != 2+len(p.tags)+len(last) {
		tb.Errorf("%q: %d columns, the oracle has %d tags and %d fields", line, len(m.Relation.Columns), len(p.tags), len(last))
	}
	for _, tag := range p.tags {
		if v := column(m, logical.RoleTag, tag.Key); v.IsAbsent() || v.Text() != tag.Value {
			tb.Errorf("%q: tag %q is not the oracle's %q", line, tag.Key, tag.Value)
		}
	}
	for key, want := range last {
		got := column(m, logical.RoleField, key)
		if got.Kind() == logical.KindText && want.Kind() == logical.KindText && strings.ContainsAny(want.Text(), "\n\r\t") {
			continue // The oracle turns \n, \r and \t into what they stand for in other languages.
		}
		if !sameValue(got, want) {
			tb.Errorf("%q: field %q is %v, the oracle has %v", line, key, got, want)
		}
	}
}

// oracleRefuses reports whether the line holds something of which the table says that only InfluxDB
// takes it: control characters in names, bytes that are not UTF-8, a tag value that begins with an
// equals sign.
func oracleRefuses(line []byte, s *scanner) bool {
	if !utf8.Valid(line) {
		return true
	}
	names := append([]span{{s.start, s.keyEnd}}, s.fields)
	for _, n := range names {
		for _, c := range line[n.start:n.end] {
			if c < ' ' || c == 0x7f {
				return true
			}
		}
	}
	return bytes.Contains(line[s.start:s.keyEnd], []byte("=="))
}

// onlyTheOracle are reasons for which we refuse, with InfluxDB, what line-protocol/v2 takes.
var onlyTheOracle = map[reason]bool{
	badDuplicateTag: true, badReservedTag: true, badKeyLength: true, badTimeRange: true, badFieldKeyEscape: true,
}

func TestAgreesWithLineProtocolV2(t *testing.T) {
	t.Parallel()
	for _, c := range rows {
		for _, line := range strings.SplitAfter(c.in, "\n") {
			compareLine(t, []byte(strings.TrimRight(line, "\r\n")))
		}
	}
}

// compareLine compares what becomes of one line, which holds no line feed.
func compareLine(tb testing.TB, line []byte) {
	tb.Helper()
	trimmed := bytes.TrimLeft(line, " ")
	if len(trimmed) == 0 || trimmed[0] == '#' || bytes.ContainsAny(trimmed, "\r\t\x00") || len(line) > MaxLineBytes/2 {
		return
	}
	var n Normalizer
	res, err := n.Normalize(bytes.NewReader(line), Options{Now: unix(7)})
	want, oracleErr := oracle(line)
	if err != nil {
		n.scan.line(line, len(line)-len(trimmed), Nanosecond)
		why := n.bad.Lines[0].Reason
		for r := range onlyTheOracle {
			if why == r.String() {
				return
			}
		}
		if underscore := bytes.Contains(line, []byte("_")) && why == badNumber.String(); underscore {
			return // 1_000, which Go's parser takes.
		}
		if oracleErr == nil {
			tb.Errorf("%q: refused with %s, but taken by the oracle", line, why)
		}
		return
	}
	normal := join(res.Blocks)
	if n.scan.line([]byte(normal), 0, Nanosecond); oracleRefuses([]byte(normal), &n.scan) {
		return
	}
	if oracleErr != nil {
		tb.Errorf("%q: taken, but refused by the oracle: %v", line, oracleErr)
		return
	}
	if m := decode(tb, normal); len(m) == 1 {
		want.agree(tb, normal, m[0])
	} else {
		tb.Errorf("%q: %d points", line, len(m))
	}
}

func TestRealData(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("../../../shared/data/*.lp")
	if len(files) == 0 {
		t.Skip("no ../shared/data beside the project")
	}
	points := map[string]int{"bay-area-weather.lp": 3288, "eu-wind-data.lp": 3096, "home-sensor-data.lp": 26, "random-numbers.lp": 721}
	for _, file := range files {
		name := filepath.Base(file)
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		opt := Options{Precision: Nanosecond}
		if strings.HasPrefix(name, "eu-wind") || strings.HasPrefix(name, "home") {
			opt.Precision = Second
		}
		got, res, err := normalize(t, string(body), opt)
		if err != nil || res.Points != points[name] && points[name] != 0 {
			t.Errorf("%s: %d points, %v", name, res.Points, err)
		}
		lines := strings.SplitAfter(got, "\n")
		for i, m := range decode(t, got) {
			want, err := oracle([]byte(lines[i]))
			if err != nil {
				t.Fatal(err)
			}
			want.agree(t, lines[i], m)
		}
	}
}
