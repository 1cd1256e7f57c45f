package queue

import (
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

func TestRefuseSaysWhichQueueIsFull(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 200_000})
	var err error
	n := 0
	for ; err == nil; n++ {
		_, err = c.tryPut(10_000)
	}
	var full *FullError
	require.ErrorAs(t, err, &full)
	require.Equal(t, "stream 7", full.Queue)
	require.Equal(t, c.ID(), full.ID)
	require.NotEmpty(t, Hint(err))
	require.Equal(t, 20, n, "nineteen fit")
	require.LessOrEqual(t, c.Stats().UnsentBytes, int64(200_000))
	require.Empty(t, c.Stats().Losses, "what was refused is not lost")
	require.Equal(t, uint64(1), c.Stats().Refused)

	require.NoError(t, c.Ack(1))
	_, err = c.tryPut(10_000)
	require.NoError(t, err, "an acknowledgement makes room at once")

	c.SetLimits(Limits{MaxBytes: 100_000})
	_, err = c.tryPut(10)
	require.Error(t, err)
	require.Len(t, drain(t, c.Queue), 19, "a lower limit drops nothing")
	c.SetLimits(Limits{MaxBytes: 400_000})
	_, err = c.tryPut(10)
	require.NoError(t, err)
	_, err = c.tryPut(500_000)
	require.ErrorAs(t, err, &full)
	require.True(t, full.Never)
}

// A reservation is as good as written: others do not get its space, and it cannot
// fail for want of space any more.
func TestReservedSpaceIsTaken(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 30_000})
	g := Group{Compression: NoCompression}
	require.NoError(t, g.Add(KindOpaque, 1, noiseOf(20_000)))
	res, err := c.Reserve(&g)
	require.NoError(t, err)
	require.Equal(t, g.Size(), c.Stats().ReservedBytes)
	_, err = c.tryPut(20_000)
	require.Error(t, err)
	c.Release(res)
	require.Zero(t, c.Stats().ReservedBytes)
	_, err = c.tryPut(20_000)
	require.NoError(t, err)
	require.Zero(t, c.Stats().ReservedBytes)
	require.Equal(t, g.Size(), c.Stats().UnsentBytes)
}

// TestAckOnTheLastBlockOfASegment is the case that costs other queues a segment:
// the acknowledgement ends exactly where a segment does, and later ones exist.
func TestAckOnTheLastBlockOfASegment(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 512 << 10}) // segments of 64 KiB
	ends := map[Sequence]bool{}
	for range 60 {
		_, err := c.tryPut(10_000)
		if err != nil {
			break
		}
	}
	for _, s := range c.segs {
		ends[s.last] = true
	}
	require.Greater(t, len(ends), 5)
	var want Sequence
	for end := range c.newest + 1 {
		if !ends[end] {
			continue
		}
		require.NoError(t, c.Ack(end))
		c.tend()
		require.Equal(t, end, c.head.saved)
		want = end + 1
		blocks := drain(t, c.Queue)
		require.Len(t, blocks, int(c.newest-end))
		if len(blocks) > 0 {
			require.Equal(t, want, blocks[0].Sequence)
			require.Equal(t, want, c.Stats().FirstSeq)
		}
		require.NoError(t, c.Close())
		c.open(t)
		require.Len(t, drain(t, c.Queue), len(blocks))
	}
	require.Empty(t, c.Stats().Losses)
	require.Zero(t, c.Stats().UnsentBytes)
}

// TestUnsentIsExact compares what is counted with what is there, at every step.
func TestUnsentIsExact(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 512 << 10})
	sizes := map[Sequence]int64{}
	for i := range 40 {
		last, err := c.tryPut(100 + 311*i)
		require.NoError(t, err)
		sizes[last] = blockSize(100 + 311*i)
	}
	c.ahead.places = nil // every acknowledgement has to look
	c.tail.places = nil
	for seq := Sequence(1); seq <= 40; seq++ {
		require.NoError(t, c.Ack(seq))
		delete(sizes, seq)
		var sum int64
		for _, s := range sizes {
			sum += s
		}
		require.Equal(t, sum, c.Stats().UnsentBytes, "after %d", seq)
		if seq%7 == 0 {
			require.NoError(t, c.Close())
			c.open(t)
			require.Equal(t, sum, c.Stats().UnsentBytes, "after %d and a restart", seq)
		}
	}
	require.ErrorAs(t, c.Ack(41), new(*AckError))
	require.NoError(t, c.Ack(3), "the past is no error")
	require.Equal(t, Sequence(40), c.Cursor(), "and changes nothing")
}

// The largest backlog is stopped first, and the small ones go on.
func TestStoreStopsTheLargestBacklogFirst(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"store", "disk"} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			d := simdisk.New(1)
			cfg := StoreConfig{Dir: "/data", FS: d, Limits: StoreLimits{MaxBytes: 1 << 20}}
			if scope == "disk" {
				d.SetCapacity(4 << 20)
				cfg.Limits = StoreLimits{KeepFree: 3 << 20}
			}
			s, err := OpenStore(cfg)
			require.NoError(t, err)
			defer s.Close()
			open := func(name string) *clocked {
				q, err := s.Open(name, Config{manual: true})
				require.NoError(t, err)
				return &clocked{Queue: q}
			}
			dead, alive, idle := open("dead"), open("alive"), open("idle")
			var full *FullError
			for err = nil; err == nil; {
				_, err = dead.tryPut(10_000)
			}
			require.ErrorAs(t, err, &full)
			require.Equal(t, scope, full.Scope)
			require.Equal(t, "dead", full.Queue)
			n := 0
			for ; ; n++ {
				if _, err = alive.tryPut(5_000); err != nil {
					break
				}
			}
			require.ErrorAs(t, err, &full)
			require.Greater(t, n, 5, "the other one goes on for a while")
			require.Less(t, alive.Stats().UnsentBytes, dead.Stats().UnsentBytes)
			_, err = idle.tryPut(5_000)
			require.NoError(t, err, "and the empty one longer")
			stats, err := s.Stats()
			require.NoError(t, err)
			require.Equal(t, 3, stats.Queues)
			s.SetLimits(StoreLimits{})
			_, err = dead.tryPut(10_000)
			require.NoError(t, err, "limits change while it runs")
		})
	}
}

func TestStoreKeepsQueuesApart(t *testing.T) {
	t.Parallel()
	d := simdisk.New(1)
	s, err := OpenStore(StoreConfig{Dir: "/data", FS: d})
	require.NoError(t, err)
	for _, bad := range []string{"", "..", "a/b", ".x", "lock"} {
		_, err := s.Open(bad, Config{})
		require.Error(t, err, bad)
	}
	a, err := s.Open("a", Config{manual: true})
	require.NoError(t, err)
	_, err = s.Open("a", Config{manual: true})
	require.Error(t, err)
	put(t, a, "x")
	require.NoError(t, a.Close())
	// An unreadable queue is an error of that one alone.
	d.Damage("/data/a/cursor", func(b []byte) []byte { b[8] = 9; sealFileHeadAs(b, 9); return b })
	_, err = s.Open("a", Config{manual: true})
	var version *VersionError
	require.ErrorAs(t, err, &version)
	require.NotEmpty(t, Hint(err))
	b, err := s.Open("b", Config{manual: true})
	require.NoError(t, err)
	require.NotEqual(t, a.ID(), b.ID())
	names, err := s.List()
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, names)
	require.Error(t, s.Delete("b"))
	require.NoError(t, s.Delete("a"))
	require.NoError(t, s.Delete("a"))
	_, err = OpenStore(StoreConfig{Dir: "/data", FS: d})
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
	_, err = Open(Config{Dir: "/data/b", FS: d})
	require.ErrorAs(t, err, &locked, "the store's lock covers its queues")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	again, err := s.Open("b", Config{})
	require.Nil(t, again)
	require.True(t, errors.Is(err, ErrClosed))
	alone, err := Open(Config{Dir: "/data/b", FS: d, manual: true})
	require.NoError(t, err)
	_, err = Open(Config{Dir: "/data/b", FS: d})
	require.ErrorAs(t, err, &locked)
	_, err = OpenStore(StoreConfig{Dir: "/data", FS: d})
	require.ErrorAs(t, err, &locked)
	require.NoError(t, alone.Close())
}

func TestMessagesSayWhatAndWhere(t *testing.T) {
	t.Parallel()
	e := &CorruptionError{Dir: "/d", Segment: "s", Offset: 7, Length: 9, Reason: "x"}
	require.True(t, strings.HasPrefix(e.Error(), "queue: damaged: /d/s at offset 7 (9 bytes)"))
	require.NotEmpty(t, Hint(errors.Wrap(e, "y")))
	require.Empty(t, Hint(errors.New("z")))
}
