package queue

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// backlog fills a queue with blocks of random sizes, and closes and reopens it, so
// that all its segments are complete. It returns what is in it.
func backlog(t *testing.T, cfg Config, rng *rand.Rand, total, largest int) (*Queue, [][]byte) {
	t.Helper()
	cfg.Limits, cfg.Sync = Limits{MaxBytes: 8 << 20}, SyncNever
	q, err := Open(cfg)
	require.NoError(t, err)
	var all [][]byte
	for size := 0; size < total; {
		g := Group{Compression: Compression(rng.IntN(3))}
		for range 1 + rng.IntN(4) {
			p := make([]byte, rng.IntN(largest))
			for i := range p {
				p[i] = byte(rng.Uint32() & 0x3f)
			}
			require.NoError(t, g.Add(KindOpaque, 1, p))
			all = append(all, p)
			size += len(p)
		}
		res, err := q.Reserve(&g)
		require.NoError(t, err)
		_, _, err = q.Append(t.Context(), res, &g)
		require.NoError(t, err)
	}
	require.NoError(t, q.Close())
	q, err = Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = q.Close() })
	q.rings.left.Store(1)
	return q, all
}

// TestOrderWhileReadingAhead reads backlogs with rings of any size, and blocks that
// are smaller and larger than a chunk and than the ring, with a helper and without.
func TestOrderWhileReadingAhead(t *testing.T) {
	t.Parallel()
	seeds(t, count(24, 600), func(t *testing.T, seed uint64) bool {
		rng := rand.New(rand.NewPCG(seed, 8))
		cfg := Config{Dir: filepath.Join(t.TempDir(), fmt.Sprint(seed)), chunk: 128 << rng.IntN(9), manual: seed%4 == 0}
		largest := 256 << rng.IntN(9)
		q, all := backlog(t, cfg, rng, 3<<20, largest)
		r, err := q.NewReader(0)
		require.NoError(t, err)
		ahead := false
		var dst []byte
		for i, want := range all {
			var b Block
			if rng.IntN(2) == 0 {
				b, err = r.Next(t.Context())
			} else {
				b, err = r.NextInto(t.Context(), dst)
				dst = b.Payload[:0]
			}
			require.NoError(t, err)
			if b.Sequence != Sequence(i+1) || !bytes.Equal(b.Payload, want) {
				require.Fail(t, "a wrong block", "block %d is number %d", i+1, b.Sequence)
			}
			ahead = ahead || r.(*reader).scan.ahead
		}
		// A block of more than two chunks ends reading ahead, and so does a helper that comes too late.
		require.True(t, ahead || !cfg.manual || largest+blockHeadSize > 2*cfg.chunk, "nothing was read ahead")
		require.Empty(t, q.Stats().Losses)
		require.NoError(t, r.Close())
		require.Equal(t, int64(1), q.rings.left.Load())
		require.NoError(t, q.Close())
		return true
	})
}

// TestBoundedReadingAhead: the rings are few for all queues of a store, and who has
// caught up has none.
func TestBoundedReadingAhead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 9))
	q, all := backlog(t, Config{Dir: dir, chunk: 4096}, rng, 2<<20, 6000)
	read := func(r Reader, n int) {
		for range n {
			_, err := r.Next(t.Context())
			require.NoError(t, err)
		}
	}
	var readers []*reader
	for range 3 {
		r, err := q.NewReader(0)
		require.NoError(t, err)
		read(r, len(all)/2)
		readers = append(readers, r.(*reader))
	}
	has := func(r *reader) bool { return r.scan.ring != nil }
	require.True(t, has(readers[0]))
	require.False(t, has(readers[1]) || has(readers[2]), "there is one ring")
	read(readers[0], len(all)-len(all)/2)
	_, err := readNow(readers[0])
	require.ErrorIs(t, err, errNothingYet)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = readers[0].Next(t.Context()) }) // it waits, and gives the ring back
	for q.rings.left.Load() == 0 {
		read(readers[2], 0)
	}
	read(readers[1], len(all)/3)
	require.True(t, has(readers[1]), "the next one has it")
	put(t, q, "the last")
	wg.Wait()
	require.NoError(t, q.Close())
	for _, r := range readers {
		var err error
		for err == nil { // what it has looked at already may still come
			_, err = r.Next(t.Context())
		}
		require.ErrorIs(t, err, ErrClosed)
		require.False(t, has(r), "nothing is held once the queue is closed")
		require.NoError(t, r.Close())
	}
	require.Equal(t, int64(1), q.rings.left.Load())
}

// TestDeviceFailsWhileReadingAhead: what fails for a while is delivered, and what
// fails for ever is declared lost, and no more than that.
func TestDeviceFailsWhileReadingAhead(t *testing.T) {
	t.Parallel()
	seeds(t, count(30, 1000), func(t *testing.T, seed uint64) bool {
		rng := rand.New(rand.NewPCG(seed, 10))
		d := simdisk.New(seed)
		cfg := Config{Dir: "/q", FS: d, manual: seed%3 != 0, chunk: 4096}
		q, all := backlog(t, cfg, rng, 1<<20, 6000)
		first := segmentName(1, 0)
		bad := int64(200_000 + rng.IntN(600_000))
		left := []int{1, 3, 1 << 30}[rng.IntN(3)]
		d.OnFault = func(op simdisk.Op) *simdisk.Fault {
			if left > 0 && op.Kind == "read" && strings.HasSuffix(op.Path, first) && op.Off <= bad && bad < op.Off+int64(op.Len) {
				left--
				return &simdisk.Fault{Err: syscall.EIO}
			}
			return nil
		}
		r, err := q.NewReader(0)
		require.NoError(t, err)
		defer r.Close()
		failures, got := 0, 0
		for at := Sequence(0); at < Sequence(len(all)); {
			b, err := r.Next(t.Context())
			if err != nil {
				require.ErrorIs(t, err, syscall.EIO)
				failures++
				require.Less(t, failures, 10)
				continue
			}
			require.Greater(t, b.Sequence, at)
			require.True(t, bytes.Equal(all[b.Sequence-1], b.Payload), "block %d", b.Sequence)
			at = b.Sequence
			got++
		}
		d.OnFault = nil
		require.Equal(t, len(all)-got, int(q.Stats().Lost[LostCorrupt].Blocks))
		if left < 1<<20 {
			require.Equal(t, len(all), got, "it failed for a while only")
		} else {
			// The page, and all blocks that reach into it.
			require.Greater(t, len(all), got)
			require.Less(t, len(all)-got, 200)
		}
		return true
	})
}

// TestSegmentIsCutWhileReadingAhead: a file that becomes shorter costs what was
// behind, and is declared.
func TestSegmentIsCutWhileReadingAhead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(2, 11))
	q, all := backlog(t, Config{Dir: dir, chunk: 4096, manual: true}, rng, 2<<20, 6000)
	r, err := q.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	for range 50 {
		_, err := r.Next(t.Context())
		require.NoError(t, err)
	}
	require.True(t, r.(*reader).scan.ahead)
	require.NoError(t, os.Truncate(filepath.Join(dir, segmentName(1, 0)), 600_000))
	put(t, q, "the last")
	got := 50
	for at := Sequence(0); at <= Sequence(len(all)); got++ {
		b, err := r.Next(t.Context())
		require.NoError(t, err)
		at = b.Sequence
	}
	losses := q.Stats().Losses
	require.Len(t, losses, 1)
	require.Equal(t, uint64(len(all)+1-got), losses[0].Blocks)
}

// TestHelperThatComesTooLate: the reader does not wait for a helper that does not
// come back, but goes on with what it reads itself once it does.
func TestHelperThatComesTooLate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(3, 12))
	slow := &slowFS{FS: disk.OS()}
	q, all := backlog(t, Config{Dir: dir, chunk: 4096, FS: slow}, rng, 2<<20, 6000)
	r, err := q.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	slow.every.Store(20)
	for i := range all {
		b, err := r.Next(t.Context())
		require.NoError(t, err)
		require.True(t, bytes.Equal(all[i], b.Payload), "block %d", b.Sequence)
	}
	require.Negative(t, r.(*reader).scan.passed-4<<20, "it goes alone for a while")
}
