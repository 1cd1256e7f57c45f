package influxlogical

import (
	"cmp"
	"context"
	"sync"
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
	// probesAtOnce is how many servers are asked at the same time.
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

// probe asks each server once, for all streams that lead there, and tells them as soon as it answers. It
// returns whose target is away.
func (s *Streams) probe(ctx context.Context, before map[*Stream]bool) map[*Stream]bool {
	var failing []*Stream
	for _, stream := range s.All() {
		if st := stream.Status(); st.Running && st.Loop.State == loops.StateRetrying {
			failing = append(failing, stream)
		}
	}
	servers := map[string][]*Stream{}
	for _, stream := range failing {
		remote := stream.config.Load().Remote
		server := cmp.Or(remote.Server, remote.Connection, stream.ID())
		servers[server] = append(servers[server], stream)
	}
	away := map[*Stream]bool{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(probesAtOnce)
	for _, streams := range servers {
		group.Go(func() error {
			err := ping(ctx, streams)
			for _, stream := range streams {
				if err == nil && before[stream] {
					stream.Flush()
				}
				if err != nil {
					mu.Lock()
					away[stream] = true
					mu.Unlock()
				}
			}
			return nil
		})
	}
	_ = group.Wait() // none fails
	return away
}

// ping asks the server of these streams by the target of one of them.
func ping(ctx context.Context, streams []*Stream) error {
	for _, stream := range streams {
		if target, ok := kept[Pinger](stream); ok {
			ctx, cancel := context.WithTimeout(ctx, probeWithin)
			defer cancel()
			return target.Ping(ctx)
		}
	}
	return nil
}
