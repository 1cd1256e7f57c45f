package influxlogical

import (
	"context"
	"sync"

	"github.com/tailrace-cdc/tailrace/internal/util/retry"
)

// A life is how long the goroutines of all streams last that belong to no loop.
type life struct {
	ctx  context.Context
	end  context.CancelFunc
	wait sync.WaitGroup
}

func newLife() *life {
	l := new(life)
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// An opener tries again to open a stream's target and to start its loop: the disk of a file may be mounted late.
type opener struct {
	retry *retry.Retry
	end   context.CancelFunc
}

// tryAgain has an opener try until it has succeeded or somebody calls leave, if there is none yet. s.mu is held.
func (s *Stream) tryAgain(err error) {
	if s.opener.Load() != nil || s.lives.ctx.Err() != nil {
		return
	}
	config := s.config.Load().Loop
	ctx, cancel := context.WithCancel(s.lives.ctx)
	o := &opener{retry.New(retry.Config{Base: config.RetryDelay, Max: config.RetryMax}), cancel}
	s.opener.Store(o)
	s.lives.wait.Go(func() {
		defer cancel()
		for err != nil {
			if o.retry.Wait(ctx, err) != nil {
				return
			}
			err = s.tryOnce(ctx)
		}
	})
}

func (s *Stream) tryOnce(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil || s.gone.Load() {
		return nil
	}
	return s.startLoop(ctx)
}

// giveUpOpening ends the tries. s.mu is held.
func (s *Stream) giveUpOpening() {
	if o := s.opener.Swap(nil); o != nil {
		o.end()
	}
}
