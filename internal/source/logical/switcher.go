package logical

import (
	"context"
	"sync"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A sink applies events in one mode.
type sink interface {
	logical.Events
	// drain returns when every transaction that was committed to the sink has landed.
	drain(ctx context.Context) error
	// partial reports whether a part of the open transaction has been sent to the target.
	partial() bool
	// stop ends the sink; nothing that has not landed reaches the target afterwards.
	stop(cause error)
}

// switcher is the logical.Events of a loop: it passes them to the sink of the mode in force, and
// changes the mode between two transactions, after a drain (DRAIN).
type switcher struct {
	w *writer

	mu   sync.Mutex // held during every call of the sink
	sink sink
	open bool // inside a transaction
}

func newSwitcher(w *writer) *switcher {
	return &switcher{w: w, sink: newSerial(w)}
}

// OnBegin implements logical.Events.
func (s *switcher) OnBegin(ctx context.Context, stamp logical.Stamp) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.steer(ctx); err != nil {
		return err
	}
	s.open = true
	return s.sink.OnBegin(ctx, stamp)
}

// OnData implements logical.Events.
func (s *switcher) OnData(ctx context.Context, muts []logical.Mutation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sink.OnData(ctx, muts)
}

// OnCommit implements logical.Events.
func (s *switcher) OnCommit(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
	return s.sink.OnCommit(ctx)
}

// OnRollback implements logical.Events.
func (s *switcher) OnRollback(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
	return s.sink.OnRollback(ctx)
}

// govern changes the mode while the source is silent.
func (s *switcher) govern(context.Context) error { return nil }

// steer changes the mode if it is time to.
func (s *switcher) steer(context.Context) error { return nil }

// drain lets what was committed land. The open transaction is given up.
func (s *switcher) drain(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open && s.sink.partial() {
		return nil
	}
	return s.sink.drain(ctx)
}

func (s *switcher) stop(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sink.stop(cause)
}
