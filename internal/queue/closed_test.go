package queue

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// TestAckedBesideClose closes a queue beside those who append: what was begun comes to its end before Close
// returns, since the files may be another's the next moment.
func TestAckedBesideClose(t *testing.T) {
	t.Parallel()
	for range count(100, 5000) {
		c := newClocked(t, Limits{})
		var changes, acked atomic.Int64
		c.disk.OnChange = func(simdisk.Op) { changes.Add(1) }
		begun := make(chan struct{}, 1)
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for {
					if _, err := c.tryPut(100); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("append: %v", err)
						}
						return
					}
					acked.Add(1)
					select {
					case begun <- struct{}{}:
					default:
					}
				}
			})
		}
		<-begun
		require.NoError(t, c.Close())
		at := changes.Load()
		writers.Wait()
		require.Equal(t, at, changes.Load(), "the disk was written to when the queue had closed")
		c.open(t)
		require.Len(t, drain(t, c.Queue), int(acked.Load()))
	}
}

// TestClosedQueueWritesNothing has those come late who were on their way when the queue closed: one who makes
// room for a group, and a reader that found something missing.
func TestClosedQueueWritesNothing(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 200_000, Policy: DropOldest})
	for range 10 {
		_, err := c.tryPut(10_000)
		require.NoError(t, err)
	}
	late := c.Queue
	require.NoError(t, late.Close())
	c.open(t)
	_, err := late.makeRoom(200_000)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, late.declare(Loss{Reason: LostCorrupt, First: 1, Last: 1, Blocks: 1}), ErrClosed)
	_, err = late.Purge()
	require.ErrorIs(t, err, ErrClosed)
	require.Empty(t, c.lost)
	require.NoError(t, c.Close())
	c.open(t)
	require.Len(t, drain(t, c.Queue), 10)
	require.Empty(t, c.Stats().Losses)
}
