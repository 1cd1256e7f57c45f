package queue

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// write makes a directory of a snapshot.
func write(t *testing.T, s *Snapshot) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range s.Parts() {
		require.True(t, IsSnapshotName(p.Name), p.Name)
		content, err := io.ReadAll(p.Content)
		require.NoError(t, err)
		require.Len(t, content, int(p.Size))
		require.NoError(t, os.WriteFile(filepath.Join(dir, p.Name), content, 0o600))
	}
	require.NoError(t, s.Close())
	return dir
}

// contents returns the payloads that a queue delivers, until it has caught up.
func contents(t *testing.T, dir string) (q *Queue, payloads []string) {
	t.Helper()
	q, err := Open(Config{Dir: dir, Limits: Limits{MaxBytes: 64 << 20}})
	require.NoError(t, err)
	r, err := q.NewReader(0)
	require.NoError(t, err)
	for q.Stats().UnsentBytes > 0 {
		b, err := r.Next(t.Context())
		require.NoError(t, err)
		payloads = append(payloads, string(b.Payload))
		if b.Last {
			require.NoError(t, q.Ack(b.Sequence))
		}
	}
	require.NoError(t, r.Close())
	return q, payloads
}

// TestAckedSurvivesInASnapshot takes snapshots while several write and one reads and acknowledges. Each
// copy has all that was answered before and not acknowledged, in order, each group whole, and counts no loss.
func TestAckedSurvivesInASnapshot(t *testing.T) {
	t.Parallel()
	for _, mode := range []SyncMode{SyncAlways, SyncInterval, SyncNever} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			q, err := Open(Config{Dir: t.TempDir(), Sync: mode, CursorEvery: time.Millisecond, Limits: Limits{MaxBytes: 1 << 20}})
			require.NoError(t, err)
			var answered, settled atomic.Int64 // the newest number, of one writer; groups are in order
			ctx, cancel := context.WithCancel(t.Context())
			var work sync.WaitGroup
			filler := make([]byte, 3000)
			for i := range filler {
				filler[i] = byte('a' + i*i%23)
			}
			work.Go(func() {
				for n := int64(1); ctx.Err() == nil; n++ {
					var g Group
					for part := range 2 {
						if err := g.Add(KindLineProtocol, 1, fmt.Appendf(nil, "%d %d %s", n, part, filler[:1000+n*37%2000])); err != nil {
							t.Error(err)
							return
						}
					}
					r, err := q.Reserve(&g)
					for err != nil && ctx.Err() == nil {
						<-time.After(time.Millisecond) // full, until the reader has come along
						r, err = q.Reserve(&g)
					}
					if ctx.Err() != nil {
						if err == nil {
							q.Release(r)
						}
						return
					}
					if _, _, err := q.Append(context.Background(), r, &g); err != nil {
						t.Error(err)
						return
					}
					answered.Store(n)
				}
			})
			work.Go(func() {
				r, err := q.NewReader(0)
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = r.Close() }()
				for {
					b, err := r.Next(ctx)
					if err != nil {
						return
					}
					if !b.Last || b.Sequence%14 != 0 {
						continue // what is unsent grows to some length
					}
					var n int64
					_, _ = fmt.Sscan(string(b.Payload[:20]), &n)
					settled.Store(n) // before, so that a copy may lack no more than this says
					if err := q.Ack(b.Sequence); err != nil {
						return
					}
				}
			})
			for range 25 {
				from := answered.Load()
				for answered.Load() < from+20 && !t.Failed() {
					<-time.After(time.Millisecond)
				}
				before := answered.Load()
				s, err := q.Snapshot()
				require.NoError(t, err)
				gone := settled.Load()
				dir := write(t, s)
				restored, payloads := contents(t, dir)
				require.Equal(t, q.ID(), restored.ID())
				require.Empty(t, restored.Stats().Lost, "a copy declares losses")
				require.NoError(t, restored.Close())
				want, part := int64(0), 0
				for _, p := range payloads {
					var n int64
					var k int
					_, err := fmt.Sscan(p[:min(len(p), 24)], &n, &k)
					require.NoError(t, err)
					if want == 0 {
						want = n
						require.LessOrEqual(t, n, gone+1, "the copy begins after what was acknowledged")
					}
					require.Equal(t, want, n, "out of order, or missing")
					require.Equal(t, part, k, "half a group")
					if part = 1 - part; part == 0 {
						want++
					}
				}
				require.Zero(t, part, "the last group is not whole")
				if len(payloads) > 0 {
					require.Greater(t, want, before, "the copy lacks what was answered before it: %d of %d", want-1, before)
				} else {
					require.GreaterOrEqual(t, gone, before)
				}
			}
			cancel()
			work.Wait()
			require.NoError(t, q.Close())
			_, err = q.Snapshot()
			require.ErrorIs(t, err, ErrClosed)
		})
	}
}

// TestSnapshotKeepsLossesAndNumbers shows that a copy knows what was lost, and goes on behind the numbers
// that it is told to skip.
func TestSnapshotKeepsLossesAndNumbers(t *testing.T) {
	t.Parallel()
	q, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	for i := range 5 {
		put(t, q, "m v="+strconv.Itoa(i))
	}
	loss, err := q.Purge()
	require.NoError(t, err)
	put(t, q, "kept")
	s, err := q.Snapshot()
	require.NoError(t, err)
	require.NoError(t, q.Close())
	dir := write(t, s)
	c, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	require.Equal(t, loss.Points, c.Stats().Lost[LostPurge].Points)
	require.NoError(t, c.SkipTo(1<<50))
	first, _ := put(t, c, "new")
	require.Greater(t, first, Sequence(1<<50))
	require.NoError(t, c.Close())
	c, payloads := contents(t, dir)
	require.Equal(t, []string{"kept", "new"}, payloads)
	require.NoError(t, c.Close())
}
