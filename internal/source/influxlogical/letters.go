package influxlogical

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// ErrNoLetters says that the target of a stream keeps no dead letters, or is not open.
var ErrNoLetters = errors.New("the stream's target keeps no dead letters, or is not open because the stream is paused or broken")

// ErrNotRunning says that something needs the stream's loop.
var ErrNotRunning = errors.New("the stream does not run: resume it first")

// Letters returns the store of the stream's dead letters, and the name that it has there.
func (s *Stream) Letters() (store logical.DeadLetters, loop string, err error) {
	store, ok := kept[logical.DeadLetters](s)
	if !ok {
		return nil, "", ErrNoLetters
	}
	return store, s.identity(), nil
}

// CountLetters returns how many dead letters there are. If the target does not say so before ctx ends, it
// is the number that it said last; known is false if it never did.
func (s *Stream) CountLetters(ctx context.Context) (n int64, known bool) {
	if store, loop, err := s.Letters(); err == nil {
		if n, _, err := store.CountDeadLetters(ctx, loop); err == nil {
			s.letters.Store(n + 1)
			return n, true
		}
	}
	n = s.letters.Load()
	return max(n-1, 0), n > 0
}

// DiscardLetters removes dead letters for good.
func (s *Stream) DiscardLetters(ctx context.Context, ids []int64) error {
	if loop := s.loop.Load(); loop != nil {
		return loop.Discard(ctx, ids) // it knows them too
	}
	store, identity, err := s.Letters()
	if err != nil {
		return err
	}
	return store.DiscardDeadLetters(ctx, identity, ids)
}

// ReplayLetters applies dead letters again and removes them; see Loop.Replay.
func (s *Stream) ReplayLetters(ctx context.Context, ids []int64) (int, error) {
	loop := s.loop.Load()
	if loop == nil {
		return 0, ErrNotRunning
	}
	return loop.Replay(ctx, ids)
}
