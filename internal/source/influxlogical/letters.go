package influxlogical

import (
	"context"
	"slices"

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
// before ctx ends, or what was known last; known is false if nothing ever was. It opens the target of a stream
// that is paused, unless the number is known.
func (s *Stream) CountLetters(ctx context.Context) (n int64, known bool) {
	if loop := s.loop.Load(); loop != nil {
		if st := loop.Status(); st.Point != nil {
			s.letters.Store(st.Letters + 1)
			return st.Letters, true
		}
	} else if store, ok := s.storeToCount(ctx); ok {
		if n, _, err := store.CountDeadLetters(ctx, s.identity()); err == nil {
			s.letters.Store(n + 1)
			return n, true
		}
	}
	n = s.letters.Load()
	return max(n-1, 0), n > 0
}

// storeToCount returns the store of a stream without a loop. It waits for nobody who changes the stream.
func (s *Stream) storeToCount(ctx context.Context) (logical.DeadLetters, bool) {
	if s.letters.Load() == 0 && s.fault.Load() == nil && s.mu.TryLock() {
		if !s.gone.Load() {
			_, _ = s.open(ctx) // resuming the stream says what is wrong
		}
		s.mu.Unlock()
	}
	return kept[logical.DeadLetters](s)
}

// leave notes that dead letters stay in a store where they cannot be reached any more, or that they can be again.
// s.mu is held, and there is no loop.
func (s *Stream) leave(old, next Remote, left int64) {
	if old.Letters == next.Letters {
		return
	}
	s.letters.Store(0) // of the old store
	if left > 0 {
		s.log().Warn("the stream's dead letters stay in its old target, where only a stream to that target reaches them",
			"deadLetters", left, "hint", "give the replication its old remote again to replay or drop them")
		s.behind = append(s.behind, old.Letters)
	}
	s.behind = slices.DeleteFunc(s.behind, func(place string) bool { return place == next.Letters })
	s.lettersBehind.Store(len(s.behind) > 0)
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
