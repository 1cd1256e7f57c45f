package filter

import (
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/logical"
)

// BenchmarkSieve is to be compared with its ceilings in the same run: the decoding of the same lines, with
// their values and without.
func BenchmarkSieve(b *testing.B) {
	in := blocks(b, benchBody(20000))
	size := int64(0)
	for _, bl := range in {
		size += int64(len(bl.Data))
	}
	for _, c := range []struct {
		name   string
		config Config
	}{
		{"measurement", Config{Measurements: List{Include: []string{"cpu"}}}},
		{"origin", Config{Tags: List{Exclude: []string{"tailrace_origin=plant-b"}}}},
		{"globs half", Config{Measurements: List{Include: []string{"c*"}}, Tags: List{Include: []string{"host=*[02468]", "host=server?[1]", "host=*4", "host=*2", "host=*0", "host=*6", "host=*8"}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := compile(b, c.config)
			var s Sieve
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				for _, bl := range in {
					if _, err := s.Block(f, bl); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
	for name, raw := range map[string]bool{"decode values": false, "decode raw": true} {
		b.Run(name, func(b *testing.B) {
			d := lineprotocol.NewDecoder(lineprotocol.DecoderConfig{RawOnly: raw})
			var muts []logical.Mutation
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				for _, bl := range in {
					var err error
					if muts, _, err = d.Decode(muts[:0], bl.Data, 0); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
