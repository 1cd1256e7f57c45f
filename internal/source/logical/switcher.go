package logical

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/mode"
	"github.com/tailrace-cdc/tailrace/logical"
)

var errSwitched = errors.New("the mode changed")

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

// governEvery is how often the mode is reconsidered while the source is silent.
const governEvery = 500 * time.Millisecond

// newSwitcher starts in the mode that the loop was in, or was about to change to.
func newSwitcher(w *writer) *switcher {
	s := &switcher{w: w}
	s.enter(w.loop.control.Mode())
	return s
}

// enter makes a mode's sink; the one before has been drained.
func (s *switcher) enter(m mode.Mode) {
	s.sink = newSerial(s.w)
	now := time.Now()
	s.w.loop.control.Settled(now)
	s.w.loop.update(func(st *Status) {
		st.Mode = m
		if m.Fan() {
			st.ConsistentSince = time.Time{}
		}
	})
	s.w.loop.metrics.mode(m)
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
func (s *switcher) govern(ctx context.Context) error {
	if s.w.config.BackfillWindow <= 0 {
		return nil
	}
	tick := time.NewTicker(governEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if err := s.steerBetween(ctx); err != nil {
			return err
		}
	}
}

// steerBetween changes the mode if it is time to and no transaction is open.
func (s *switcher) steerBetween(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open {
		return nil
	}
	return s.steer(ctx)
}

// steer changes the mode if it is time to. No transaction is open, and the lock is held.
func (s *switcher) steer(ctx context.Context) error {
	l := s.w.loop
	staleness := l.staleness()
	d := l.control.Observe(time.Now(), staleness)
	if d.Warn {
		l.log.Warn("serial mode cannot keep up with the source; raise --backfillWindow, or give the target more power",
			"backfillWindow", s.w.config.BackfillWindow)
	}
	if !d.Switched {
		return nil
	}
	if err := s.sink.drain(ctx); err != nil {
		return err
	}
	s.sink.stop(errSwitched)
	s.enter(d.Mode)
	l.metrics.switches(d.Reason)
	by, _ := staleness.Known()
	l.log.Info("the mode changed", "mode", d.Mode.String(), "reason", string(d.Reason), "staleness", by.Round(time.Millisecond))
	return nil
}

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
