package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDropOldestDeclaresExactlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 600_000, Policy: DropOldest})
	for range 200 {
		_, err := c.tryPut(9_000)
		require.NoError(t, err)
		require.LessOrEqual(t, c.Stats().UnsentBytes, int64(600_000))
	}
	stats := c.Stats()
	require.LessOrEqual(t, stats.DiskBytes, int64(600_000*9/8+100_000))
	total := stats.Lost[LostOldest]
	blocks := drain(t, c.Queue)
	require.Equal(t, uint64(200-len(blocks)), total.Blocks)
	require.Equal(t, int64(3*(200-len(blocks))), total.Points)
	require.Equal(t, stats.Floor+1, blocks[0].Sequence)
	require.Len(t, stats.Losses, 1, "ranges that touch are one")
	require.True(t, stats.Losses[0].Exact)
	require.Equal(t, Sequence(1), stats.Losses[0].First)
	require.NotEmpty(t, c.lost)

	// It is not found again as damage.
	require.NoError(t, c.Close())
	c.open(t)
	require.Len(t, drain(t, c.Queue), len(blocks))
	require.Equal(t, stats.Lost, c.Stats().Lost)
	require.Equal(t, stats.Floor, c.Stats().Floor)
}

// A reader that stands in what is dropped goes on behind it.
func TestReaderPassesWhatWasDropped(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 600_000, Policy: DropOldest})
	for range 10 {
		_, err := c.tryPut(50_000)
		require.NoError(t, err)
	}
	r, err := c.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	b, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, Sequence(1), b.Sequence)
	for range 20 {
		_, err := c.tryPut(50_000)
		require.NoError(t, err)
	}
	b, err = r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, c.Stats().Floor+1, b.Sequence)
	require.NoError(t, c.Ack(1), "what was in the reader's hands may still be acknowledged")
	require.Zero(t, c.Stats().Lost[LostCorrupt])
}

// TestNothingSilentWithDropNewest writes to a full queue: what nobody kept is refused, what others kept is lost.
func TestNothingSilentWithDropNewest(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 100_000, Policy: DropNewest})
	kept := 0
	g := Group{Compression: NoCompression}
	require.NoError(t, g.Add(KindOpaque, 3, noiseOf(9_900)))
	var out *LeftOutError
	for range 20 {
		if _, err := c.tryPut(9_900); err == nil {
			kept++
		} else {
			require.ErrorAs(t, err, &out)
			c.Decline(&g, true)
		}
	}
	require.Less(t, kept, 20)
	require.Equal(t, int64(3*(20-kept)), c.Stats().Lost[LostNewest].Points)
	require.Len(t, c.lost, 20-kept)
	_, err := c.tryPut(9_900)
	require.ErrorAs(t, err, &out)
	c.Decline(&g, false)
	require.Equal(t, uint64(1), c.Stats().Refused)
	require.Equal(t, int64(3*(20-kept)), c.Stats().Lost[LostNewest].Points, "a refused write is not lost")
	c.tend()
	require.NoError(t, c.Close())
	c.open(t)
	require.Equal(t, int64(3*(20-kept)), c.Stats().Lost[LostNewest].Points, "the record is durable")
	require.Len(t, drain(t, c.Queue), kept)
}

func TestAgeIsPerBlock(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	for range 10 {
		_, err := c.tryPut(100)
		require.NoError(t, err)
		c.now = c.now.Add(time.Minute)
	}
	c.tend()
	require.Empty(t, c.Stats().Losses, "as old as it gets")
	limits := c.Limits()
	limits.MaxAge = 5*time.Minute + 30*time.Second
	c.SetLimits(limits)
	require.Equal(t, time.Duration(0), c.untilTooOld())
	c.tend()
	require.Equal(t, uint64(5), c.Stats().Lost[LostAge].Blocks)
	require.Equal(t, Sequence(6), c.Stats().FirstSeq)
	require.Equal(t, c.now.Add(-5*time.Minute).UnixNano(), c.OldestUnsent())
	require.Equal(t, 30*time.Second, c.untilTooOld())
	require.Equal(t, c.now.Add(-6*time.Minute).UnixNano(), c.Stats().Losses[0].Newest)
}

func TestPurgeIsDeclared(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	for range 5 {
		_, err := c.tryPut(30_000)
		require.NoError(t, err)
	}
	require.NoError(t, c.Ack(2))
	loss, err := c.Purge()
	require.NoError(t, err)
	require.Equal(t, uint64(3), loss.Blocks)
	require.Equal(t, int64(9), loss.Points)
	require.Equal(t, Sequence(3), loss.First)
	require.Equal(t, Sequence(5), loss.Last)
	require.Zero(t, c.Stats().UnsentBytes)
	require.Zero(t, c.OldestUnsent())
	loss, err = c.Purge()
	require.NoError(t, err)
	require.Zero(t, loss)
	last, err := c.tryPut(10)
	require.NoError(t, err)
	require.Equal(t, Sequence(6), last)
	require.NoError(t, c.Close())
	c.open(t)
	blocks := drain(t, c.Queue)
	require.Len(t, blocks, 1)
	require.Equal(t, Sequence(6), blocks[0].Sequence)
	require.Zero(t, c.Stats().Lost[LostCorrupt])
}
