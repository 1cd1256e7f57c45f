package influxlogical

import (
	stderrors "errors"
	"math/rand/v2"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/queue"
)

// bucketOf returns a bucket whose streams have queues with these limits, and no loops.
func bucketOf(t *testing.T, limits ...queue.Limits) (*Streams, []*queue.Queue) {
	t.Helper()
	s := NewStreams(Config{})
	var queues []*queue.Queue
	for i, l := range limits {
		q, err := queue.Open(queue.Config{Dir: t.TempDir(), Limits: l})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = q.Close() })
		queues = append(queues, q)
		stream := newStream(s.config, newLife(), StreamConfig{ID: string(rune('a' + i)), Bucket: "b"})
		stream.queue.Store(q)
		if err := s.list(stream); err != nil {
			t.Fatal(err)
		}
	}
	return s, queues
}

// noise is a write of 3 points and 60 kB that cannot be compressed.
func noise() []lineprotocol.Block {
	var data []byte
	rng := rand.New(rand.NewPCG(1, 1))
	for len(data) < 60_000 {
		data = append(data, byte(rng.Uint32()))
	}
	return []lineprotocol.Block{{Points: 3, Data: data}}
}

func lost(q *queue.Queue) int64 { return q.Stats().Lost[queue.LostNewest].Points }

// TestNothingSilentWhereSomeStreamsAreLeftOut: the write is in one stream, so it is lost for the other.
func TestNothingSilentWhereSomeStreamsAreLeftOut(t *testing.T) {
	t.Parallel()
	s, queues := bucketOf(t,
		queue.Limits{MaxBytes: 100_000, Policy: queue.DropNewest}, queue.Limits{MaxBytes: 10_000_000, Policy: queue.DropNewest})
	for range 3 {
		if err := s.Write(t.Context(), "b", noise()); err != nil {
			t.Fatal(err)
		}
	}
	if lost(queues[0]) != 6 || lost(queues[1]) != 0 {
		t.Errorf("%d and %d points are lost, and not 6 and 0", lost(queues[0]), lost(queues[1]))
	}
	if a, b := queues[0].Newest(), queues[1].Newest(); a != 1 || b != 3 {
		t.Errorf("%d and %d writes are kept, and not 1 and 3", a, b)
	}
}

// TestNothingSilentWhereAllStreamsAreLeftOut: the client is told, and has it still: nothing is lost,
// however often it tries.
func TestNothingSilentWhereAllStreamsAreLeftOut(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]queue.Policy{"one refuses": queue.Refuse, "both drop": queue.DropNewest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, queues := bucketOf(t,
				queue.Limits{MaxBytes: 100_000, Policy: queue.DropNewest}, queue.Limits{MaxBytes: 100_000, Policy: other})
			if err := s.Write(t.Context(), "b", noise()); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				err := s.Write(t.Context(), "b", noise())
				if _, ok := stderrors.AsType[*queue.FullError](err); !ok {
					t.Fatalf("the answer is %v", err)
				}
			}
			for _, q := range queues {
				if st := q.Stats(); len(st.Lost) != 0 || st.Refused != 5 || st.ReservedBytes != 0 {
					t.Errorf("lost %v, refused %d, reserved %d", st.Lost, st.Refused, st.ReservedBytes)
				}
			}
			if err := queues[1].Ack(1); err != nil {
				t.Fatal(err)
			}
			if err := s.Write(t.Context(), "b", noise()); err != nil {
				t.Fatal(err)
			}
			if lost(queues[0]) != 3 {
				t.Errorf("%d points are lost, and not the 3 of the write that the other stream kept", lost(queues[0]))
			}
		})
	}
}
