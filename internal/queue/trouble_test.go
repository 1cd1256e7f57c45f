package queue

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// TestUnreadableSectorIsPassedInTheEnd: a sector that cannot be read is an error a few
// times, and then declared lost.
func TestUnreadableSectorIsPassedInTheEnd(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	for range 5 {
		_, err := c.tryPut(5000)
		require.NoError(t, err)
	}
	c.disk.OnFault = func(op simdisk.Op) *simdisk.Fault {
		// The second page of the data cannot be read.
		if op.Kind == "read" && op.Off < 8192 && op.Off+int64(op.Len) > 4096 && strings.HasSuffix(op.Path, segmentSuffix) {
			return &simdisk.Fault{Err: syscall.EIO}
		}
		return nil
	}
	r, err := c.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	failures := 0
	var got []Sequence
	for len(got) == 0 || got[len(got)-1] != 5 {
		b, err := r.Next(t.Context())
		if err != nil {
			failures++
			require.Less(t, failures, 10)
			continue
		}
		got = append(got, b.Sequence)
	}
	require.Equal(t, []Sequence{3, 4, 5}, got)
	require.Equal(t, uint64(2), c.Stats().Lost[LostCorrupt].Blocks)
}

// badPages makes pages of segments fail, each as often as it says.
func badPages(c *clocked, left func(page int64) *int) {
	c.disk.OnFault = func(op simdisk.Op) *simdisk.Fault {
		if op.Kind != "read" || !strings.HasSuffix(op.Path, segmentSuffix) {
			return nil
		}
		for page := op.Off / pageSize; page*pageSize < op.Off+int64(op.Len); page++ {
			if n := left(page); *n > 0 {
				*n--
				return &simdisk.Fault{Err: syscall.EIO}
			}
		}
		return nil
	}
}

// readAllOver reads up to a block however often the device fails.
func readAllOver(t *testing.T, q *Queue, until Sequence) (got []Sequence, failures int) {
	t.Helper()
	r, err := q.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	for len(got) == 0 || got[len(got)-1] != until {
		b, err := r.Next(t.Context())
		if err != nil {
			require.ErrorIs(t, err, syscall.EIO)
			failures++
			require.Less(t, failures, 10_000)
			continue
		}
		got = append(got, b.Sequence)
	}
	return got, failures
}

const forEver = 1 << 30

// TestNothingSilentBesideADeadPage: one page is dead, and the others fail for a while.
// Only the block in the dead one is lost.
func TestNothingSilentBesideADeadPage(t *testing.T) {
	t.Parallel()
	seeds(t, count(20, 500), func(t *testing.T, seed uint64) bool {
		rng := rand.New(rand.NewPCG(seed, 21))
		c := newClocked(t, Limits{MaxBytes: 1 << 20})
		c.cfg.chunk = 1024 << rng.IntN(6)
		require.NoError(t, c.Close())
		c.open(t)
		const blocks = 60 // of nearly a page each
		for range blocks {
			_, err := c.tryPut(3900)
			require.NoError(t, err)
		}
		dead := 2 + rng.Int64N(10)
		left := map[int64]*int{}
		badPages(c, func(page int64) *int {
			if left[page] == nil {
				left[page] = new(int)
				*left[page] = rng.IntN(3)
				if page == dead {
					*left[page] = forEver
				}
			}
			return left[page]
		})
		got, _ := readAllOver(t, c.Queue, blocks)
		require.GreaterOrEqual(t, len(got), blocks-6, "at most two blocks in each of three segments")
		require.Less(t, len(got), blocks)
		require.Equal(t, blocks-len(got), int(c.Stats().Lost[LostCorrupt].Blocks))
		return true
	})
}

// TestCalmBehindADeadPage: pages in a row that are dead are one place, and not as
// many errors as there are pages.
func TestCalmBehindADeadPage(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 1 << 20})
	for range 30 {
		_, err := c.tryPut(3900)
		require.NoError(t, err)
	}
	always := forEver
	none := 0
	badPages(c, func(page int64) *int {
		if page >= 3 && page < 20 {
			return &always
		}
		return &none
	})
	_, failures := readAllOver(t, c.Queue, 30)
	require.Less(t, failures, 2*maxReadFailures)
}

// TestNothingSilentWhileTheDeviceIsAway: everything fails for some twenty tries. That
// costs a few pages, and not all that is left of the segment.
func TestNothingSilentWhileTheDeviceIsAway(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 64 << 20})
	const blocks = 1000
	for range blocks {
		_, err := c.tryPut(3900)
		require.NoError(t, err)
	}
	r, err := c.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	_, err = r.Next(t.Context())
	require.NoError(t, err)
	c.disk.OnFault = func(op simdisk.Op) *simdisk.Fault {
		if op.Kind == "read" {
			return &simdisk.Fault{Err: syscall.EIO}
		}
		return nil
	}
	failures := 0
	for at := Sequence(1); at < blocks; {
		b, err := readNow(r)
		if err == nil {
			at = b.Sequence
			continue
		}
		require.NotErrorIs(t, err, errNothingYet, "what is left is given up")
		if failures++; failures == 2*maxReadFailures {
			c.disk.OnFault = nil
		}
		require.Less(t, failures, 4*maxReadFailures)
	}
	require.LessOrEqual(t, c.Stats().Lost[LostCorrupt].Blocks, uint64(5*maxRun))
}

// TestAckedThoughTheDeviceFailsAtOpening: each page fails a few times while the newest
// segment is looked at.
func TestAckedThoughTheDeviceFailsAtOpening(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	for range 30 {
		_, err := c.tryPut(3900)
		require.NoError(t, err)
	}
	left := c.disk.Clone()
	left.Delete("/q/" + cursorName) // so that all of it is looked at
	require.NoError(t, c.Close())
	c.disk, c.cfg.FS, c.cfg.chunk = left, left, 4096
	n := map[int64]*int{}
	badPages(c, func(page int64) *int {
		if n[page] == nil {
			n[page] = new(int)
			if page > 0 {
				*n[page] = maxReadFailures - 1
			}
		}
		return n[page]
	})
	c.open(t)
	c.disk.OnFault = nil
	require.Len(t, drain(t, c.Queue), 30)
	require.Empty(t, c.Stats().Losses)
}
