package lineprotocol

import (
	"bytes"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

func normalized(tb testing.TB, body []byte) []Block {
	tb.Helper()
	var n Normalizer
	res, err := n.Normalize(bytes.NewReader(body), Options{Now: time.Unix(1, 0)})
	if err != nil {
		tb.Fatal(err)
	}
	return res.Blocks
}

func BenchmarkDecode(b *testing.B) {
	blocks := normalized(b, benchBody(20000))
	size := int64(0)
	for _, bl := range blocks {
		size += int64(len(bl.Data))
	}
	for _, raw := range []bool{false, true} {
		name := "values"
		if raw {
			name = "raw"
		}
		b.Run(name, func(b *testing.B) {
			d := NewDecoder(DecoderConfig{RawOnly: raw})
			var muts []logical.Mutation
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				for _, bl := range blocks {
					var err error
					if muts, _, err = d.Decode(muts[:0], bl.Data, 0); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
