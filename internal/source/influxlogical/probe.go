package influxlogical

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
)

// A Pinger is a target that can be asked whether it is there, without writing to it. While it has asked to
// be left alone, Ping asks nothing and returns an error.
type Pinger interface {
	Ping(ctx context.Context) error
}

const (
	// probesAtOnce is how many targets are asked at the same time.
	probesAtOnce = 8
	// probeWithin is how long a target may take to answer.
	probeWithin = 2 * time.Second
)

// Probe asks the targets of streams that are failing whether they are there, until ctx ends. One that was
// away and has come back is tried at once, where the loop would wait for the rest of its delay. One that
// answers all along, and refuses what it is sent, is not.
func (s *Streams) Probe(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	away := map[*Stream]bool{}
	for {
		select {
		case <-tick.C:
			away = s.probe(ctx, away)
		case <-ctx.Done():
			return
		}
	}
}

// probe asks once, and returns whose target is away.
func (s *Streams) probe(ctx context.Context, before map[*Stream]bool) map[*Stream]bool {
	var failing []*Stream
	for _, stream := range s.All() {
		if st := stream.Status(); st.Running && st.Loop.State == loops.StateRetrying {
			failing = append(failing, stream)
		}
	}
	answers := make([]error, len(failing))
	var group errgroup.Group
	group.SetLimit(probesAtOnce)
	for i, stream := range failing {
		group.Go(func() error {
			if target, ok := kept[Pinger](stream); ok {
				ctx, cancel := context.WithTimeout(ctx, probeWithin)
				defer cancel()
				answers[i] = target.Ping(ctx)
			}
			return nil
		})
	}
	_ = group.Wait() // none fails
	away := map[*Stream]bool{}
	for i, stream := range failing {
		if answers[i] != nil {
			away[stream] = true
		} else if before[stream] {
			stream.Flush()
		}
	}
	return away
}
