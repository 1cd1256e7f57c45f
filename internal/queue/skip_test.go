package queue

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// delivered returns the sequences that a new reader delivers until the one that is given.
func delivered(t *testing.T, q *Queue, until Sequence) []Sequence {
	t.Helper()
	r, err := q.NewReader(0)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	var list []Sequence
	for len(list) == 0 || list[len(list)-1] < until {
		b, err := r.Next(t.Context())
		require.NoError(t, err)
		list = append(list, b.Sequence)
	}
	return list
}

func TestSkipToHoldsAcrossReopening(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir()}
	q, err := Open(cfg)
	require.NoError(t, err)
	require.Equal(t, Sequence(1), q.Next())
	put(t, q, "a", "b")
	require.Equal(t, Sequence(3), q.Next())
	require.NoError(t, q.SkipTo(1000))
	require.Equal(t, Sequence(1001), q.Next())
	require.Equal(t, Sequence(2), q.Newest())
	require.NoError(t, q.Close())

	q, err = Open(cfg)
	require.NoError(t, err)
	require.Equal(t, Sequence(1001), q.Next())
	first, last := put(t, q, "c", "d")
	require.Equal(t, Sequence(1001), first)
	require.Equal(t, last+1, q.Next())
	require.NoError(t, q.SkipTo(5000))
	put(t, q, "e")
	require.Equal(t, []Sequence{1, 2, 1001, 1002, 5001}, delivered(t, q, 5001))
	require.NoError(t, q.Ack(5001))
	require.Empty(t, q.Stats().Losses, "what was skipped is no loss")
	require.NoError(t, q.Close())
	require.ErrorIs(t, q.SkipTo(9000), ErrClosed)

	q, err = Open(cfg)
	require.NoError(t, err)
	require.Equal(t, Sequence(5002), q.Next())
	require.Empty(t, q.Stats().Losses)
	require.NoError(t, q.Close())
}

func TestSkipToNeverGoesBack(t *testing.T) {
	t.Parallel()
	q, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	require.NoError(t, q.SkipTo(10))
	require.NoError(t, q.SkipTo(3))
	require.NoError(t, q.SkipTo(0))
	first, _ := put(t, q, "a")
	require.Equal(t, Sequence(11), first)
	require.NoError(t, q.SkipTo(11))
	require.NoError(t, q.SkipTo(10))
	first, _ = put(t, q, "b")
	require.Equal(t, Sequence(12), first)
	require.Error(t, q.SkipTo(maxSkip+1))
	require.Equal(t, Sequence(13), q.Next())
	require.NoError(t, q.Close())
}

// TestSkipToSurvivesPowerLoss cuts the power the moment SkipTo has returned, with and without blocks before,
// in every mode.
func TestSkipToSurvivesPowerLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		d := simdisk.New(seed)
		cfg := Config{Dir: "/q", FS: d, Sync: SyncMode(seed % 3), manual: true}
		q, err := Open(cfg)
		require.NoError(t, err)
		for range seed % 5 {
			put(t, q, "before")
		}
		require.NoError(t, q.SkipTo(100_000))
		after := d.Crash(seed)
		put(t, q, "after")
		later := d.Crash(seed + 1)
		require.NoError(t, q.Close())
		for _, image := range []*simdisk.Disk{after, later} {
			cfg.FS = image
			q, err = Open(cfg)
			require.NoError(t, err)
			require.Greater(t, q.Next(), Sequence(100_000), "seed %d", seed)
			first, _ := put(t, q, "new")
			require.Greater(t, first, Sequence(100_000), "seed %d", seed)
			require.NoError(t, q.Close())
		}
	}
}

// TestSkipToThatFails shows that a skip that could not be made durable is an error, and can be tried again.
func TestSkipToThatFails(t *testing.T) {
	t.Parallel()
	d := simdisk.New(1)
	q, err := Open(Config{Dir: "/q", FS: d, manual: true})
	require.NoError(t, err)
	put(t, q, "a")
	d.OnFault = func(op simdisk.Op) *simdisk.Fault {
		if op.Kind == "rename" {
			return &simdisk.Fault{Err: syscall.EIO}
		}
		return nil
	}
	require.ErrorIs(t, q.SkipTo(50), syscall.EIO)
	require.ErrorIs(t, q.SkipTo(50), syscall.EIO, "it is not durable yet, though the memory is ahead")
	d.OnFault = nil
	require.NoError(t, q.SkipTo(50))
	put(t, q, "b")
	require.Equal(t, []Sequence{1, 51}, delivered(t, q, 51))
	require.NoError(t, q.Close())
}

func TestSkipToBesideAppends(t *testing.T) {
	t.Parallel()
	q, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	const appenders, each = 8, 50
	var mu sync.Mutex
	seen := map[Sequence]bool{}
	var wg sync.WaitGroup
	for range appenders {
		wg.Go(func() {
			for i := range each {
				before := q.Next()
				var g Group
				_ = g.Add(KindOpaque, 1, fmt.Append(nil, i))
				_ = g.Add(KindOpaque, 1, fmt.Append(nil, i))
				r, err := q.Reserve(&g)
				if err != nil {
					t.Error(err)
					return
				}
				first, last, err := q.Append(context.Background(), r, &g)
				if err != nil || last != first+1 || first < before {
					t.Errorf("got %d to %d, %v, where at least %d was next", first, last, err, before)
				}
				mu.Lock()
				if seen[first] || seen[last] {
					t.Errorf("%d or %d was used twice", first, last)
				}
				seen[first], seen[last] = true, true
				mu.Unlock()
			}
		})
	}
	wg.Go(func() {
		for i := range Sequence(40) {
			to := q.Next() + 10*i
			if err := q.SkipTo(to); err != nil || q.Next() <= to {
				t.Errorf("skipped to %d, %v, and next is %d", to, err, q.Next())
			}
		}
	})
	wg.Wait()
	list := delivered(t, q, q.Newest())
	require.Len(t, list, 2*appenders*each)
	for _, s := range list {
		require.True(t, seen[s])
	}
	require.NoError(t, q.Ack(q.Newest()))
	require.Empty(t, q.Stats().Losses)
	require.Zero(t, q.Stats().UnsentBytes)
	require.NoError(t, q.Close())
}
