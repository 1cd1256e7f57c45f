package remote

import (
	"context"
	"log/slog"
	"sync"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A Pool shares targets between streams. Its methods may be called concurrently.
type Pool struct {
	log *slog.Logger

	mu      sync.Mutex
	targets map[string]*shared
}

type shared struct {
	opening chan struct{} // closed when target or err is set
	target  logical.Target
	err     error
	users   int
}

// NewPool returns an empty pool.
func NewPool(log *slog.Logger) *Pool {
	return &Pool{log: log, targets: map[string]*shared{}}
}

// Get returns the target of a key, which is opened if nobody has it, and the function that gives it
// back, which is to be called once; after the last one it is closed.
func (p *Pool) Get(ctx context.Context, key string, open func(context.Context) (logical.Target, error)) (logical.Target, func(), error) {
	p.mu.Lock()
	s, ok := p.targets[key]
	if !ok {
		s = &shared{opening: make(chan struct{})}
		p.targets[key] = s
	}
	s.users++
	p.mu.Unlock()
	if ok {
		select {
		case <-s.opening:
		case <-ctx.Done():
			p.release(key, s)
			return nil, nil, ctx.Err()
		}
	} else {
		s.target, s.err = open(ctx)
		if s.err != nil {
			p.mu.Lock()
			delete(p.targets, key) // those who wait get the error, and whoever comes next tries anew
			p.mu.Unlock()
		}
		close(s.opening)
	}
	if s.err != nil {
		return nil, nil, s.err
	}
	var once sync.Once
	return s.target, func() { once.Do(func() { p.release(key, s) }) }, nil
}

func (p *Pool) release(key string, s *shared) {
	p.mu.Lock()
	s.users--
	last := s.users == 0 && p.targets[key] == s
	if last {
		delete(p.targets, key)
	}
	p.mu.Unlock()
	if !last {
		return
	}
	<-s.opening
	if s.target == nil {
		return
	}
	if err := s.target.Close(); err != nil {
		p.log.Warn("closing a target", "error", err.Error())
	}
}

// Len returns how many targets are open.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.targets)
}
