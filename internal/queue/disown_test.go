package queue

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// TestDisownedNumbersStayDisowned shows that what was disowned is so for ever, and that nothing else is: not
// what was there before, and not what comes after.
func TestDisownedNumbersStayDisowned(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	q, err := Open(cfg)
	require.NoError(t, err)
	put(t, q, "a", "b")
	require.NoError(t, q.Disown(1000))
	require.NoError(t, q.Disown(1000), "again, as after a crash")
	first, last := put(t, q, "c", "d")
	require.Equal(t, Sequence(1001), first)
	require.NoError(t, q.Disown(2000))
	put(t, q, "e")
	for range 2 {
		for seq, want := range map[Sequence]bool{
			0: false, 2: false, 3: true, 1000: true, first: false, last: false, last + 1: true, 2000: true, 2001: false, 2002: false,
		} {
			require.Equal(t, want, q.Disowned(seq), "%d", seq)
		}
		require.NoError(t, q.Close())
		q, err = Open(cfg)
		require.NoError(t, err)
	}
	require.Equal(t, []Sequence{1, 2, 1001, 1002, 2001}, delivered(t, q, 2001))
	require.Empty(t, q.Stats().Losses)
	require.NoError(t, q.Close())
}

// TestDisownedThatHasBeenGivenMeanwhile shows that the number is disowned although the queue has come to it.
func TestDisownedThatHasBeenGivenMeanwhile(t *testing.T) {
	t.Parallel()
	q, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	put(t, q, "a", "b", "c")
	require.NoError(t, q.Disown(2))
	require.False(t, q.Disowned(1))
	require.True(t, q.Disowned(2))
	require.False(t, q.Disowned(3))
	require.Equal(t, Sequence(4), q.Next())
	require.Error(t, q.Disown(maxSkip+1))
	require.NoError(t, q.Close())
}

// TestDisownSurvivesPowerLoss fails each of its steps, and cuts the power the moment it has returned.
func TestDisownSurvivesPowerLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		d := simdisk.New(seed)
		cfg := Config{Dir: "/q", FS: d, Sync: SyncMode(seed % 3), manual: true}
		q, err := Open(cfg)
		require.NoError(t, err)
		put(t, q, "before")
		renames := uint64(0)
		d.OnFault = func(op simdisk.Op) *simdisk.Fault {
			if op.Kind == "rename" {
				if renames++; renames == seed%3 {
					return &simdisk.Fault{Err: syscall.EIO}
				}
			}
			return nil
		}
		if err := q.Disown(100); seed%3 == 0 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, syscall.EIO)
			require.NoError(t, q.Disown(100))
		}
		after := d.Crash(seed)
		put(t, q, "after")
		later := d.Crash(seed + 1)
		require.NoError(t, q.Close())
		for _, image := range []*simdisk.Disk{after, later} {
			cfg.FS = image
			q, err = Open(cfg)
			require.NoError(t, err)
			require.True(t, q.Disowned(100), "seed %d", seed)
			require.False(t, q.Disowned(101), "seed %d", seed)
			require.Greater(t, q.Next(), Sequence(100), "seed %d", seed)
			require.NoError(t, q.Close())
		}
	}
}
