package lineprotocol

import (
	"bytes"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testNow is the time of points without one: 1700000000123456789.
var testNow = time.Unix(1700000000, 123456789)

// soak returns few, or many if TAILRACE_SOAK is set.
func soak(few, many int) int {
	if os.Getenv("TAILRACE_SOAK") != "" {
		return many
	}
	return few
}

// normalize returns the blocks' bytes, joined.
func normalize(tb testing.TB, body string, opt Options) (string, Result, error) {
	tb.Helper()
	if opt.Now.IsZero() {
		opt.Now = testNow
	}
	var n Normalizer
	res, err := n.Normalize(strings.NewReader(body), opt)
	return join(res.Blocks), res, err
}

func join(blocks []Block) string {
	var b strings.Builder
	for _, bl := range blocks {
		b.Write(bl.Data)
	}
	return b.String()
}

// decode decodes all lines with a new Decoder.
func decode(tb testing.TB, payload string) []logical.Mutation {
	tb.Helper()
	muts, rest, err := NewDecoder(DecoderConfig{Schema: "b"}).Decode(nil, []byte(payload), 0)
	if err != nil || len(rest) > 0 {
		tb.Fatalf("decode %q: %v, %d bytes left", payload, err, len(rest))
	}
	return muts
}

// column returns the value of a column, or an absent one.
func column(m logical.Mutation, role logical.Role, name string) logical.Value {
	for i, c := range m.Relation.Columns {
		if c.Role == role && c.Name == name {
			return m.Values[i]
		}
	}
	return logical.Value{}
}

// sameValue compares two values by kind and content.
func sameValue(a, b logical.Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case logical.KindFloat64:
		return math.Float64bits(a.Float64()) == math.Float64bits(b.Float64())
	case logical.KindText, logical.KindUUID:
		return bytes.Equal(a.Bytes(), b.Bytes())
	}
	return a == b
}

// A slowReader hands out one byte at a time.
type slowReader struct{ r io.Reader }

func (s slowReader) Read(p []byte) (int, error) { return s.r.Read(p[:min(1, len(p))]) }

func unix(ns int64) time.Time { return time.Unix(0, ns) }
