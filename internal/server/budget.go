package server

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"
)

var (
	errNoMemory = errors.New("server: the memory for bodies is used up")
	errTooMuch  = errors.New("server: more memory is needed than there is for all bodies")
)

// A budget bounds the memory of the bodies that are under way. Those that wait are served in the
// order in which they came; but who has begun goes before who has not, because only he gives back.
type budget struct {
	limit int64
	wait  time.Duration

	mu    sync.Mutex
	free  int64
	begun list.List // of *waiter: need more
	fresh list.List // of *waiter: have nothing yet
}

type waiter struct {
	bytes int64
	ready chan struct{}
}

func newBudget(limit int64, wait time.Duration) *budget {
	return &budget{limit: limit, wait: wait, free: limit}
}

// take waits until the bytes are there, for at most b.wait.
func (b *budget) take(ctx context.Context, bytes int64, begun bool) error {
	if bytes > b.limit {
		return errTooMuch
	}
	b.mu.Lock()
	queue := &b.fresh
	if begun {
		queue = &b.begun
	}
	if bytes <= b.free && b.begun.Len() == 0 && (begun || b.fresh.Len() == 0) {
		b.free -= bytes
		b.mu.Unlock()
		return nil
	}
	w := &waiter{bytes, make(chan struct{})}
	at := queue.PushBack(w)
	b.mu.Unlock()

	timer := time.NewTimer(b.wait)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready: // It came after all.
		return nil
	default:
	}
	queue.Remove(at)
	b.serve() // Whoever stands behind may need less.
	return errNoMemory
}

// give gives bytes back.
func (b *budget) give(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += bytes
	b.serve()
}

func (b *budget) serve() {
	for _, queue := range []*list.List{&b.begun, &b.fresh} {
		for at := queue.Front(); at != nil; at = queue.Front() {
			w := at.Value.(*waiter)
			if w.bytes > b.free {
				return
			}
			b.free -= w.bytes
			close(w.ready)
			queue.Remove(at)
		}
	}
}

// used returns how many bytes are taken.
func (b *budget) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit - b.free
}

// minLease is what a request takes at least.
const minLease = 32 << 10

// A lease is what one request has of the budget. It is used by one goroutine.
type lease struct {
	ctx    context.Context
	budget *budget
	held   int64
	spare  int64 // of what is held, what is not in use
}

// lease waits for a request's first share: what its body is expected to need.
func (b *budget) lease(ctx context.Context, expect int64) (*lease, error) {
	expect = min(max(expect, minLease), b.limit)
	if err := b.take(ctx, expect, false); err != nil {
		return nil, err
	}
	return &lease{ctx: ctx, budget: b, held: expect, spare: expect}, nil
}

// reserve is a lineprotocol.Options.Reserve.
func (l *lease) reserve(bytes int) error {
	need := int64(bytes)
	if l.spare < need {
		more := need - l.spare
		if l.held+more > l.budget.limit {
			return errTooMuch
		}
		if err := l.budget.take(l.ctx, more, true); err != nil {
			return err
		}
		l.held, l.spare = l.held+more, need
	}
	l.spare -= need
	return nil
}

// trim gives back what turned out not to be needed.
func (l *lease) trim() {
	if l.spare > 0 {
		l.budget.give(l.spare)
		l.held, l.spare = l.held-l.spare, 0
	}
}

// release gives everything back.
func (l *lease) release() {
	if l.held > 0 {
		l.budget.give(l.held)
		l.held, l.spare = 0, 0
	}
}
