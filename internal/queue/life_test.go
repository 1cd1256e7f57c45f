package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// TestConcurrentAppends: many writers, one reader that acknowledges; everything
// arrives once, whole, in the order of its sequences, and syncs are shared.
func TestConcurrentAppends(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 4 << 20})
	const writers, each = 16, 50
	var syncing atomic.Int64
	c.disk.OnChange = func(op simdisk.Op) {
		if op.Kind == "sync" {
			syncing.Add(1)
		}
	}
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				if _, err := c.tryPut(700); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	r, err := c.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	var buf []byte
	for i := range writers * each {
		b, err := r.NextInto(t.Context(), buf)
		require.NoError(t, err)
		buf = b.Payload[:0]
		require.Equal(t, Sequence(i+1), b.Sequence)
		require.Len(t, b.Payload, 700)
		require.NoError(t, c.Ack(b.Sequence))
	}
	wg.Wait()
	require.Zero(t, c.Stats().UnsentBytes)
	t.Logf("%d groups, %d syncs", writers*each, syncing.Load())
}

// TestNewestIsReadableAtOnce: a waiting reader is woken by the append itself; there
// is no timer that could make up for a lost wake-up.
func TestNewestIsReadableAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, err := Open(Config{Dir: "/q", FS: simdisk.New(1)})
		require.NoError(t, err)
		r, err := q.NewReader(0)
		require.NoError(t, err)
		got := make(chan Block)
		go func() {
			defer close(got)
			for {
				b, err := r.Next(context.Background())
				if err != nil {
					return
				}
				got <- b
			}
		}()
		begin := time.Now()
		for i := range 100 {
			put(t, q, "x")
			require.Equal(t, Sequence(i+1), (<-got).Sequence)
		}
		require.Equal(t, begin, time.Now(), "nobody waited")
		require.NoError(t, q.Close(), "closing ends readers")
		<-got
		require.NoError(t, r.Close())
	})
}

// TestIdleQueueHoldsNothing: no open file, and no space on disk once all is sent.
func TestIdleQueueHoldsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := simdisk.New(1)
		s, err := OpenStore(StoreConfig{Dir: "/data", FS: d})
		require.NoError(t, err)
		q, err := s.Open("a", Config{})
		require.NoError(t, err)
		r, err := q.NewReader(0)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		put(t, q, "x")
		b, err := r.Next(ctx)
		require.NoError(t, err)
		done := make(chan error)
		go func() {
			_, err := r.Next(ctx)
			done <- err
		}()
		synctest.Wait()
		require.Equal(t, 2, d.Handles(), "a writer and a reader at work")
		time.Sleep(15 * time.Second) // on the clock of the bubble
		require.Zero(t, d.Handles())
		require.Equal(t, 1, q.Stats().Segments, "unsent data stays")
		put(t, q, "y")
		require.NoError(t, <-done)
		time.Sleep(15 * time.Second)
		require.NoError(t, q.Ack(b.Sequence+1), "while it is idle")
		go func() {
			_, err := r.Next(ctx)
			done <- err
		}()
		time.Sleep(15 * time.Second)
		require.Zero(t, d.Handles())
		require.Zero(t, q.Stats().Segments)
		require.Zero(t, q.Stats().DiskBytes)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, r.Close())
		first, _ := put(t, q, "z")
		require.Equal(t, Sequence(3), first, "numbers go on")
		require.NoError(t, s.Close())
	})
}

// TestCursorIsSavedSoon: an acknowledgement is durable within CursorEvery, without
// anything else happening.
func TestCursorIsSavedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := simdisk.New(1)
		q, err := Open(Config{Dir: "/q", FS: d, CursorEvery: 2 * time.Second})
		require.NoError(t, err)
		put(t, q, "x")
		put(t, q, "y")
		time.Sleep(time.Minute)
		require.NoError(t, q.Ack(1))
		time.Sleep(2*time.Second + time.Millisecond)
		after, err := Open(Config{Dir: "/q", FS: d.Crash(7), manual: true})
		require.NoError(t, err)
		require.Equal(t, Sequence(1), after.Cursor())
		require.NoError(t, after.Close())
		require.NoError(t, q.Close())
	})
}

// TestIntervalSyncsInTime: with SyncInterval what is older than the interval is
// durable.
func TestIntervalSyncsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := simdisk.New(1)
		q, err := Open(Config{Dir: "/q", FS: d, Sync: SyncInterval, SyncEvery: time.Second})
		require.NoError(t, err)
		for range 5 {
			put(t, q, "x")
		}
		time.Sleep(time.Second + 100*time.Millisecond)
		for seed := range uint64(20) {
			after, err := Open(Config{Dir: "/q", FS: d.Crash(seed), manual: true})
			require.NoError(t, err)
			require.Len(t, drain(t, after), 5)
			require.NoError(t, after.Close())
		}
		require.NoError(t, q.Close())
	})
}

func TestCancelledAppend(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var g Group
	require.NoError(t, g.Add(KindOpaque, 1, []byte("x")))
	res, err := c.Reserve(&g)
	require.NoError(t, err)
	_, _, err = c.Append(ctx, res, &g)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, c.Stats().ReservedBytes)
	require.Empty(t, drain(t, c.Queue))

	// One that waits behind a slow disk can be called off; the one that is being
	// written cannot.
	started, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.disk.OnChange = func(op simdisk.Op) {
		if op.Kind == "sync" {
			once.Do(func() { close(started); <-goOn })
		}
	}
	errs := make(chan error, 2)
	go func() { _, err := c.tryPut(10); errs <- err }()
	<-started
	ctx, cancel = context.WithCancel(t.Context())
	res, err = c.Reserve(&g)
	require.NoError(t, err)
	go func() { _, _, err := c.Append(ctx, res, &g); errs <- err }()
	for {
		c.mu.Lock()
		n := len(c.pending)
		c.mu.Unlock()
		if n == 1 {
			break
		}
		cancelled := ctx.Err()
		require.NoError(t, cancelled)
	}
	cancel()
	require.ErrorIs(t, <-errs, context.Canceled)
	close(goOn)
	require.NoError(t, <-errs)
	require.Len(t, drain(t, c.Queue), 1)
	require.Zero(t, c.Stats().ReservedBytes)
}

func TestClosedQueue(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	r, err := c.NewReader(0)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	_, err = r.Next(t.Context())
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, r.Close())
	_, err = r.Next(t.Context())
	require.ErrorIs(t, err, ErrClosed)
	_, err = c.tryPut(1)
	require.ErrorIs(t, err, ErrClosed)
	_, err = c.NewReader(0)
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, c.Ack(1), ErrClosed)
	_, err = c.Purge()
	require.ErrorIs(t, err, ErrClosed)
	require.Zero(t, c.disk.Handles())
}
