package fan

import "context"

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
