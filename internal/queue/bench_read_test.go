package queue

import (
	"context"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkRead reads a queue of blocks that are stored as they are, and compares
// with read(2) of the same files. The two take turns, and what is reported is the
// median of the ratios of all rounds: the machine may be busy in some of them.
func BenchmarkRead(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		benchRead(b, "warm", size, 0, func(string) {})
	}
	// A consumer that does something with what it gets, at about 1 GB/s.
	benchRead(b, "warm", 64<<10, 16, func(string) {})
	benchRead(b, "cold", 64<<10, 0, func(dir string) { dropCache(b, dir) })
}

func benchRead(b *testing.B, cache string, size, work int, prepare func(dir string)) {
	b.Run(fmt.Sprintf("%s/block=%d/work=%d", cache, size, work), func(b *testing.B) {
		const total = 128 << 20
		dir := filepath.Join(benchDir(b), "q")
		q := fill(b, dir, total, size)
		require.NoError(b, q.Close()) // so that all is on the device
		q, err := Open(Config{Dir: dir, Limits: Limits{MaxBytes: 16 << 30}})
		require.NoError(b, err)
		timed := func(run func()) float64 {
			prepare(dir)
			begin := time.Now()
			run()
			return time.Since(begin).Seconds()
		}
		var ofRead, ofSum, rates, ceilings []float64
		blocks, sink := 0, uint32(0)
		use := func(p []byte) {
			for range work {
				sink += crc32.Checksum(p, castagnoli)
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			read := 0
			plain := timed(func() { read = readFiles(b, dir, use) })
			summed := timed(func() {
				readFiles(b, dir, func(p []byte) { sink += crc32.Checksum(p, castagnoli); use(p) })
			})
			spent := timed(func() { blocks = readThrough(b, q, use) })
			ofRead, ofSum = append(ofRead, plain/spent), append(ofSum, summed/spent)
			rates, ceilings = append(rates, float64(read)/1e6/spent), append(ceilings, float64(read)/1e6/plain)
		}
		_ = sink // so that the sums are not left out
		b.ReportMetric(median(ceilings), "read(2)-MB/s")
		b.ReportMetric(median(rates), "MB/s")
		b.ReportMetric(median(ofRead), "of-read(2)")
		b.ReportMetric(median(ofSum), "of-read(2)+crc")
		b.ReportMetric(float64(blocks)*median(rates)*1e6/total, "blocks/s")
		require.NoError(b, q.Close())
	})
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

func fill(b *testing.B, dir string, total, size int) *Queue {
	b.Helper()
	q, err := Open(Config{Dir: dir, Limits: Limits{MaxBytes: 16 << 30}, Sync: SyncNever})
	require.NoError(b, err)
	noise := noiseOf(size)
	per := max(1, (1<<20)/size)
	g := Group{Compression: NoCompression}
	for range total / size / per {
		g.Reset()
		for range per {
			require.NoError(b, g.Add(KindOpaque, 1, noise))
		}
		res, err := q.Reserve(&g)
		require.NoError(b, err)
		_, _, err = q.Append(context.Background(), res, &g)
		require.NoError(b, err)
	}
	return q
}

func readThrough(b *testing.B, q *Queue, use func([]byte)) int {
	r, err := q.NewReader(0)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	newest := q.Stats().LastSeq
	for n := 1; ; n++ {
		block, err := r.Next(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		use(block.Payload)
		if block.Sequence == newest {
			return n
		}
	}
}

// readFiles reads all segments, and returns how many bytes that were.
func readFiles(b *testing.B, dir string, look func([]byte)) int {
	names, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, readChunk)
	total := 0
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		for {
			n, err := f.Read(buf)
			look(buf[:n])
			total += n
			if err != nil {
				break
			}
		}
		_ = f.Close()
	}
	return total
}
