package replication

import (
	"context"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Why dead letters are out of reach.
var (
	// ErrNoLetters says that the stream's target keeps none, or is not open.
	ErrNoLetters = influxlogical.ErrNoLetters
	// ErrNotRunning says that replaying needs a stream that runs.
	ErrNotRunning = influxlogical.ErrNotRunning
)

// A RefusedError says that dead letters stay, because the target refuses them again.
type RefusedError struct{ Err error }

// Error is the first reason.
func (e *RefusedError) Error() string {
	first, more, _ := strings.Cut(e.Err.Error(), "\n")
	if more != "" {
		first += "; and more"
	}
	return first
}

// Unwrap returns all reasons.
func (e *RefusedError) Unwrap() error { return e.Err }

// Letters returns up to limit dead letters of a stream whose ID is greater than after.
func (s *Service) Letters(ctx context.Context, id metadata.ID, after int64, limit int) ([]logical.DeadLetter, error) {
	stream, err := s.running(ctx, id)
	if err != nil {
		return nil, err
	}
	store, loop, err := stream.Letters(ctx)
	if err != nil {
		return nil, err
	}
	return store.ListDeadLetters(ctx, loop, after, limit)
}

// A LetterFunc does something with dead letters of a stream, and returns with how many it did.
type LetterFunc func(ctx context.Context, id metadata.ID, letters []int64) (int, error)

// lettersAtOnce is how many letters are handled at a time.
const lettersAtOnce = 500

// EachLetter has something done with the letters that are named, or, if none is, with all that there
// are. It returns with how many it was done; what failed does not keep the others from it.
func (s *Service) EachLetter(ctx context.Context, id metadata.ID, letters []int64, do LetterFunc) (done int, err error) {
	if len(letters) > 0 {
		return do(ctx, id, letters)
	}
	// Those that there are now: what is refused again may come back under another id.
	for after := int64(0); ; {
		page, err := s.Letters(ctx, id, after, lettersAtOnce)
		if err != nil {
			return 0, err
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			letters = append(letters, page[i].ID)
		}
		after = letters[len(letters)-1]
	}
	var refused *RefusedError
	for ids := range slices.Chunk(letters, lettersAtOnce) {
		n, err := do(ctx, id, ids)
		done += n
		if again := new(RefusedError); errors.As(err, &again) {
			if refused == nil {
				refused = again
			}
		} else if err != nil {
			return done, err
		}
	}
	if refused != nil {
		return done, refused
	}
	return done, nil
}

// DropLetters removes dead letters of a stream for good: their data is lost, which is logged.
func (s *Service) DropLetters(ctx context.Context, id metadata.ID, letters []int64) (int, error) {
	stream, err := s.running(ctx, id)
	if err != nil {
		return 0, err
	}
	before, _ := stream.CountLetters(ctx)
	if err := stream.DiscardLetters(ctx, letters); err != nil {
		return 0, err
	}
	after, _ := stream.CountLetters(ctx)
	n := int(max(0, before-after))
	s.log.Warn("dead letters dropped", "stream", id.String(), "name", stream.Status().Name, "reason", "dropped by an operator", "count", n)
	return n, nil
}

// ReplayLetters applies dead letters of a stream again, each in one target transaction with its removal.
// What the target rejects again stays.
func (s *Service) ReplayLetters(ctx context.Context, id metadata.ID, letters []int64) (int, error) {
	stream, err := s.running(ctx, id)
	if err != nil {
		return 0, err
	}
	n, err := stream.ReplayLetters(ctx, letters)
	s.log.Info("dead letters replayed", "stream", id.String(), "name", stream.Status().Name, "asked", len(letters), "count", n)
	if errors.As(err, new(*loops.ReplayError)) && ctx.Err() == nil {
		err = &RefusedError{err}
	}
	return n, err
}
