package lineprotocol

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pkg/errors"
)

func corpus(f *testing.F, add func(string)) {
	f.Helper()
	for _, c := range rows {
		if len(c.in) < 1000 {
			add(c.in)
		}
	}
	add("m,a=1 v=1 5\nm,b=\\ \\,\\= v=\"\\\"\nx\" 6\r\n# c\nm v=x\nm v=\"")
}

// What the normaliser yields is a fixed point, decodes to as many points, and does not depend on
// where reads end; strict and partial mode differ in nothing else.
func FuzzNormalize(f *testing.F) {
	corpus(f, func(s string) { f.Add([]byte(s), uint8(1)) })
	f.Fuzz(func(t *testing.T, body []byte, size uint8) {
		var n Normalizer
		opt := Options{Now: testNow, Mode: Partial}
		res, err := n.Normalize(bytes.NewReader(body), opt)
		if err != nil {
			t.Fatal(err)
		}
		got := join(res.Blocks)

		var strict Normalizer
		sres, err := strict.Normalize(bytes.NewReader(body), Options{Now: testNow})
		bad := new(ParseError)
		if (res.Refused == nil) != (err == nil) || err != nil && !errors.As(err, &bad) || err == nil && join(sres.Blocks) != got {
			t.Fatalf("strict: %v; partial: %v", err, res.Refused)
		}

		small := Normalizer{small: true, in: make([]byte, 0, max(1, int(size)))}
		if cut, err := small.Normalize(bytes.NewReader(body), opt); err != nil || join(cut.Blocks) != got ||
			res.Refused != nil && cut.Refused.Error() != res.Refused.Error() {
			t.Fatalf("read in parts of %d: %q, %v %v; whole: %q, %v", size, join(cut.Blocks), cut.Refused, err, got, res.Refused)
		}

		again, err := strict.Normalize(strings.NewReader(got), Options{})
		if err != nil || join(again.Blocks) != got || again.Points != res.Points {
			t.Fatalf("%q is not a fixed point: %q, %v", got, join(again.Blocks), err)
		}
		muts := decode(t, got)
		if len(muts) != res.Points {
			t.Fatalf("%q: %d points decoded, %d announced", got, len(muts), res.Points)
		}
		raw, _, err := NewDecoder(DecoderConfig{RawOnly: true}).Decode(nil, []byte(got), 0)
		if err != nil || len(raw) != len(muts) {
			t.Fatalf("%q: raw: %d points, %v", got, len(raw), err)
		}
		for i := range raw {
			if !bytes.Equal(raw[i].Raw, muts[i].Raw) || raw[i].Route != muts[i].Route {
				t.Fatalf("%q: point %d differs when raw", got, i)
			}
		}
	})
}

func FuzzAgainstLineProtocolV2(f *testing.F) {
	corpus(f, func(s string) { f.Add([]byte(s)) })
	f.Fuzz(func(t *testing.T, body []byte) {
		line, _, _ := bytes.Cut(body, []byte("\n"))
		compareLine(t, line)
	})
}

// A payload comes from a queue, and a queue from a disk.
func FuzzDecode(f *testing.F) {
	corpus(f, func(s string) { f.Add([]byte(s)) })
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, raw := range []bool{false, true} {
			d := NewDecoder(DecoderConfig{RawOnly: raw, CacheBytes: 1 << 10, RelationBytes: 1 << 10})
			muts, rest, err := d.Decode(nil, bytes.Clone(payload), 0)
			if err == nil && len(rest) > 0 {
				t.Fatal("lines are left without an error")
			}
			for _, m := range muts {
				if m.Route == 0 || m.Relation == nil || !raw && len(m.Values) != len(m.Relation.Columns) {
					t.Fatalf("got %+v", m)
				}
				m.AppendKey(nil)
			}
		}
	})
}
