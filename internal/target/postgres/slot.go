package postgres

import (
	"context"
	"sync/atomic"
)

// A slot is a control connection's worth of waiting at the server for what somebody else holds. Whoever has it
// keeps others of its kind waiting, whatever loop they belong to, so it is had for one short try at a time (ISOLATED).
type slot struct {
	token   chan struct{}
	waiting atomic.Int32
}

func newSlot() *slot { return &slot{token: make(chan struct{}, 1)} }

// enter waits for the slot, in the order of those who wait.
func (s *slot) enter(ctx context.Context, closed <-chan struct{}) error {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	select {
	case s.token <- struct{}{}:
		return nil
	case <-closed:
		return errClosed()
	case <-ctx.Done():
		return classify(ctx, context.Cause(ctx))
	}
}

func (s *slot) leave() { <-s.token }

// crowded reports whether others wait for the slot.
func (s *slot) crowded() bool { return s.waiting.Load() > 0 }
