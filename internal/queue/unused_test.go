package queue

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

type ranges = [][2]Sequence

func TestUnusedNumbers(t *testing.T) {
	t.Parallel()
	var l ledger
	require.False(t, l.skip(4, 5), "there is no gap")
	require.True(t, l.skip(4, 9))
	require.False(t, l.skip(4, 9))
	require.True(t, l.skip(4, 12), "nothing was kept of what was to begin with 9")
	require.Equal(t, ranges{{5, 11}}, l.Unused)
	require.True(t, l.skip(20, 31))
	require.Equal(t, ranges{{5, 11}, {21, 30}}, l.Unused)
	require.Equal(t, ranges{{3, 4}, {12, 20}, {31, 40}}, l.used(3, 40))
	require.Equal(t, ranges{{12, 12}}, l.used(6, 12))
	require.Empty(t, l.used(22, 25))
	require.Equal(t, Sequence(4), l.lastUsed(11))
	require.Equal(t, Sequence(12), l.lastUsed(12))
	require.True(t, l.skip(25, 26), "25 is in use, so what was noted is void")
	require.Equal(t, ranges{{5, 11}}, l.Unused)

	for i := range Sequence(2 * maxUnused) {
		require.True(t, l.skip(100+10*i, 105+10*i))
	}
	require.Len(t, l.Unused, maxUnused)
	require.Equal(t, Sequence(100+10*(2*maxUnused-1)), l.Unused[maxUnused-1][0]-1, "the newest are kept")
}

// failedWrite makes writes to segments fail that have reached the disk, and what would
// clean up behind them.
func failedWrite(create bool) func(simdisk.Op) *simdisk.Fault {
	return func(op simdisk.Op) *simdisk.Fault {
		segment := strings.HasSuffix(op.Path, segmentSuffix)
		if segment && op.Kind == "write" || op.Kind == "truncate" || segment && create && op.Kind == "create" {
			return &simdisk.Fault{Err: syscall.EIO, After: op.Kind == "write"}
		}
		return nil
	}
}

// TestNothingSilentWhenAFailedWriteIsFoundAfterAll: a write that failed had reached the
// disk, and the process died before there was a newer segment. Its number was noted as
// passed over, but it is in use.
func TestNothingSilentWhenAFailedWriteIsFoundAfterAll(t *testing.T) {
	t.Parallel()
	for _, more := range []bool{false, true} {
		c := newClocked(t, Limits{})
		put(t, c.Queue, "one", "two")
		c.disk.OnFault = failedWrite(true)
		for range 2 { // the second one notes the gap, and cannot begin its segment
			_, err := c.tryPut(100)
			require.ErrorIs(t, err, syscall.EIO)
		}
		require.Equal(t, ranges{{3, 3}}, c.books.ledger.Unused)
		left := c.disk.Clone()
		c.disk.OnFault = nil
		require.NoError(t, c.Close())
		c.disk, c.cfg.FS = left, left
		c.open(t)
		require.Len(t, drain(t, c.Queue), 3, "it is found")
		rest := 2
		if more {
			put(t, c.Queue, "four")
			rest++
		}
		require.NoError(t, c.Close())
		at := locate(c.disk, t)[3]
		c.disk.Damage(at.file, func(b []byte) []byte { b[at.off+blockHeadSize] ^= 1; return b })
		c.open(t)
		require.Len(t, drain(t, c.Queue), rest)
		losses := c.Stats().Losses
		require.Len(t, losses, 1)
		require.Equal(t, Sequence(3), losses[0].First)
		require.Equal(t, uint64(1), losses[0].Blocks)
	}
}

// TestLeftoversStayDeadWithoutAHeader: the header that says where the valid blocks end is
// damaged, and what a failed write left behind is not delivered all the same.
func TestLeftoversStayDeadWithoutAHeader(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	put(t, c.Queue, "one", "two")
	c.disk.OnFault = failedWrite(false)
	_, err := c.tryPut(100)
	require.ErrorIs(t, err, syscall.EIO)
	c.disk.OnFault = nil
	put(t, c.Queue, "four")
	require.NoError(t, c.Close())
	require.Contains(t, locate(c.disk, t), Sequence(3))
	c.disk.Damage("/q/"+segmentName(4, 0), func(b []byte) []byte {
		clear(b[:dataStart])
		return b
	})
	c.open(t)
	blocks := drain(t, c.Queue)
	require.Len(t, blocks, 3)
	require.Equal(t, Sequence(4), blocks[2].Sequence)
	require.Empty(t, c.Stats().Losses)
}
