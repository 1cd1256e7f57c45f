package budget

import (
	"container/list"
	"context"
)

// Budget bounds the bytes of mutations that one loop has in flight (BOUNDED). Its waiters are served in
// the order in which they came.
type Budget struct {
	pool      *Pool
	size      int64
	guarantee int64

	// Guarded by the pool's mu.
	used    int64
	peak    int64
	waits   int64
	left    bool
	waiters list.List // of *waiter
	place   place     // among the budgets of the pool that wait to borrow
}

type waiter struct {
	n     int64
	ready chan struct{}
}

// New returns a budget of size bytes that shares with nobody.
func New(size int64) *Budget { return NewPool(size).Join(size, size) }

// TryAcquire takes n bytes if they can be had at once, within the bounds. More than the whole budget never
// can: only Acquire lets such a request pass.
func (b *Budget) TryAcquire(n int64) bool {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if b.waiters.Len() > 0 || b.used+n > b.size || !b.within(n) {
		return false
	}
	b.take(n)
	return true
}

// Acquire takes n bytes, and waits until they can be had. It fails only when ctx is done.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	if b.TryAcquire(n) {
		return nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	b.pool.mu.Lock()
	b.waits++
	at := b.waiters.PushBack(w)
	b.serve()
	b.pool.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	select {
	case <-w.ready: // it was served while the context ended
		b.give(n)
	default:
		b.waiters.Remove(at)
		b.serve()
	}
	return context.Cause(ctx)
}

// Release gives n bytes back. To give back more than was taken is a fault of the caller, and panics.
func (b *Budget) Release(n int64) {
	if n == 0 {
		return
	}
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	b.give(n)
}

// Leave gives the budget's guarantee back to the pool. Bytes that are still held are given back as ever.
// Leaving twice is harmless.
func (b *Budget) Leave() {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	if b.left {
		return
	}
	b.left = true
	b.pool.guaranteed -= b.guarantee
	if b.pool.joined--; b.pool.joined < maxLeaves {
		b.pool.reconsider()
	}
}

// Size returns the most bytes that the budget lets be held, single requests aside that are larger.
func (b *Budget) Size() int64 { return b.size }

// Used returns the bytes that are taken.
func (b *Budget) Used() int64 {
	used, _, _ := b.Usage()
	return used
}

// Usage returns the bytes in flight, the most that there ever were, and how many requests had to
// wait.
func (b *Budget) Usage() (used, peak, waits int64) {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	return b.used, b.peak, b.waits
}

// within reports whether n more bytes are within the guarantee, or may be borrowed. The pool is locked.
func (b *Budget) within(n int64) bool {
	if b.used+n <= b.guarantee {
		return true
	}
	return b.used+n <= b.size && b.needs(n) <= b.pool.free()
}

// needs returns how much of the pool must be free for a request that goes beyond the guarantee: what it
// borrows, and leaves for others.
func (b *Budget) needs(n int64) int64 {
	have, want := b.borrowed(b.used), b.borrowed(b.used+n)
	return want - have + b.pool.leaves()*want
}

// borrowed returns how much of what is held is not covered by the guarantee.
func (b *Budget) borrowed(held int64) int64 { return max(0, held-b.guarantee) }

// passes reports whether a request may be served. The pool is locked.
func (b *Budget) passes(n int64) bool { return b.used == 0 || b.within(n) }

// take takes bytes. The pool is locked.
func (b *Budget) take(n int64) {
	b.pool.lent += b.borrowed(b.used+n) - b.borrowed(b.used)
	b.pool.used += n
	b.pool.peak = max(b.pool.peak, b.pool.used)
	b.used += n
	b.peak = max(b.peak, b.used)
}

// give gives bytes back, and serves who waits for them. The pool is locked.
func (b *Budget) give(n int64) {
	if n > b.used {
		panic("budget: more bytes released than acquired")
	}
	lent := b.borrowed(b.used) - b.borrowed(b.used-n)
	b.pool.lent -= lent
	b.pool.used -= n
	b.used -= n
	b.serve()
	if lent > 0 {
		b.pool.serve()
	}
}

// serve serves the budget's own waiters, and has the first that cannot be served wait for the pool if it
// waits for that. The pool is locked.
func (b *Budget) serve() {
	for at := b.waiters.Front(); at != nil; at = b.waiters.Front() {
		w := at.Value.(*waiter)
		if !b.passes(w.n) {
			b.queue(w.n)
			return
		}
		b.take(w.n)
		close(w.ready)
		b.waiters.Remove(at)
	}
	b.pool.unqueue(b)
}

// queue has the budget wait until the pool has as much to lend as the request needs. One that is beyond
// the budget's own size waits for its own releases alone. The pool is locked.
func (b *Budget) queue(n int64) {
	if b.used+n > b.size {
		b.pool.unqueue(b)
		return
	}
	b.pool.enqueue(b, b.needs(n))
}
