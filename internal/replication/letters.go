package replication

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Why dead letters are out of reach.
var (
	// ErrNoLetters says that the stream's target keeps none, or is not open.
	ErrNoLetters = influxlogical.ErrNoLetters
	// ErrNotRunning says that replaying needs a stream that runs.
	ErrNotRunning = influxlogical.ErrNotRunning
)

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

// EachLetter has something done with the letters that are named, or, if none is, with all that there are when it
// begins. It returns with how many it was done. Letters that stay do not keep the others from it; the error is then a
// [StayedError].
func (s *Service) EachLetter(ctx context.Context, id metadata.ID, letters []int64, do LetterFunc) (done int, err error) {
	if len(letters) == 0 {
		// One that is rejected again gets a new ID: it is not to be met twice.
		if letters, err = s.allLetters(ctx, id); err != nil {
			return 0, err
		}
	}
	var stayed StayedError
	for some := range slices.Chunk(letters, lettersAtOnce) {
		n, err := do(ctx, id, some)
		done += n
		if err != nil && !stayed.add(err) {
			return done, err
		}
	}
	if len(stayed.Reasons) > 0 {
		return done, &stayed
	}
	return done, nil
}

func (s *Service) allLetters(ctx context.Context, id metadata.ID) (ids []int64, err error) {
	for after := int64(0); ; after = ids[len(ids)-1] {
		page, err := s.Letters(ctx, id, after, lettersAtOnce)
		if err != nil || len(page) == 0 {
			return ids, err
		}
		for i := range page {
			ids = append(ids, page[i].ID)
		}
	}
}

// A StayedError says why dead letters stay that were to be replayed, as a rule because the target rejects them again.
type StayedError struct{ Reasons []*logical.ReplayError }

// mostReasons is how many reasons an error tells.
const mostReasons = 10

// Error tells the first reasons.
func (e *StayedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d dead letters stay", len(e.Reasons))
	for _, r := range e.Reasons[:min(mostReasons, len(e.Reasons))] {
		b.WriteString("; " + r.Error())
	}
	if left := len(e.Reasons) - mostReasons; left > 0 {
		fmt.Fprintf(&b, "; and %d more", left)
	}
	return b.String()
}

// add takes the reasons of an error in, if that is what it is made of.
func (e *StayedError) add(err error) bool {
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // as errors.Join makes it
		list = joined.Unwrap()
	}
	for _, one := range list {
		reason, ok := one.(*logical.ReplayError) //nolint:errorlint // nobody has wrapped it
		if !ok {
			return false
		}
		e.Reasons = append(e.Reasons, reason)
	}
	return true
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
	return n, err
}
