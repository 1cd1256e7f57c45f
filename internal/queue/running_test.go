package queue

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// TestLimitsChangeWhileRunning changes each limit of a queue that is in use, and sees
// that it counts at once.
func TestLimitsChangeWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, err := Open(Config{Dir: "/q", FS: simdisk.New(1), Limits: Limits{MaxBytes: 100_000}})
		require.NoError(t, err)
		c := &clocked{Queue: q}
		fill := func() (err error) {
			for err == nil {
				_, err = c.tryPut(9_000)
			}
			return err
		}
		require.ErrorAs(t, fill(), new(*FullError))
		before := q.Stats().UnsentBytes

		q.SetLimits(Limits{MaxBytes: 200_000, Policy: DropNewest})
		require.ErrorAs(t, fill(), new(*LeftOutError))
		require.Greater(t, q.Stats().UnsentBytes, before+80_000, "more fits")

		q.SetLimits(Limits{MaxBytes: 100_000, Policy: DropOldest})
		_, err = c.tryPut(9_000)
		require.NoError(t, err)
		require.LessOrEqual(t, q.Stats().UnsentBytes, int64(100_000), "less fits")
		require.Positive(t, q.Stats().Lost[LostOldest].Blocks)

		time.Sleep(time.Hour) // on the clock of the bubble
		require.Positive(t, q.Stats().UnsentBytes)
		q.SetLimits(Limits{MaxBytes: 100_000, MaxAge: time.Minute, Policy: Refuse})
		synctest.Wait()
		require.Zero(t, q.Stats().UnsentBytes, "it is too old now")
		require.Positive(t, q.Stats().Lost[LostAge].Blocks)
		require.ErrorAs(t, fill(), new(*FullError))
		require.Empty(t, q.Stats().Lost[LostNewest])

		q.SetSync(SyncNever)
		_, err = q.Purge()
		require.NoError(t, err)
		syncs := q.Stats().Syncs
		for range 5 {
			_, err = c.tryPut(100)
			require.NoError(t, err)
		}
		require.Equal(t, syncs, q.Stats().Syncs)
		q.SetSync(SyncAlways)
		_, err = c.tryPut(100)
		require.NoError(t, err)
		require.Greater(t, q.Stats().Syncs, syncs)
		require.NoError(t, q.Close())
	})
}

// TestSegmentsAreAnEighthAtMost, also after the limit was changed.
func TestSegmentsAreAnEighthAtMost(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 5))
	for _, limit := range []int64{512 << 10, 1 << 20, 5 << 20} {
		c := newClocked(t, Limits{MaxBytes: 20 << 20, Policy: DropOldest})
		for lowered := range 2 {
			for range 300 {
				_, err := c.tryPut(rng.IntN(40_000))
				require.NoError(t, err)
			}
			if lowered == 0 {
				c.SetLimits(Limits{MaxBytes: limit, Policy: DropOldest})
				_, err := c.Purge()
				require.NoError(t, err)
				c.now = c.now.Add(time.Hour)
				c.tend() // the segment at hand is done with
			}
		}
		entries, err := c.disk.List("/q")
		require.NoError(t, err)
		require.Greater(t, len(entries), 5)
		for _, e := range entries {
			if strings.HasSuffix(e.Name, segmentSuffix) {
				require.LessOrEqual(t, e.Size, limit/8, "%s of a queue of %d", e.Name, limit)
			}
		}
	}
}

// TestOrphansAreSwept: what a process left behind that died before it could remove it.
func TestOrphansAreSwept(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 1 << 20})
	for range 60 {
		_, err := c.tryPut(10_000)
		require.NoError(t, err)
	}
	require.NoError(t, c.Ack(50))
	c.disk.OnFault = func(op simdisk.Op) *simdisk.Fault {
		if op.Kind == "remove" && strings.HasSuffix(op.Path, segmentSuffix) {
			return &simdisk.Fault{Err: fmt.Errorf("not now")}
		}
		return nil
	}
	c.tend()
	c.disk.OnFault = nil
	image := c.disk.Crash(1)
	for _, name := range []string{"/q/cursor.tmp", "/q/losses.tmp"} {
		require.NoError(t, writeNew(image, name, []byte("half")))
	}
	require.NoError(t, writeNew(image, "/q/notes.txt", []byte("of a person")))
	c.cfg.FS = image
	q, err := Open(c.cfg)
	require.NoError(t, err)
	require.Len(t, drain(t, q), 10)
	q.tend()
	entries, err := image.List("/q")
	require.NoError(t, err)
	var size int64
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name, segmentSuffix) {
			size += e.Size
		} else {
			names = append(names, e.Name)
		}
	}
	require.Less(t, size, int64(250_000), "segments of what was sent are gone")
	require.Equal(t, []string{"cursor", "lock", "notes.txt"}, names, "and what is of others is left alone")
	require.NoError(t, q.Close())
}

// TestNothingSilentAboutAReaderThatLags: another reader has had what it has not, and all
// of that is acknowledged and removed. Nothing of it is lost.
func TestNothingSilentAboutAReaderThatLags(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 512 << 10}) // segments of 64 KiB
	for range 60 {
		_, err := c.tryPut(5000)
		require.NoError(t, err)
	}
	lags, err := c.NewReader(0)
	require.NoError(t, err)
	defer lags.Close()
	_, err = readNow(lags)
	require.NoError(t, err)
	drain(t, c.Queue)
	require.NoError(t, c.Ack(50))
	c.tend()
	var got []Sequence
	for {
		b, err := readNow(lags)
		if err != nil {
			require.ErrorIs(t, err, errNothingYet)
			break
		}
		got = append(got, b.Sequence)
	}
	require.Equal(t, Sequence(60), got[len(got)-1])
	require.Subset(t, got, []Sequence{51, 52, 53, 54, 55, 56, 57, 58, 59, 60})
	require.Empty(t, c.Stats().Losses)
}
