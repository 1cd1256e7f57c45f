package queue

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// TestFailedSyncIsNotTriedAgain: after a failed sync the kernel may have dropped
// the pages, and would call the next one a success.
func TestFailedSyncIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	_, err := c.tryPut(1000)
	require.NoError(t, err)
	failing, after := "", 0
	c.disk.OnFault = func(op simdisk.Op) *simdisk.Fault {
		if op.Kind != "sync" || !strings.HasSuffix(op.Path, segmentSuffix) {
			return nil
		}
		if failing == "" {
			failing = op.Path
			return &simdisk.Fault{Err: syscall.EIO}
		}
		if op.Path == failing {
			after++
		}
		return nil
	}
	last, err := c.tryPut(1000)
	require.NoError(t, err, "the group is written again to another file")
	require.Equal(t, Sequence(2), last)
	_, err = c.tryPut(1000)
	require.NoError(t, err)
	require.NotEmpty(t, failing)
	require.Zero(t, after, "the file was synced again")
	require.Equal(t, uint64(1), c.Stats().FailedSyncs)
	c.disk.OnFault = nil
	require.Len(t, drain(t, c.Queue), 3)
	for seed := range uint64(50) {
		image := c.disk.Crash(seed)
		cfg := c.cfg
		cfg.FS = image
		q, err := Open(cfg)
		require.NoError(t, err)
		require.Len(t, drain(t, q), 3, "seed %d", seed)
		require.Empty(t, q.Stats().Lost[LostCorrupt])
		require.NoError(t, q.Close())
	}
}

// A disk whose every sync fails gives errors, and works again when it heals.
func TestSyncFailsForAWhile(t *testing.T) {
	t.Parallel()
	for _, mode := range []SyncMode{SyncAlways, SyncInterval} {
		c := newClocked(t, Limits{})
		c.SetSync(mode)
		_, err := c.tryPut(1000)
		require.NoError(t, err)
		_, err = c.tryPut(1000)
		require.NoError(t, err)
		c.disk.OnFault = func(op simdisk.Op) *simdisk.Fault {
			if op.Kind == "sync" {
				return &simdisk.Fault{Err: syscall.EIO}
			}
			return nil
		}
		c.tend()
		if mode == SyncAlways {
			for range 5 {
				_, err = c.tryPut(1000)
				require.ErrorIs(t, err, syscall.EIO)
			}
			require.Equal(t, uint64(5), c.Stats().FailedAppends)
		}
		c.disk.OnFault = nil
		_, err = c.tryPut(1000)
		require.NoError(t, err)
		require.Len(t, drain(t, c.Queue), 3)
		require.Empty(t, c.Stats().Losses)
	}
}

// TestFullDiskPoisonsNothing fills the device in the middle of a block, and goes
// on when there is room again.
func TestFullDiskPoisonsNothing(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	c.disk.SetCapacity(100_000)
	kept := 0
	for i := range 40 {
		if _, err := c.tryPut(3_000 + i); err == nil {
			kept++
		} else {
			require.ErrorIs(t, err, syscall.ENOSPC)
		}
	}
	require.Greater(t, kept, 20)
	require.Len(t, drain(t, c.Queue), kept)
	c.disk.SetCapacity(0)
	for range 10 {
		_, err := c.tryPut(3_000)
		require.NoError(t, err)
		kept++
	}
	require.Len(t, drain(t, c.Queue), kept)
	require.Zero(t, c.Stats().ReservedBytes)
	require.NoError(t, c.Close())
	c.open(t)
	require.Len(t, drain(t, c.Queue), kept)
	require.Empty(t, c.Stats().Losses)
}

// TestNewerVersionIsRefused, and a flipped bit in the version is not taken for one.
func TestNewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{cursorName, segmentName(1, 0)} {
		c := newClocked(t, Limits{})
		_, err := c.tryPut(10)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		d := c.disk.Clone()
		d.Damage(filepath.Join("/q", name), func(b []byte) []byte { sealFileHeadAs(b, 2); return b })
		cfg := c.cfg
		cfg.FS = d
		_, err = Open(cfg)
		var version *VersionError
		require.ErrorAs(t, err, &version, name)
		require.Equal(t, uint16(2), version.Version)
		d = c.disk.Clone()
		d.Damage(filepath.Join("/q", name), func(b []byte) []byte { b[8] = 2; return b })
		cfg.FS = d
		q, err := Open(cfg)
		require.NoError(t, err, name)
		require.Len(t, drain(t, q), 1)
		require.NoError(t, q.Close())
	}
}
