// Package budget bounds the bytes that are in flight, in one place for all who hold them.
package budget

import (
	"container/list"
	"context"
	"sync"
)

// Budget bounds the bytes of mutations that are in flight (BOUNDED). Waiters are served in the order
// in which they came. A request larger than the whole budget passes when nothing else is in flight.
// Its methods may be called concurrently; no caller may hold a lock that a release needs.
type Budget struct {
	size int64

	mu      sync.Mutex
	used    int64
	peak    int64
	waits   int64
	waiters list.List // of *waiter
}

type waiter struct {
	n     int64
	ready chan struct{}
}

// New returns a budget of size bytes.
func New(size int64) *Budget { return &Budget{size: size} }

// TryAcquire takes n bytes if they are free. More than the whole budget never is: only Acquire lets such
// a request pass.
func (b *Budget) TryAcquire(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiters.Len() > 0 || b.used+n > b.size {
		return false
	}
	b.take(n)
	return true
}

// Acquire takes n bytes, and waits until they are free.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	if b.TryAcquire(n) {
		return nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	b.mu.Lock()
	b.waits++
	at := b.waiters.PushBack(w)
	b.serve()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready: // it was served while the context ended
		b.used -= n
	default:
		b.waiters.Remove(at)
	}
	b.serve()
	return context.Cause(ctx)
}

// Release gives n bytes back. To give back more than was taken is a fault of the caller, and panics.
func (b *Budget) Release(n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used -= n; b.used < 0 {
		panic("budget: more bytes released than acquired")
	}
	b.serve()
}

// Size returns the bytes that the budget has in all.
func (b *Budget) Size() int64 { return b.size }

// Used returns the bytes that are taken.
func (b *Budget) Used() int64 {
	used, _, _ := b.Usage()
	return used
}

// Usage returns the bytes in flight, the most that there ever were, and how many requests had to
// wait.
func (b *Budget) Usage() (used, peak, waits int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.peak, b.waits
}

func (b *Budget) serve() {
	for at := b.waiters.Front(); at != nil; at = b.waiters.Front() {
		w := at.Value.(*waiter)
		if !b.fits(w.n) {
			return
		}
		b.take(w.n)
		close(w.ready)
		b.waiters.Remove(at)
	}
}

func (b *Budget) fits(n int64) bool { return b.used == 0 || b.used+n <= b.size }

func (b *Budget) take(n int64) {
	b.used += n
	b.peak = max(b.peak, b.used)
}
