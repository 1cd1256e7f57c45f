package queue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFailuresOfAnyCall lets each single call fail, before or after it took
// effect, and looks whether anything is lost, doubled or stuck.
func TestFailuresOfAnyCall(t *testing.T) {
	t.Parallel()
	seeds(t, count(100, 3000), func(t *testing.T, seed uint64) bool {
		w := newWorld(t, seed)
		require.NoError(t, w.open())
		w.disk.OnFault = w.randomFault
		for range 80 {
			w.step()
		}
		w.disk.OnFault = nil
		w.verify(w.disk.Clone())
		require.NoError(t, w.r.Close())
		require.NoError(t, w.q.Close())
		require.Zero(t, w.disk.Handles(), "a file is left open")
		return true
	})
}

// TestModel does long random runs without failures: append, read, acknowledge,
// change limits, age, drop, purge, reopen, crash; and compares with what the
// world remembers.
func TestModel(t *testing.T) {
	t.Parallel()
	seeds(t, count(30, 2000), func(t *testing.T, seed uint64) bool {
		w := newWorld(t, seed)
		w.drops = seed%2 == 0
		require.NoError(t, w.open())
		for i := range 600 {
			w.step()
			if i%40 == 39 {
				w.verify(w.disk.Clone())
				w.count()
			}
			if i%150 == 149 {
				after := w.disk.Crash(seed + uint64(i))
				require.NoError(t, w.r.Close())
				_ = w.q.Close() // the old disk is forgotten
				w.crashed(after)
			}
		}
		require.NoError(t, w.r.Close())
		require.NoError(t, w.q.Close())
		return true
	})
}

// count compares the books with what is there.
func (w *world) count() {
	var bytes int64
	blocks := drain(w.t, w.q)
	oldest := int64(0)
	for i, b := range blocks {
		if i == 0 {
			oldest = b.Time
		}
		bytes += 1
	}
	got := w.q.OldestUnsent()
	require.LessOrEqual(w.t, got, w.now.UnixNano())
	if oldest <= w.now.UnixNano() {
		require.GreaterOrEqual(w.t, got, oldest)
	}
	if !w.setBack {
		require.Equal(w.t, oldest, got)
	}
	if len(blocks) == 0 {
		require.Zero(w.t, w.q.Stats().UnsentBytes)
		return
	}
	require.Equal(w.t, blocks[0].Sequence, w.q.Stats().FirstSeq)
	require.Equal(w.t, blocks[len(blocks)-1].Sequence, w.q.Stats().LastSeq)
	require.GreaterOrEqual(w.t, w.q.Stats().UnsentBytes, bytes*minBlockSize)
	require.Zero(w.t, w.q.Stats().Lost[LostCorrupt])
}
