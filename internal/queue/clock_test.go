package queue

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"
)

// putAt appends a small group under a clock that says so.
func (c *clocked) putAt(t *testing.T, clock time.Time) Sequence {
	t.Helper()
	c.now = clock
	seq, err := c.tryPut(100)
	require.NoError(t, err)
	return seq
}

func (c *clocked) lostToAge() uint64 { return c.Stats().Lost[LostAge].Blocks }

// TestBoundedAgeAfterAClockThatWasAhead: one write under a wrong clock spoils neither the ages of those behind
// it nor its own for ever, over restarts too.
func TestBoundedAgeAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for _, restart := range []string{"", "before", "after"} {
		t.Run("restart "+restart, func(t *testing.T) {
			t.Parallel()
			c := newClocked(t, Limits{MaxAge: time.Hour})
			var warned []error
			c.cfg.Events.Warned = func(err error) { warned = append(warned, err) }
			require.NoError(t, c.Close())
			c.open(t)
			right := c.now
			c.putAt(t, right.AddDate(50, 0, 0))
			c.now = right
			if restart == "before" {
				require.NoError(t, c.Close())
				c.open(t)
			}
			for range 10 {
				c.putAt(t, right)
			}
			c.now = right.AddDate(1, 0, 0)
			if restart == "after" {
				require.NoError(t, c.Close())
				c.open(t)
			}
			last := c.putAt(t, c.now)
			c.tend()
			require.Equal(t, uint64(11), c.lostToAge())
			require.Equal(t, last, c.Stats().FirstSeq)
			blocks := drain(t, c.Queue)
			require.Len(t, blocks, 1)
			require.Equal(t, c.now.UnixNano(), blocks[0].Time)
			require.Equal(t, right.UnixNano(), c.Stats().Losses[0].Oldest, "as the blocks said, in whatever order")
			require.Equal(t, right.AddDate(50, 0, 0).UnixNano(), c.Stats().Losses[0].Newest)
			if restart == "before" {
				var ahead *ClockError
				require.Len(t, warned, 1)
				require.True(t, errors.As(warned[0], &ahead))
				require.NotEmpty(t, Hint(ahead))
				require.ErrorContains(t, ahead, "2073-11-14")
			}
		})
	}
}

// TestBoundedAgeOfOneFromTheFuture: where nothing behind it tells more, its age counts from when it was noticed.
func TestBoundedAgeOfOneFromTheFuture(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxAge: time.Hour})
	right := c.now
	c.putAt(t, right.AddDate(1, 0, 0))
	c.now = right
	c.tend()
	require.Equal(t, right.UnixNano(), c.OldestUnsent(), "it is not fresh for a year")
	c.now = right.Add(50 * time.Minute)
	c.tend()
	require.Equal(t, right.UnixNano(), c.OldestUnsent())
	require.Zero(t, c.lostToAge())
	require.Equal(t, clockCheck, c.untilTooOld(), "the clock may be set meanwhile")
	c.now = right.Add(59*time.Minute + 30*time.Second)
	require.Equal(t, 30*time.Second, c.untilTooOld())
	c.now = right.Add(61 * time.Minute)
	c.tend()
	require.Equal(t, uint64(1), c.lostToAge())
	require.Zero(t, c.OldestUnsent())
}

// TestAckedUnderAClockThatBeginsIn1970: what was written before the clock was set, after a start, is as new as
// what was written before that start.
func TestAckedUnderAClockThatBeginsIn1970(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{MaxAge: time.Hour})
	right := c.now
	c.putAt(t, right)
	require.NoError(t, c.Ack(1)) // so that only the books know the time
	require.NoError(t, c.Close())
	for range 2 {
		c.now = time.Unix(10, 0)
		c.open(t)
		c.putAt(t, time.Unix(20, 0))
		c.tend()
		require.NoError(t, c.Close())
	}
	c.now = time.Unix(30, 0)
	c.open(t)
	c.putAt(t, time.Unix(40, 0))
	c.now = right.Add(time.Minute)
	c.tend()
	require.Zero(t, c.lostToAge())
	require.Equal(t, right.UnixNano(), c.OldestUnsent(), "nor is it stale for decades")
	c.now = right.Add(2 * time.Hour)
	c.tend()
	require.Equal(t, uint64(3), c.lostToAge())
}

// TestClockSetBack: blocks bear the clock as it is, and their sequences are what orders them.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	right := c.now
	times := []time.Duration{0, -time.Hour, time.Hour, -2 * time.Hour}
	for i, d := range times {
		require.Equal(t, Sequence(i+1), c.putAt(t, right.Add(d)))
		if i == 1 {
			require.NoError(t, c.Close())
			c.open(t)
		}
	}
	for i, b := range drain(t, c.Queue) {
		require.Equal(t, right.Add(times[i]).UnixNano(), b.Time)
	}
	c.active = time.Time{}
	require.NoError(t, c.Ack(4))
	c.tend()
	require.Zero(t, c.Stats().Segments, "nothing is left on disk")
}

// TestAgesUnderAnyClock appends under a clock that jumps, now and then, and is right again; with restarts, and
// age limits looked at whenever. What it must not do is to drop what is fresh, as long as the clock was right
// when it started; and once it stays right, everything is gone after twice
// the greatest age.
func TestAgesUnderAnyClock(t *testing.T) {
	t.Parallel()
	seeds(t, count(200, 20_000), func(t *testing.T, seed uint64) bool {
		rng := rand.New(rand.NewPCG(seed, 3))
		const limit = time.Hour
		c := newClocked(t, Limits{MaxBytes: 1 << 20, MaxAge: limit})
		right := c.now
		born := map[Sequence]time.Time{}
		put := func() { born[c.putAt(t, c.now)] = right }
		for range 80 {
			right = right.Add(time.Duration(rng.Int64N(int64(10 * time.Minute))))
			c.now = right
			switch rng.IntN(8) {
			case 0: // ahead for a moment, with no look at ages: that would take it at its word
				c.now = right.Add(time.Duration(rng.Int64N(int64(1000 * time.Hour))))
				put()
				c.now = right
			case 1:
				c.now = right.Add(-time.Duration(rng.Int64N(int64(limit) / 4)))
				put()
				c.tend()
			case 2:
				require.NoError(t, c.Close())
				c.open(t)
			case 3:
				c.tend()
			default:
				put()
			}
			for seq, at := range born {
				if seq <= Sequence(c.floor.Load()) {
					// A clock that was behind, by at most a quarter, makes blocks look older by as much.
					require.Greater(t, right.Sub(at), limit*3/4-time.Second, "block %d was dropped and is fresh", seq)
					delete(born, seq)
				}
			}
		}
		c.now = right
		put()
		// A block whose time comes before it is given up counts from that time on.
		for range 2*futureChecks + 4 {
			right = right.Add(limit / futureChecks)
			c.now = right
			c.tend()
		}
		require.LessOrEqual(t, len(drain(t, c.Queue)), 1)
		require.NoError(t, c.Close())
		return true
	})
}

func TestLossesJoinTheirTimes(t *testing.T) {
	t.Parallel()
	x := Loss{Reason: LostAge, First: 1, Last: 1, Oldest: 50, Newest: 50}
	x.join(Loss{First: 2, Last: 2, Oldest: 20, Newest: 20})
	x.join(Loss{First: 3, Last: 3}) // nobody knows
	x.join(Loss{First: 4, Last: 4, Oldest: 70, Newest: 70})
	require.Equal(t, []int64{20, 70}, []int64{x.Oldest, x.Newest})
}
