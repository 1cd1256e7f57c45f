package queuetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue"
)

// Opener opens the log in a directory with these limits, or makes one. The suite
// closes it before it opens the same directory again.
type Opener func(t *testing.T, dir string, l queue.Limits) (queue.Log, error)

// Run runs all tests.
func Run(t *testing.T, open Opener) {
	for name, test := range map[string]func(*suite){
		"OrderAndGroups":      (*suite).orderAndGroups,
		"RestartFromStored":   (*suite).restart,
		"AckOnlyForward":      (*suite).ack,
		"RefuseWhenFull":      (*suite).refuse,
		"DropOldestDeclares":  (*suite).dropOldest,
		"DropNewestDeclares":  (*suite).dropNewest,
		"PurgeDeclares":       (*suite).purge,
		"ReaderWaits":         (*suite).waits,
		"ReaderContext":       (*suite).cancelled,
		"PayloadOwnership":    (*suite).ownership,
		"ReservationIsCount":  (*suite).reservation,
		"CloseEndsAll":        (*suite).closed,
		"ConcurrentAppenders": (*suite).concurrent,
		"ReaderAfter":         (*suite).after,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(&suite{T: t, open: open, dir: t.TempDir()})
		})
	}
}

type suite struct {
	*testing.T
	open Opener
	dir  string
}

func (s *suite) log(l queue.Limits) queue.Log {
	s.Helper()
	log, err := s.open(s.T, s.dir, l)
	require.NoError(s, err)
	s.Cleanup(func() { _ = log.Close() })
	return log
}

// group makes a group of these payloads, one point each.
func (s *suite) group(payloads ...string) *queue.Group {
	g := &queue.Group{}
	for _, p := range payloads {
		require.NoError(s, g.Add(queue.KindLineProtocol, 1, []byte(p)))
	}
	return g
}

func (s *suite) put(log queue.Log, payloads ...string) (first, last queue.Sequence) {
	s.Helper()
	g := s.group(payloads...)
	res, err := log.Reserve(g)
	require.NoError(s, err)
	require.GreaterOrEqual(s, res.Bytes(), g.Size())
	first, last, err = log.Append(context.Background(), res, g)
	require.NoError(s, err)
	return first, last
}

func (s *suite) reader(log queue.Log, after queue.Sequence) queue.Reader {
	s.Helper()
	r, err := log.NewReader(after)
	require.NoError(s, err)
	s.Cleanup(func() { _ = r.Close() })
	return r
}

func (s *suite) next(r queue.Reader) queue.Block {
	s.Helper()
	b, err := r.Next(context.Background())
	require.NoError(s, err)
	return b
}

func (s *suite) orderAndGroups() {
	log := s.log(queue.Limits{})
	var ends []queue.Sequence
	for i := range 20 {
		var payloads []string
		for j := range 1 + i%4 {
			payloads = append(payloads, fmt.Sprintf("m i=%di,j=%di", i, j))
		}
		first, last := s.put(log, payloads...)
		require.Equal(s, queue.Sequence(len(payloads)), last-first+1)
		ends = append(ends, last)
	}
	r := s.reader(log, 0)
	at, when := queue.Sequence(0), int64(0)
	for i := range 20 {
		for j := range 1 + i%4 {
			b := s.next(r)
			require.Equal(s, fmt.Sprintf("m i=%di,j=%di", i, j), string(b.Payload))
			require.Equal(s, j == i%4, b.Last)
			require.Equal(s, ends[i], b.Group)
			require.Equal(s, queue.KindLineProtocol, b.Kind)
			require.Equal(s, 1, b.Points)
			require.Greater(s, b.Sequence, at)
			require.GreaterOrEqual(s, b.Time, when)
			at, when = b.Sequence, b.Time
		}
		require.Equal(s, ends[i], at)
	}
}

func (s *suite) restart() {
	log := s.log(queue.Limits{})
	id := log.ID()
	_, one := s.put(log, "a")
	_, two := s.put(log, "b", "c")
	require.NoError(s, log.Ack(one))
	require.NoError(s, log.Close())
	log = s.log(queue.Limits{})
	require.Equal(s, id, log.ID())
	require.Equal(s, one, log.Cursor())
	r := s.reader(log, 0)
	require.Equal(s, "b", string(s.next(r).Payload))
	require.Equal(s, two, s.next(r).Sequence)
	require.NoError(s, log.Ack(two))
	require.NoError(s, r.Close())
	require.NoError(s, log.Close())
	log = s.log(queue.Limits{})
	first, _ := s.put(log, "d")
	require.Greater(s, first, two, "a sequence is never used again")
	require.Equal(s, "d", string(s.next(s.reader(log, 0)).Payload))
	require.Empty(s, log.Stats().Losses)
}

func (s *suite) ack() {
	log := s.log(queue.Limits{})
	s.put(log, "a")
	_, two := s.put(log, "b")
	require.NoError(s, log.Ack(two))
	require.NoError(s, log.Ack(1))
	require.Equal(s, two, log.Cursor(), "it never goes back")
	require.Error(s, log.Ack(two+1), "nobody can have seen that")
	require.Equal(s, two, log.Cursor())
	require.Zero(s, log.Stats().UnsentBytes)
	require.Zero(s, log.Stats().OldestUnsent)
}

// fill appends until the log is full, and returns how often that went well.
func (s *suite) fill(log queue.Log) (int, error) {
	payload := make([]byte, 900)
	for n := 0; ; n++ {
		g := &queue.Group{Compression: queue.NoCompression}
		require.NoError(s, g.Add(queue.KindOpaque, 1, payload))
		res, err := log.Reserve(g)
		if err != nil {
			return n, err
		}
		_, _, err = log.Append(context.Background(), res, g)
		require.NoError(s, err)
		require.Less(s, n, 100_000)
	}
}

func (s *suite) refuse() {
	log := s.log(queue.Limits{MaxBytes: 100_000})
	n, err := s.fill(log)
	var full *queue.FullError
	require.ErrorAs(s, err, &full)
	require.Equal(s, log.ID(), full.ID)
	require.Greater(s, n, 50)
	require.LessOrEqual(s, log.Stats().UnsentBytes, int64(100_000))
	require.Empty(s, log.Stats().Lost)
	b := s.next(s.reader(log, 0))
	require.NoError(s, log.Ack(b.Sequence))
	n, _ = s.fill(log)
	require.Equal(s, 1, n, "an acknowledgement makes room")
}

func (s *suite) dropOldest() {
	log := s.log(queue.Limits{MaxBytes: 100_000, Policy: queue.DropOldest})
	for i := range 500 {
		g := &queue.Group{Compression: queue.NoCompression}
		require.NoError(s, g.Add(queue.KindOpaque, 1, fmt.Appendf(make([]byte, 900), "%d", i)))
		res, err := log.Reserve(g)
		require.NoError(s, err)
		_, _, err = log.Append(context.Background(), res, g)
		require.NoError(s, err)
	}
	stats := log.Stats()
	require.LessOrEqual(s, stats.UnsentBytes, int64(100_000))
	lost := stats.Lost[queue.LostOldest]
	require.Positive(s, lost.Blocks)
	b := s.next(s.reader(log, 0))
	require.Equal(s, queue.Sequence(lost.Blocks+1), b.Sequence)
	require.Equal(s, int64(lost.Blocks), lost.Points)
}

func (s *suite) dropNewest() {
	log := s.log(queue.Limits{MaxBytes: 100_000, Policy: queue.DropNewest})
	_, err := s.fill(log)
	var out *queue.LeftOutError
	require.ErrorAs(s, err, &out)
	require.ErrorAs(s, err, new(*queue.FullError), "whoever handles a full queue handles this too")
	require.Empty(s, log.Stats().Lost, "nothing is decided yet")
	g := &queue.Group{}
	require.NoError(s, g.Add(queue.KindOpaque, 7, []byte("x")))
	log.Decline(g, false)
	require.Empty(s, log.Stats().Lost, "the writer still has it")
	require.Equal(s, uint64(1), log.Stats().Refused)
	log.Decline(g, true)
	require.Equal(s, int64(7), log.Stats().Lost[queue.LostNewest].Points)
	require.Equal(s, uint64(1), log.Stats().Refused)
	require.Equal(s, queue.Sequence(1), s.next(s.reader(log, 0)).Sequence)
}

func (s *suite) purge() {
	log := s.log(queue.Limits{})
	s.put(log, "a")
	_, last := s.put(log, "b", "c")
	loss, err := log.Purge()
	require.NoError(s, err)
	require.Equal(s, uint64(3), loss.Blocks)
	require.Equal(s, last, loss.Last)
	require.Zero(s, log.Stats().UnsentBytes)
	require.NoError(s, log.Close())
	log = s.log(queue.Limits{})
	require.Equal(s, uint64(3), log.Stats().Lost[queue.LostPurge].Blocks)
	s.put(log, "d")
	require.Equal(s, "d", string(s.next(s.reader(log, 0)).Payload))
}

func (s *suite) waits() {
	log := s.log(queue.Limits{})
	r := s.reader(log, 0)
	got := make(chan queue.Block)
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
	for i := range 50 {
		_, last := s.put(log, fmt.Sprint(i))
		require.Equal(s, last, (<-got).Sequence)
	}
	require.NoError(s, log.Close())
	_, open := <-got
	require.False(s, open, "closing ends the readers")
}

func (s *suite) cancelled() {
	log := s.log(queue.Limits{})
	r := s.reader(log, 0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := r.Next(ctx)
	require.ErrorIs(s, err, context.Canceled)
	s.put(log, "a")
	require.Equal(s, "a", string(s.next(r).Payload), "the reader goes on")
}

func (s *suite) ownership() {
	log := s.log(queue.Limits{})
	for i := range 10 {
		s.put(log, fmt.Sprintf("payload %d", i))
	}
	r := s.reader(log, 0)
	var kept [][]byte
	for range 10 {
		b, err := r.NextInto(context.Background(), make([]byte, 0, queue.MaxPayload))
		require.NoError(s, err)
		require.Equal(s, queue.MaxPayload, cap(b.Payload), "the caller's memory is used")
		kept = append(kept, b.Payload)
	}
	for i, p := range kept {
		require.Equal(s, fmt.Sprintf("payload %d", i), string(p))
	}
}

func (s *suite) reservation() {
	log := s.log(queue.Limits{MaxBytes: 100_000})
	g := s.group("x")
	res, err := log.Reserve(g)
	require.NoError(s, err)
	require.Equal(s, res.Bytes(), log.Stats().ReservedBytes)
	log.Release(res)
	require.Zero(s, log.Stats().ReservedBytes)
	res, err = log.Reserve(g)
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err = log.Append(ctx, res, g)
	require.ErrorIs(s, err, context.Canceled)
	require.Zero(s, log.Stats().ReservedBytes, "it is used up, whatever happens")
	_, err = log.Reserve(&queue.Group{})
	require.Error(s, err, "a group needs blocks")
}

func (s *suite) closed() {
	log := s.log(queue.Limits{})
	r := s.reader(log, 0)
	require.NoError(s, log.Close())
	require.NoError(s, log.Close())
	_, err := r.Next(context.Background())
	require.ErrorIs(s, err, queue.ErrClosed)
	_, err = log.Reserve(s.group("x"))
	require.ErrorIs(s, err, queue.ErrClosed)
	_, err = log.NewReader(0)
	require.ErrorIs(s, err, queue.ErrClosed)
	require.ErrorIs(s, log.Ack(1), queue.ErrClosed)
}

func (s *suite) concurrent() {
	log := s.log(queue.Limits{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 25 {
				g := &queue.Group{}
				for part := range 3 {
					if err := g.Add(queue.KindOpaque, 1, fmt.Appendf(nil, "%d %d %d", w, i, part)); err != nil {
						s.Error(err)
					}
				}
				res, err := log.Reserve(g)
				if err == nil {
					_, _, err = log.Append(context.Background(), res, g)
				}
				if err != nil {
					s.Error(err)
				}
			}
		})
	}
	r := s.reader(log, 0)
	next := map[int]int{}
	for range 8 * 25 {
		var w, i, part int
		for want := range 3 {
			b := s.next(r)
			_, err := fmt.Sscan(string(b.Payload), &w, &i, &part)
			require.NoError(s, err)
			require.Equal(s, want, part, "groups are not mixed")
			require.Equal(s, want == 2, b.Last)
			require.NoError(s, log.Ack(b.Sequence))
		}
		require.Equal(s, next[w], i, "the order of one writer")
		next[w]++
	}
	wg.Wait()
}

func (s *suite) after() {
	log := s.log(queue.Limits{})
	s.put(log, "a", "b")
	_, mid := s.put(log, "c")
	s.put(log, "d")
	require.Equal(s, "d", string(s.next(s.reader(log, mid)).Payload))
	require.Equal(s, "a", string(s.next(s.reader(log, 0)).Payload), "readers do not disturb each other")
	require.NoError(s, log.Ack(mid))
	require.Equal(s, "d", string(s.next(s.reader(log, 0)).Payload), "what is acknowledged is not delivered again")
}
