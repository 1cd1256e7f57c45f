package influxlogical

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// ErrNoLetters says that the target of a stream keeps no dead letters.
var ErrNoLetters = errors.New("the stream's target keeps no dead letters")

// ErrNotRunning says that something needs the stream's loop.
var ErrNotRunning = errors.New("the stream does not run: resume it first")

// Letters returns the store of the stream's dead letters, and the name that it has there. It opens the
// target of a stream that is paused.
func (s *Stream) Letters(ctx context.Context) (store logical.DeadLetters, loop string, err error) {
	if s.held.Load() == nil {
		s.mu.Lock()
		if !s.gone.Load() {
			_, err = s.open(ctx)
		}
		s.mu.Unlock()
		if err != nil {
			return nil, "", err
		}
	}
	store, ok := kept[logical.DeadLetters](s)
	if !ok {
		return nil, "", ErrNoLetters
	}
	return store, s.identity(), nil
}

// CountLetters returns how many dead letters there are, by what the loop knows, or what the target says
// before ctx ends, or what was known last; known is false if nothing ever was.
func (s *Stream) CountLetters(ctx context.Context) (n int64, known bool) {
	if loop := s.loop.Load(); loop != nil {
		if st := loop.Status(); st.Point != nil {
			s.letters.Store(st.Letters + 1)
			return st.Letters, true
		}
	} else if store, ok := kept[logical.DeadLetters](s); ok {
		if n, _, err := store.CountDeadLetters(ctx, s.identity()); err == nil {
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
	store, identity, err := s.Letters(ctx)
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
