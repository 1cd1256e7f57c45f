package queue

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// The benchmarks print ratios against a ceiling that is measured in the same run,
// on the same device. docs/queue-performance.md explains them.

// benchDir is on the device that the working directory is on: a temporary
// directory may be memory, and memory does not sync.
func benchDir(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp(".", "bench-")
	require.NoError(b, err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// rate returns how often per second run can be called, for about d.
func rate(d time.Duration, run func()) float64 {
	begin := time.Now()
	n := 0
	for ; time.Since(begin) < d; n++ {
		run()
	}
	return float64(n) / time.Since(begin).Seconds()
}

// syncRate returns how often per second size bytes can be appended to a file and
// synced, by one who does nothing else.
func syncRate(b *testing.B, dir string, size int) float64 {
	b.Helper()
	f, err := disk.OS().Create(filepath.Join(dir, "ceiling"))
	require.NoError(b, err)
	defer os.Remove(filepath.Join(dir, "ceiling"))
	defer f.Close()
	p := bytes.Repeat([]byte{7}, size)
	off := int64(0)
	return rate(500*time.Millisecond, func() {
		if _, err := f.WriteAt(p, off); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		off += int64(size)
	})
}

// BenchmarkDurableAppends appends 1 KiB from many goroutines, and compares with
// the device's fdatasync rate.
func BenchmarkDurableAppends(b *testing.B) {
	for _, writers := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			dir := benchDir(b)
			before := syncRate(b, dir, 1024)
			q, err := Open(Config{Dir: filepath.Join(dir, "q"), Limits: Limits{MaxBytes: 16 << 30}})
			require.NoError(b, err)
			b.ReportAllocs()
			b.ResetTimer()
			appendAll(b, q, writers, b.N, line1K())
			b.StopTimer()
			appends := float64(b.N) / b.Elapsed().Seconds()
			syncs := q.Stats().Syncs
			require.NoError(b, q.Close())
			after := syncRate(b, dir, 1024)
			ceiling := (before + after) / 2
			b.ReportMetric(appends, "appends/s")
			b.ReportMetric(ceiling, "fdatasyncs/s")
			b.ReportMetric(appends/ceiling, "appends/fdatasync")
			b.ReportMetric(float64(b.N)/float64(max(syncs, 1)), "groups/sync")
		})
	}
}

// line1K returns about 1 KiB of line protocol.
func line1K() []byte {
	var p []byte
	for i := 0; len(p) < 950; i++ {
		p = fmt.Appendf(p, "cpu,host=server%02d,region=eu-west usage_user=%.4f,usage_system=%.4f %d\n", i%3, rand.Float64()*100, rand.Float64()*10, 1_700_000_000_000_000_000+int64(i)*1e9)
	}
	return p
}

func appendAll(b *testing.B, q *Queue, writers, n int, payload []byte) {
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			var g Group
			for i := w; i < n; i += writers {
				g.Reset()
				if err := g.Add(KindLineProtocol, 10, payload); err != nil {
					b.Error(err)
					return
				}
				res, err := q.Reserve(&g)
				if err == nil {
					_, _, err = q.Append(context.Background(), res, &g)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkLargeAppends appends groups of 8 MiB that cannot be compressed, and
// compares with writing and syncing the same bytes, 8 MiB at a time. The two take
// turns, so that both see the same device.
func BenchmarkLargeAppends(b *testing.B) {
	const size = 8 << 20
	noise := noiseOf(size)
	dir := benchDir(b)
	f, err := disk.OS().Create(filepath.Join(dir, "ceiling"))
	require.NoError(b, err)
	defer f.Close()
	// The ceiling has its space allocated ahead, as segments have: without that, a
	// sync on ext4 also waits for what others write.
	const fileSize = 512 << 20
	require.NoError(b, f.Preallocate(fileSize))
	q, err := Open(Config{Dir: filepath.Join(dir, "q"), Limits: Limits{MaxBytes: 64 << 30}})
	require.NoError(b, err)
	g := Group{Compression: NoCompression}
	for i := 0; i < size; i += MaxPayload {
		require.NoError(b, g.Add(KindOpaque, 0, noise[i:i+MaxPayload]))
	}
	var raw, queued time.Duration
	off := int64(0)
	for b.Loop() {
		begin := time.Now()
		var err error
		for i := int64(0); i < size && err == nil; i += MaxPayload { // in the pieces in which they come
			_, err = f.WriteAt(noise[i:i+MaxPayload], off+i)
		}
		if err == nil {
			err = f.Sync()
		}
		raw += time.Since(begin)
		if off += size; off >= fileSize && err == nil {
			off, err = 0, f.Truncate(0) // so that nothing is overwritten, as in segments
			if err == nil {
				err = f.Preallocate(fileSize)
			}
		}
		begin = time.Now()
		var res Reservation
		if err == nil {
			res, err = q.Reserve(&g)
		}
		var last Sequence
		if err == nil {
			_, last, err = q.Append(context.Background(), res, &g)
		}
		queued += time.Since(begin)
		if err == nil && last%512 == 0 {
			err = q.Ack(last) // so that the disk does not fill
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, q.Close())
	mb := float64(b.N) * size / 1e6
	b.ReportMetric(mb/queued.Seconds(), "MB/s")
	b.ReportMetric(mb/raw.Seconds(), "raw-MB/s")
	b.ReportMetric(raw.Seconds()/queued.Seconds(), "of-raw")
}

func noiseOf(n int) []byte {
	p := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(p)
	return p
}

// BenchmarkOpen opens a queue of 10 GB whose last process died.
func BenchmarkOpen(b *testing.B) {
	dir := filepath.Join(benchDir(b), "q")
	q := fill(b, dir, 31<<20, 4<<10)
	require.NoError(b, q.Close())
	names, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	require.NoError(b, err)
	require.Len(b, names, 1)
	newest, err := os.ReadFile(names[0])
	require.NoError(b, err)
	const count = 10_000 / 32
	// The first and the newest are real: nobody looks into the others.
	require.NoError(b, os.Remove(names[0]))
	for i := range count {
		first := Sequence(1 + i*10_000)
		head := segmentHead{ID: q.id, First: first, Prev: first - 1, Capacity: maxSegment}
		content := make([]byte, dataStart)
		head.encode(content)
		copy(content[headCopyAt:], content[:fileHeadSize])
		if i == 0 || i == count-1 {
			content = moved(b, q.id, newest, head, content)
		}
		name := filepath.Join(dir, segmentName(first, 0))
		require.NoError(b, os.WriteFile(name, content, 0o600))
		require.NoError(b, os.Truncate(name, int64(max(len(content), maxSegment))))
	}
	cursorFile := cursor{ID: q.id, Next: 1} // whoever wrote it died before anything was sent
	require.NoError(b, os.Remove(filepath.Join(dir, cursorName)))
	require.NoError(b, os.WriteFile(filepath.Join(dir, cursorName), cursorFile.encode(), 0o600))
	var spent time.Duration
	b.ResetTimer()
	for b.Loop() {
		begin := time.Now()
		q, err := Open(Config{Dir: dir, Limits: Limits{MaxBytes: 16 << 30}})
		spent += time.Since(begin)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		require.Greater(b, q.Stats().UnsentBytes, int64(9_000_000_000))
		require.NoError(b, q.Close())
		require.NoError(b, os.WriteFile(filepath.Join(dir, cursorName), cursorFile.encode(), 0o600))
		b.StartTimer()
	}
	b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "ms/open")
}

// moved writes blocks again for another place.
func moved(b *testing.B, id ID, old []byte, head segmentHead, to []byte) []byte {
	b.Helper()
	from := segmentHead{ID: id, First: 1}
	s := scanner{window: window{file: bytes.NewReader(old), chunk: readChunk}, seed: from.seed(), off: dataStart, limit: int64(len(old))}
	for {
		x, err := s.next()
		if err != nil {
			return to
		}
		h := x.blockHead
		h.Sequence += head.First - 1
		at := len(to)
		to = append(to, make([]byte, h.size())...)
		h.encode(to[at:], head.seed(), int64(at))
		copy(to[at+blockHeadSize:], x.stored)
	}
}

// BenchmarkCompression shows what each way to store costs on line protocol.
func BenchmarkCompression(b *testing.B) {
	for _, c := range []Compression{S2, Zstd, NoCompression} {
		for _, size := range []int{1 << 10, 16 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("%s/%d", [...]string{"s2", "zstd", "none"}[c], size), func(b *testing.B) {
				payload := sampleLines(b, size)
				g := Group{Compression: c}
				b.SetBytes(int64(len(payload)))
				b.ReportAllocs()
				for b.Loop() {
					g.Reset()
					if err := g.Add(KindLineProtocol, 1, payload); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(payload))/float64(g.Size()), "ratio")
			})
		}
	}
}

// sampleLines returns real line protocol, if it is there.
func sampleLines(b *testing.B, size int) []byte {
	b.Helper()
	var all []byte
	names, _ := filepath.Glob(filepath.Join("..", "..", "..", "shared", "data", "*.lp"))
	for _, name := range names {
		p, err := os.ReadFile(name)
		require.NoError(b, err)
		all = append(all, bytes.TrimSpace(p)...)
		all = append(all, '\n')
	}
	if len(all) < size {
		b.Skip("no sample data beside the project")
	}
	at := len(all) / 3
	return all[at:][:min(size, len(all)-at)]
}
