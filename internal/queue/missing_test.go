package queue

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNothingSilentWhenAllSegmentsAreGone removes every segment of a queue that was closed properly.
func TestNothingSilentWhenAllSegmentsAreGone(t *testing.T) {
	t.Parallel()
	for name, acked := range map[string]Sequence{"unsent": 2, "all sent": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			q, err := Open(Config{Dir: dir})
			require.NoError(t, err)
			for range 5 {
				var g Group
				require.NoError(t, g.Add(KindOpaque, 3, []byte("payload")))
				r, err := q.Reserve(&g)
				require.NoError(t, err)
				_, _, err = q.Append(t.Context(), r, &g)
				require.NoError(t, err)
			}
			require.NoError(t, q.Ack(acked))
			if acked == 5 {
				require.NoError(t, q.SkipTo(100)) // a gap is no loss
			}
			require.NoError(t, q.Close())
			segments, err := filepath.Glob(filepath.Join(dir, "*.seg"))
			require.NoError(t, err)
			for _, s := range segments {
				require.NoError(t, os.Remove(s))
			}
			var lost []Loss
			for range 2 { // what is declared once is not declared again
				q, err = Open(Config{Dir: dir, Events: Events{Lost: func(x Loss) { lost = append(lost, x) }}})
				require.NoError(t, err)
				require.NoError(t, q.Close())
			}
			if acked == 5 {
				require.Empty(t, lost)
				return
			}
			require.Len(t, lost, 1)
			require.Equal(t, uint64(3), lost[0].Blocks)
			require.Equal(t, Sequence(3), lost[0].First)
			require.Equal(t, Sequence(5), lost[0].Last)
		})
	}
}

// TestNothingSilentWhenTheNewestSegmentsAreGone removes all segments but the oldest, and
// of those that are gone some begin behind a gap.
func TestNothingSilentWhenTheNewestSegmentsAreGone(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		c := newClocked(t, Limits{})
		put(t, c.Queue, "1", "2")
		require.NoError(t, c.SkipTo(10))
		put(t, c.Queue, "11", "12", "13")
		require.NoError(t, c.SkipTo(20))
		put(t, c.Queue, "21")
		require.NoError(t, c.SkipTo(30)) // saves the cursor
		left := c.disk.Clone()
		require.NoError(t, c.Close())
		if !killed {
			left = c.disk
		}
		left.Delete("/q/" + segmentName(11, 0))
		left.Delete("/q/" + segmentName(21, 0))
		c.disk, c.cfg.FS = left, left
		rep, err := Inspect(c.cfg, true)
		require.NoError(t, err)
		require.Equal(t, uint64(4), rep.Missing, "%+v", rep.Problems)
		c.open(t)
		require.Len(t, drain(t, c.Queue), 2)
		first, _ := put(t, c.Queue, "new")
		require.Greater(t, first, Sequence(30))
		require.Len(t, drain(t, c.Queue), 3)
		require.Equal(t, uint64(4), c.Stats().Lost[LostCorrupt].Blocks)
		require.NoError(t, c.Ack(first))
		require.NoError(t, c.Close())
		c.open(t)
		require.Equal(t, uint64(4), c.Stats().Lost[LostCorrupt].Blocks, "it is declared once")
		require.NoError(t, c.Close())
	}
}

// TestRepairTouchesNothingThatIsNoQueue gives repair the directory above.
func TestRepairTouchesNothingThatIsNoQueue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte("secret"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "replicationq"), 0o700))
	var none *NoQueueError
	_, err := Repair(Config{Dir: dir})
	require.ErrorAs(t, err, &none)
	_, err = Inspect(Config{Dir: dir}, true)
	require.ErrorAs(t, err, &none)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
}
