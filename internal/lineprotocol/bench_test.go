package lineprotocol

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	lp2 "github.com/influxdata/line-protocol/v2/lineprotocol"
)

// benchBody is what a typical agent sends: three tags and three fields a line.
func benchBody(lines int) []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	var b []byte
	for i := range lines {
		b = fmt.Appendf(b, "cpu,host=server%02d,region=eu-central-%d,cpu=cpu%d usage_user=%.3f,usage_system=%.3f,ticks=%di %d\n",
			i%50, i%3, i%16, rnd.Float64()*100, rnd.Float64()*100, rnd.IntN(1e9), 1700000000000000000+int64(i)*1e7)
	}
	return b
}

func BenchmarkNormalize(b *testing.B) {
	body := benchBody(20000)
	for _, p := range []Precision{Nanosecond, Second} {
		body := body
		name := "copied"
		if p == Second {
			name, body = "rewritten", bytes.ReplaceAll(body, []byte("0000000\n"), []byte("\n"))
			p = Microsecond
		}
		b.Run(name, func(b *testing.B) {
			var n Normalizer
			r := bytes.NewReader(body)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(body)
				res, err := n.Normalize(r, Options{Precision: p, Now: time.Unix(1, 0)})
				if err != nil || res.Points != 20000 {
					b.Fatal(res.Points, err)
				}
			}
		})
	}
}

// BenchmarkOracle is the ceiling to compare with: line-protocol/v2 decoding all values.
func BenchmarkOracle(b *testing.B) {
	body := benchBody(20000)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		d := lp2.NewDecoderWithBytes(body)
		for d.Next() {
			if _, err := d.Measurement(); err != nil {
				b.Fatal(err)
			}
			for {
				k, _, err := d.NextTag()
				if err != nil {
					b.Fatal(err)
				}
				if k == nil {
					break
				}
			}
			for {
				k, _, err := d.NextField()
				if err != nil {
					b.Fatal(err)
				}
				if k == nil {
					break
				}
			}
			if _, err := d.Time(lp2.Nanosecond, time.Time{}); err != nil {
				b.Fatal(err)
			}
		}
	}
}
