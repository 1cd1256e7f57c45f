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

// A budget bounds the memory of the bodies that are under way. A body takes its share as it comes in,
// so that a slow client holds no more than what it has sent. Those that wait are served in the order
// in which they came, but who has begun goes before who has not, because only he gives back.
//
// When all have begun and all need more, none would get it. So a part of the memory is kept apart for
// one of them at a time, the elder: it is who waited first, until it is done.
type budget struct {
	limit int64
	wait  time.Duration

	mu    sync.Mutex
	free  int64
	apart int64  // free memory of the elder
	elder *lease // or nil
	begun list.List
	fresh list.List // both of *waiter
}

type waiter struct {
	lease *lease
	bytes int64
	ready chan struct{}
}

// newBudget returns a budget that keeps some bytes apart.
func newBudget(limit, apart int64, wait time.Duration) *budget {
	apart = min(apart, limit/2)
	return &budget{limit: limit, wait: wait, free: limit - apart, apart: apart}
}

// A lease is what one request has of the budget. It is used by one goroutine.
type lease struct {
	ctx    context.Context
	budget *budget
	held   int64
	apart  int64 // of what is held, what was kept apart
	spare  int64 // of what is held, what is not in use
}

// minLease is what a request takes at least.
const minLease = 32 << 10

// lease waits for a request's first share.
func (b *budget) lease(ctx context.Context, bytes int64) (*lease, error) {
	l := &lease{ctx: ctx, budget: b}
	bytes = max(bytes, minLease)
	if err := b.take(l, bytes); err != nil {
		return nil, err
	}
	l.spare = bytes
	return l, nil
}

// reserve is a lineprotocol.Options.Reserve.
func (l *lease) reserve(bytes int) error {
	need := int64(bytes)
	if more := need - l.spare; more > 0 {
		if err := l.budget.take(l, more); err != nil {
			return err
		}
		l.spare = need
	}
	l.spare -= need
	return nil
}

// release gives everything back.
func (l *lease) release() { l.budget.give(l) }

// take waits until the bytes are there, for at most b.wait.
func (b *budget) take(l *lease, bytes int64) error {
	b.mu.Lock()
	if l.held+bytes > b.limit {
		b.mu.Unlock()
		return errTooMuch
	}
	queue, first := &b.fresh, b.begun.Len() == 0 && b.fresh.Len() == 0
	if l.held > 0 {
		queue, first = &b.begun, b.begun.Len() == 0 || b.elder == l
	}
	if first && b.grant(l, bytes) {
		b.mu.Unlock()
		return nil
	}
	w := &waiter{l, bytes, make(chan struct{})}
	at := queue.PushBack(w)
	b.mu.Unlock()

	timer := time.NewTimer(b.wait)
	defer timer.Stop()
	select {
	case <-w.ready:
		return nil
	case <-l.ctx.Done():
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

// give takes back all that a lease holds.
func (b *budget) give(l *lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += l.held - l.apart
	b.apart += l.apart
	l.held, l.apart, l.spare = 0, 0, 0
	if b.elder == l {
		b.elder = nil
	}
	b.serve()
}

// serve grants what can be granted. The elder does not stand in line.
func (b *budget) serve() {
	blocked := false
	for at := b.begun.Front(); at != nil; {
		w, here := at.Value.(*waiter), at
		at = at.Next()
		switch {
		case blocked && w.lease != b.elder:
		case b.grant(w.lease, w.bytes):
			close(w.ready)
			b.begun.Remove(here)
		default:
			blocked = true
		}
	}
	for at := b.fresh.Front(); at != nil && !blocked; at = b.fresh.Front() {
		w := at.Value.(*waiter)
		if blocked = !b.grant(w.lease, w.bytes); !blocked {
			close(w.ready)
			b.fresh.Remove(at)
		}
	}
}

// grant gives a lease more bytes, if they are there.
func (b *budget) grant(l *lease, bytes int64) bool {
	fromFree := min(bytes, b.free)
	fromApart := bytes - fromFree
	if fromApart > 0 {
		if l.held == 0 || fromApart > b.apart || b.elder != nil && b.elder != l {
			return false
		}
		b.elder = l
	}
	b.free -= fromFree
	b.apart -= fromApart
	l.held += bytes
	l.apart += fromApart
	return true
}

// used returns how many bytes are taken.
func (b *budget) used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit - b.free - b.apart
}
