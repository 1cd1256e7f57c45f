package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

// discard is an Intake that keeps nothing.
type discard struct{}

func (discard) Bucket(_ context.Context, _, ref string) (Bucket, error) {
	return Bucket{ID: ref, Name: ref}, nil
}

func (discard) Write(context.Context, string, []lineprotocol.Block) error { return nil }

func benchBody(size int) []byte {
	var b []byte
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, "cpu,host=server%02d,region=eu-central-%d,cpu=cpu%d usage_user=%.3f,usage_system=%.3f,ticks=%di %d\n",
			i%50, i%3, i%16, float64(i%997)/10, float64(i%89)/10, i*7919, 1700000000000000000+int64(i)*1e7)
	}
	return b
}

// BenchmarkIntake prints the rate of writes over a connection of the loopback, as a share of what the
// normaliser does alone in the same run: reading, parsing the request, answering, and the client
// are the difference.
func BenchmarkIntake(b *testing.B) {
	for _, size := range []int{10 << 10, 500 << 10, 10 << 20} {
		body := benchBody(size)
		for _, gz := range []bool{false, true} {
			name := fmt.Sprintf("%dKiB/plain", size>>10)
			if gz {
				name = fmt.Sprintf("%dKiB/gzip", size>>10)
			}
			b.Run(name, func(b *testing.B) { benchIntake(b, body, gz) })
		}
	}
}

func benchIntake(b *testing.B, body []byte, gz bool) {
	st := start(b, Config{}, func(d *Deps) {
		d.Intake, d.Log = discard{}, slog.New(slog.DiscardHandler)
	})
	sent, header := body, http.Header{"Authorization": {"Token " + operator}}
	if gz {
		sent = []byte(zipped(string(body)))
		header.Set("Content-Encoding", "gzip")
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	r := bytes.NewReader(nil)
	for b.Loop() {
		r.Reset(sent)
		req, err := http.NewRequest(http.MethodPost, st.url+v2one, io.NopCloser(r))
		if err != nil {
			b.Fatal(err)
		}
		req.Header, req.ContentLength = header, int64(len(sent))
		resp, err := st.client.Do(req)
		if err != nil || resp.StatusCode != http.StatusNoContent {
			b.Fatal(resp, err)
		}
		_ = resp.Body.Close()
	}
	rate := float64(b.N) * float64(len(body)) / b.Elapsed().Seconds()
	b.ReportMetric(rate/alone(body), "of-normaliser")
}

// alone returns the bytes per second of the normaliser alone.
func alone(body []byte) float64 {
	var n lineprotocol.Normalizer
	r, runs := bytes.NewReader(nil), 0
	began := time.Now()
	for time.Since(began) < 300*time.Millisecond {
		r.Reset(body)
		if _, err := n.Normalize(r, lineprotocol.Options{Now: testNow}); err != nil {
			panic(err)
		}
		runs++
	}
	return float64(runs) * float64(len(body)) / time.Since(began).Seconds()
}
