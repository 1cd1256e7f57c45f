package fan

import (
	"context"
	"sync"

	"github.com/pkg/errors"
)

// A Budget bounds bytes in flight. Loops may share one. Its methods may be called concurrently, and
// the fan holds no lock while it calls them.
type Budget interface {
	// TryAcquire takes n bytes if they can be had at once, within the bounds.
	TryAcquire(n int64) bool
	// Acquire waits until n bytes can be taken, and takes them. It fails only when ctx is done. If n
	// is more than there can ever be, it waits until nothing else is held.
	Acquire(ctx context.Context, n int64) error
	// Release gives n bytes back.
	Release(n int64)
}

// unbounded is the Budget of a fan that has none.
type unbounded struct{}

func (unbounded) TryAcquire(int64) bool                { return true }
func (unbounded) Acquire(context.Context, int64) error { return nil }
func (unbounded) Release(int64)                        {}

// A Bytes is a Budget of a fixed size. Whoever waits gets its turn in order.
type Bytes struct {
	limit int64

	mu      sync.Mutex
	used    int64
	waiting []*waiter // in order of arrival
}

type waiter struct {
	n     int64
	ready chan struct{} // closed when the bytes have been taken for it
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Bytes { return &Bytes{limit: limit} }

// Used returns how many bytes are taken.
func (b *Bytes) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// TryAcquire implements Budget.
func (b *Bytes) TryAcquire(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 || b.used+n > b.limit {
		return false
	}
	b.used += n
	return true
}

// Acquire implements Budget.
func (b *Bytes) Acquire(ctx context.Context, n int64) error {
	if b.TryAcquire(n) {
		return nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, w)
	b.serve()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.serve()
			return errors.WithStack(context.Cause(ctx))
		}
	}
	b.used -= n // they were taken for us in the same moment
	b.serve()
	return errors.WithStack(context.Cause(ctx))
}

// Release implements Budget.
func (b *Bytes) Release(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used -= n; b.used < 0 {
		panic("fan: more bytes released than acquired")
	}
	b.serve()
}

// serve takes bytes for those who wait, in order. Callers hold mu.
func (b *Bytes) serve() {
	for len(b.waiting) > 0 {
		if n := b.waiting[0].n; b.used > 0 && b.used+n > b.limit {
			break
		}
		b.used += b.waiting[0].n
		close(b.waiting[0].ready)
		b.waiting = b.waiting[1:]
	}
	if len(b.waiting) == 0 {
		b.waiting = nil
	}
}
