package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
)

// remotePoints is how many points the backlog has.
var remotePoints = testenv.Count(200_000, 2_000_000)

const (
	remoteShards = 8
	// loaderLines is what a plain loader puts into a request, as the clients of InfluxDB do.
	loaderLines = 5000
)

// BenchmarkRemote sends a backlog from the queue through the loop to a server, and the same lines with a plain
// loader that has as many connections, into an empty database each time. The ratio is the loop's rate to the
// loader's.
func BenchmarkRemote(b *testing.B) {
	db := testenv.StartInfluxDB(b, nil)
	v := testenv.StartVictoriaMetrics(b)
	made := 0
	fresh := func() influx.Config {
		made++
		name := fmt.Sprintf("d%d", made)
		db.Query(b, "", "CREATE DATABASE "+name)
		return influx.Config{URL: db.URL(), Kind: influx.V1, Bucket: name}
	}
	servers := map[string]func() influx.Config{
		"influxdb":        fresh,
		"victoriametrics": func() influx.Config { return influx.Config{URL: v.URL(), Kind: influx.V2, Bucket: "b"} },
	}
	for name, next := range servers {
		for _, pack := range []influx.Compression{influx.CompressNone, influx.CompressGzip} {
			for _, mode := range []string{"fan", "serial"} {
				b.Run(name+"/"+string(pack)+"/"+mode, func(b *testing.B) {
					loop := logical.Config{Immediate: mode == "fan", FanShards: remoteShards}
					connections := 1
					if loop.Immediate {
						connections = remoteShards
					}
					var ours, ceiling time.Duration
					var sent int64
					for range b.N {
						ceiling += load(b, next(), pack == influx.CompressGzip, connections)
						cfg := next()
						cfg.Compression = pack
						took, bytes := replicate(b, cfg, loop)
						ours += took
						sent += bytes
					}
					n := float64(remotePoints * b.N)
					b.ReportMetric(n/ours.Seconds(), "points/s")
					b.ReportMetric(n/ceiling.Seconds(), "loader-points/s")
					b.ReportMetric(ceiling.Seconds()/ours.Seconds(), "ratio")
					b.ReportMetric(float64(sent)/n, "wire-B/point")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

// linesOf returns n lines in the order of time.
func linesOf(n int) [][]byte {
	var lines [][]byte
	for _, p := range points(n) {
		lines = append(lines, fmt.Appendf(nil, "reading,host=%s,rack=%s,region=%s usage=%v,count=%di,up=%v %d\n",
			p.tags[0], p.tags[1], p.tags[2], p.usage, p.count, p.up, p.time))
	}
	return lines
}

// load posts the lines over so many connections, and returns how long it took.
func load(b *testing.B, cfg influx.Config, pack bool, connections int) time.Duration {
	b.Helper()
	url := cfg.URL + "/api/v2/write?precision=ns&bucket=" + cfg.Bucket
	if cfg.Kind == influx.V1 {
		url = cfg.URL + "/write?precision=ns&db=" + cfg.Bucket
	}
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	lines := linesOf(remotePoints)
	bodies := make(chan []byte)
	var workers sync.WaitGroup
	begun := time.Now()
	for range connections {
		workers.Go(func() {
			for body := range bodies {
				req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					continue
				}
				if pack {
					var packed bytes.Buffer
					w, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
					_, _ = w.Write(body)
					_ = w.Close()
					req.Body, req.ContentLength = io.NopCloser(&packed), int64(packed.Len())
					req.Header.Set("Content-Encoding", "gzip")
				}
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					continue
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusNoContent {
					b.Errorf("status %d", resp.StatusCode)
				}
			}
		})
	}
	for len(lines) > 0 {
		n := min(loaderLines, len(lines))
		bodies <- bytes.Join(lines[:n], nil)
		lines = lines[n:]
	}
	close(bodies)
	workers.Wait()
	return time.Since(begun)
}

// replicate queues the lines in writes of a thousand, and returns how long the loop takes to send them,
// and how many bytes that were.
func replicate(b *testing.B, cfg influx.Config, loop logical.Config) (time.Duration, int64) {
	b.Helper()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	target, err := influx.Open(cfg)
	must(err)
	quiet := slog.New(slog.DiscardHandler)
	factory, err := loops.NewFactory(loops.FactoryConfig{Holder: "bench", Log: quiet})
	must(err)
	store, err := queue.OpenStore(queue.StoreConfig{Dir: filepath.Join(b.TempDir(), "queues")})
	must(err)
	streams := influxlogical.NewStreams(influxlogical.Config{Factory: factory, Store: store, Installation: "bench", Log: quiet})
	ctx := context.Background()
	stream, err := streams.Add(ctx, influxlogical.StreamConfig{
		ID: "s", Bucket: "b", Loop: loop, Paused: true,
		Remote: influxlogical.Remote{Open: func(context.Context) (logical.Target, func(), error) { return target, func() {}, nil }},
	})
	must(err)
	for lines := linesOf(remotePoints); len(lines) > 0; {
		n := min(1000, len(lines))
		var normalizer lineprotocol.Normalizer
		res, err := normalizer.Normalize(bytes.NewReader(bytes.Join(lines[:n], nil)), lineprotocol.Options{Now: time.Now()})
		must(err)
		must(streams.Write(ctx, "b", res.Blocks))
		lines = lines[n:]
	}
	begun := time.Now()
	must(stream.Resume(ctx))
	for target.Facts().PointsSent < int64(remotePoints) {
		if err := stream.Status().Loop.Err; err != nil {
			b.Fatal(err)
		}
		<-time.After(time.Millisecond)
	}
	took := time.Since(begun)
	must(streams.Close(ctx))
	must(store.Close())
	must(target.Close())
	return took, target.Facts().BytesSent
}
