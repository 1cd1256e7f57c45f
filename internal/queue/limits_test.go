package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// clocked is a queue in memory with a clock that only the test moves.
type clocked struct {
	*Queue
	disk *simdisk.Disk
	now  time.Time
	cfg  Config
	lost []Loss
}

func newClocked(t *testing.T, l Limits) *clocked {
	t.Helper()
	c := &clocked{disk: simdisk.New(1), now: time.Unix(1_700_000_000, 0)}
	c.cfg = Config{
		Dir: "/q", Name: "stream 7", FS: c.disk, Limits: l, manual: true, Now: func() time.Time { return c.now },
		Events: Events{Lost: func(x Loss) { c.lost = append(c.lost, x) }},
	}
	c.open(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (c *clocked) open(t *testing.T) {
	t.Helper()
	q, err := Open(c.cfg)
	require.NoError(t, err)
	c.Queue = q
}

// tryPut appends a group of one block of so many bytes that cannot be compressed.
func (c *clocked) tryPut(size int) (Sequence, error) {
	g := Group{Compression: NoCompression}
	if err := g.Add(KindOpaque, 3, noiseOf(size)); err != nil {
		return 0, err
	}
	res, err := c.Reserve(&g)
	if err != nil {
		return 0, err
	}
	_, last, err := c.Append(nilCtx, res, &g)
	return last, err
}

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

func TestDropOldestDeclaresExactlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 600_000, Policy: DropOldest})
	for range 200 {
		_, err := c.tryPut(9_000)
		require.NoError(t, err)
		require.LessOrEqual(t, c.Stats().UnsentBytes, int64(600_000))
	}
	stats := c.Stats()
	require.LessOrEqual(t, stats.DiskBytes, int64(600_000*9/8+100_000))
	total := stats.Lost[LostOldest]
	blocks := drain(t, c.Queue)
	require.Equal(t, uint64(200-len(blocks)), total.Blocks)
	require.Equal(t, int64(3*(200-len(blocks))), total.Points)
	require.Equal(t, stats.Floor+1, blocks[0].Sequence)
	require.Len(t, stats.Losses, 1, "ranges that touch are one")
	require.True(t, stats.Losses[0].Exact)
	require.Equal(t, Sequence(1), stats.Losses[0].First)
	require.NotEmpty(t, c.lost)

	// It is not found again as damage.
	require.NoError(t, c.Close())
	c.open(t)
	require.Len(t, drain(t, c.Queue), len(blocks))
	require.Equal(t, stats.Lost, c.Stats().Lost)
	require.Equal(t, stats.Floor, c.Stats().Floor)
}

// A reader that stands in what is dropped goes on behind it.
func TestReaderPassesWhatWasDropped(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 600_000, Policy: DropOldest})
	for range 10 {
		_, err := c.tryPut(50_000)
		require.NoError(t, err)
	}
	r, err := c.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	b, err := r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, Sequence(1), b.Sequence)
	for range 20 {
		_, err := c.tryPut(50_000)
		require.NoError(t, err)
	}
	b, err = r.Next(t.Context())
	require.NoError(t, err)
	require.Equal(t, c.Stats().Floor+1, b.Sequence)
	require.NoError(t, c.Ack(1), "what was in the reader's hands may still be acknowledged")
	require.Zero(t, c.Stats().Lost[LostCorrupt])
}

// TestNothingSilentWithDropNewest writes to a full queue: what nobody kept is refused, what others kept is lost.
func TestNothingSilentWithDropNewest(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxBytes: 100_000, Policy: DropNewest})
	kept := 0
	g := Group{Compression: NoCompression}
	require.NoError(t, g.Add(KindOpaque, 3, noiseOf(9_900)))
	var out *LeftOutError
	for range 20 {
		if _, err := c.tryPut(9_900); err == nil {
			kept++
		} else {
			require.ErrorAs(t, err, &out)
			c.Decline(&g, true)
		}
	}
	require.Less(t, kept, 20)
	require.Equal(t, int64(3*(20-kept)), c.Stats().Lost[LostNewest].Points)
	require.Len(t, c.lost, 20-kept)
	_, err := c.tryPut(9_900)
	require.ErrorAs(t, err, &out)
	c.Decline(&g, false)
	require.Equal(t, uint64(1), c.Stats().Refused)
	require.Equal(t, int64(3*(20-kept)), c.Stats().Lost[LostNewest].Points, "a refused write is not lost")
	c.tend()
	require.NoError(t, c.Close())
	c.open(t)
	require.Equal(t, int64(3*(20-kept)), c.Stats().Lost[LostNewest].Points, "the record is durable")
	require.Len(t, drain(t, c.Queue), kept)
}

func TestAgeIsPerBlock(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	for range 10 {
		_, err := c.tryPut(100)
		require.NoError(t, err)
		c.now = c.now.Add(time.Minute)
	}
	c.tend()
	require.Empty(t, c.Stats().Losses, "as old as it gets")
	limits := c.Limits()
	limits.MaxAge = 5*time.Minute + 30*time.Second
	c.SetLimits(limits)
	require.Equal(t, time.Duration(0), c.untilTooOld())
	c.tend()
	require.Equal(t, uint64(5), c.Stats().Lost[LostAge].Blocks)
	require.Equal(t, Sequence(6), c.Stats().FirstSeq)
	require.Equal(t, c.now.Add(-5*time.Minute).UnixNano(), c.OldestUnsent())
	require.Equal(t, 30*time.Second, c.untilTooOld())
	require.Equal(t, c.now.Add(-6*time.Minute).UnixNano(), c.Stats().Losses[0].Newest)
}

// TestClockSetBack shows that times never go back, neither within a process nor
// over a restart.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	_, err := c.tryPut(1)
	require.NoError(t, err)
	newest := c.now.UnixNano()
	c.now = c.now.Add(-time.Hour)
	_, err = c.tryPut(1)
	require.NoError(t, err)
	require.NoError(t, c.Close())
	c.open(t)
	_, err = c.tryPut(1)
	require.NoError(t, err)
	for _, b := range drain(t, c.Queue) {
		require.Equal(t, newest, b.Time)
	}
	require.NoError(t, c.Ack(3))
	c.active = time.Time{}
	c.tend()
	require.Zero(t, c.Stats().Segments, "nothing is left on disk")
	require.NoError(t, c.Close())
	c.open(t)
	_, err = c.tryPut(1)
	require.NoError(t, err)
	require.Equal(t, newest, drain(t, c.Queue)[0].Time)
}

func TestPurgeIsDeclared(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	for range 5 {
		_, err := c.tryPut(30_000)
		require.NoError(t, err)
	}
	require.NoError(t, c.Ack(2))
	loss, err := c.Purge()
	require.NoError(t, err)
	require.Equal(t, uint64(3), loss.Blocks)
	require.Equal(t, int64(9), loss.Points)
	require.Equal(t, Sequence(3), loss.First)
	require.Equal(t, Sequence(5), loss.Last)
	require.Zero(t, c.Stats().UnsentBytes)
	require.Zero(t, c.OldestUnsent())
	loss, err = c.Purge()
	require.NoError(t, err)
	require.Zero(t, loss)
	last, err := c.tryPut(10)
	require.NoError(t, err)
	require.Equal(t, Sequence(6), last)
	require.NoError(t, c.Close())
	c.open(t)
	blocks := drain(t, c.Queue)
	require.Len(t, blocks, 1)
	require.Equal(t, Sequence(6), blocks[0].Sequence)
	require.Zero(t, c.Stats().Lost[LostCorrupt])
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
