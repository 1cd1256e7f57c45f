package remote

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A Pool shares targets between streams. Its methods may be called concurrently.
type Pool struct {
	log *slog.Logger

	ctx     context.Context // what is being opened ends with it
	stop    context.CancelFunc
	openers sync.WaitGroup

	mu      sync.Mutex
	targets map[string]*shared
	closed  bool
}

type shared struct {
	opening chan struct{} // closed when target or err is set
	closed  chan struct{} // closed when the target is
	target  logical.Target
	err     error
	users   int
}

// NewPool returns an empty pool.
func NewPool(log *slog.Logger) *Pool {
	p := &Pool{log: log, targets: map[string]*shared{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// ErrClosed is why a pool opens no more targets.
var ErrClosed = errors.New("the server is stopping: no more targets are opened")

// Close ends what is being opened, and waits for it. What is open stays open until it is given back.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.openers.Wait()
}

// openWithin bounds how long opening a target may take.
const openWithin = time.Minute

// Get returns the target of a key, which is opened if nobody has it, and the function that gives it
// back; after the last one it is closed. There are never two targets of one key: Get waits for the end
// of one that is being closed. A target is opened for all who wait for it: it does not end with the context
// of the one that came first.
func (p *Pool) Get(ctx context.Context, key string, open func(context.Context) (logical.Target, error)) (logical.Target, func(), error) {
	s, mine, err := p.join(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	if mine {
		go func() {
			defer p.openers.Done()
			p.open(key, s, open)
		}()
	}
	select {
	case <-s.opening:
	case <-ctx.Done():
		p.release(key, s)
		return nil, nil, context.Cause(ctx)
	}
	if s.err != nil {
		p.release(key, s)
		return nil, nil, s.err
	}
	var once sync.Once
	return s.target, func() { once.Do(func() { p.release(key, s) }) }, nil
}

// open opens the target of a key, and closes it again if nobody waits for it any more.
func (p *Pool) open(key string, s *shared, open func(context.Context) (logical.Target, error)) {
	ctx, cancel := context.WithTimeout(p.ctx, openWithin)
	defer cancel()
	if s.target, s.err = open(ctx); s.err != nil {
		s.target = nil // also where it is a nil pointer of some type
	}
	p.mu.Lock()
	close(s.opening)
	unused := s.users == 0
	p.mu.Unlock()
	if unused {
		p.end(key, s)
	}
}

// join becomes a user of what the key stands for. It is mine to open if nobody else was.
func (p *Pool) join(ctx context.Context, key string) (s *shared, mine bool, err error) {
	for {
		p.mu.Lock()
		s, ok := p.targets[key]
		if !ok && p.closed {
			p.mu.Unlock()
			return nil, false, ErrClosed
		}
		if !ok {
			p.openers.Add(1)
			s = &shared{opening: make(chan struct{}), closed: make(chan struct{})}
			p.targets[key] = s
		}
		if !ok || s.users > 0 {
			s.users++
			p.mu.Unlock()
			return s, !ok, nil
		}
		p.mu.Unlock()
		select {
		case <-s.closed:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// release ends a use. The last one closes the target; what is still being opened is closed then.
func (p *Pool) release(key string, s *shared) {
	p.mu.Lock()
	s.users--
	last := s.users == 0
	select {
	case <-s.opening:
	default:
		last = false
	}
	p.mu.Unlock()
	if last {
		p.end(key, s)
	}
}

// end closes the target of a key that has no users.
func (p *Pool) end(key string, s *shared) {
	if s.target != nil {
		if err := s.target.Close(); err != nil {
			p.log.Warn("closing a target", "error", err.Error())
		}
	}
	p.mu.Lock()
	delete(p.targets, key)
	p.mu.Unlock()
	close(s.closed)
}

// Len returns how many targets are open.
func (p *Pool) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.targets)
}
