package logical

import (
	"context"
	"sync/atomic"
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
	// oldest returns the stamp of the oldest transaction that has not landed, and whether there is
	// one. It may be called by anybody.
	oldest() (logical.Stamp, bool)
	// kick ends the present delays before the next tries that are not those of the loop itself. It may be
	// called by anybody.
	kick()
	// stop ends the sink; nothing that has not landed reaches the target afterwards.
	stop(cause error)
}

// switcher is the logical.Events of a loop: it passes them to the sink of the mode in force, and
// changes the mode between two transactions, after a drain (DRAIN).
type switcher struct {
	w *writer

	turn turn // to call the sink
	sink sink
	open bool // inside a transaction

	stirred chan struct{} // tells the attendant that there is something to look after
	pacing  atomic.Int64  // a time.Duration

	heard   time.Time // when the source last said something, or the run began
	tooSlow bool      // serial mode cannot keep up, by the last decision
	cleaned bool      // the target has become clean, and the mode has not changed since

	// What follows is about a backfill; see logical.Backfiller.
	begun       logical.Stamp // of the transaction that is open
	last        logical.Stamp // of the transaction that was committed last; nil after a rollback
	backfilling bool
	backfilled  logical.Stamp // the end of the backfill
}

// newSwitcher starts in the mode that the loop was in, or was about to change to.
func newSwitcher(w *writer) *switcher {
	s := &switcher{w: w, turn: newTurn(), stirred: make(chan struct{}, 1), heard: time.Now()}
	if _, ok := as[logical.Backfiller](w.loop.dialect); ok {
		s.backfilling = w.loop.unclean // it is about to begin
	}
	w.loop.control.Begin()
	s.enter(w.loop.control.Mode())
	s.setPace(mode.Unknown())
	return s
}

// enter makes a mode's sink; the one before has been drained.
func (s *switcher) enter(m mode.Mode) {
	l := s.w.loop
	now := time.Now()
	fromFan := false
	l.update(func(st *Status) {
		l.counts.spend(st.Mode, now)
		fromFan = st.Mode.Fan() && st.Point != nil
		st.Mode = m
		switch {
		case m.Fan():
			st.ConsistentSince = time.Time{}
		case st.ConsistentSince.IsZero():
			st.ConsistentSince = now
		}
	})
	if m.Fan() {
		s.sink = newFanned(s.w)
	} else {
		s.sink = newSerial(s.w, fromFan)
	}
	l.uses(s.sink)
}

// uses says what applies from now on; nil for nothing.
func (l *Loop) uses(s sink) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sink = s
}

// OnBegin implements logical.Events.
func (s *switcher) OnBegin(ctx context.Context, stamp logical.Stamp) error {
	if err := s.turn.lock(ctx); err != nil {
		return err
	}
	defer s.turn.unlock()
	if s.open {
		return errors.New("logical: OnBegin was called within a transaction")
	}
	if err := s.steer(ctx); err != nil {
		return err
	}
	s.open, s.begun, s.heard = true, stamp, time.Now()
	if fast := int64(s.fast()); s.pacing.Load() > fast {
		s.pacing.Store(fast)
		s.stir()
	}
	return s.sink.OnBegin(ctx, stamp)
}

// OnData implements logical.Events.
func (s *switcher) OnData(ctx context.Context, muts []logical.Mutation) error {
	if err := s.turn.lock(ctx); err != nil {
		return err
	}
	defer s.turn.unlock()
	if !s.open {
		return errors.New("logical: OnData was called outside of a transaction")
	}
	return s.sink.OnData(ctx, muts)
}

// OnCommit implements logical.Events.
func (s *switcher) OnCommit(ctx context.Context) error {
	if err := s.turn.lock(ctx); err != nil {
		return err
	}
	defer s.turn.unlock()
	if !s.open {
		return errors.New("logical: OnCommit was called outside of a transaction")
	}
	s.open, s.last, s.heard = false, s.begun, time.Now()
	return s.sink.OnCommit(ctx)
}

// OnRollback implements logical.Events.
func (s *switcher) OnRollback(ctx context.Context) error {
	if err := s.turn.lock(ctx); err != nil {
		return err
	}
	defer s.turn.unlock()
	s.open, s.last = false, nil
	return s.sink.OnRollback(ctx)
}

// steerBetween changes the mode if it is time to and no transaction is open.
func (s *switcher) steerBetween(ctx context.Context) error {
	if err := s.turn.lock(ctx); err != nil {
		return err
	}
	defer s.turn.unlock()
	if s.open {
		return nil
	}
	return s.steer(ctx)
}

// steer changes the mode if it is time to. No transaction is open, and the lock is held.
func (s *switcher) steer(ctx context.Context) error {
	l := s.w.loop
	staleness := l.staleness()
	if l.unclean && s.passed(staleness) {
		l.unclean, s.cleaned = false, true
		l.control.SetUnclean(false)
	}
	if s.cleaned {
		staleness = s.atLeastCaughtUp(staleness)
	}
	d := l.control.Observe(time.Now(), staleness)
	if d.SerialTooSlow != s.tooSlow {
		s.tooSlow = d.SerialTooSlow
		l.count(func(c *counts) { c.serialTooSlow = d.SerialTooSlow })
	}
	if d.Warn {
		l.log.Warn("serial mode cannot keep up with the source; raise --backfillWindow, or give the target more power",
			"backfillWindow", s.w.config.BackfillWindow)
	}
	defer func() { s.setPace(staleness) }()
	if !d.Switched {
		return nil
	}
	if err := s.sink.drain(ctx); err != nil {
		return err
	}
	s.sink.stop(errSwitched)
	s.cleaned = false
	s.enter(d.Mode)
	l.control.Settled(time.Now())
	l.count(func(c *counts) { c.switches[d.Reason]++ })
	by, _ := staleness.Known()
	l.log.Info("the mode changed", "mode", d.Mode.String(), "reason", string(d.Reason), "staleness", by.Round(time.Millisecond))
	return nil
}

// passed reports whether everything has landed that is in the target in part: what a fan which was cut short may
// have left, a backfill, and a transaction that was torn.
func (s *switcher) passed(staleness mode.Staleness) bool {
	l := s.w.loop
	switch {
	case s.backfilling, s.backfilled != nil && l.point().Compare(s.backfilled) < 0:
		return false
	case l.torn != nil && l.point().Compare(l.torn) < 0:
		return false
	case !l.cutShort:
		return true
	case l.uncleanUntil != nil:
		return l.point().Compare(l.uncleanUntil) >= 0
	}
	// The source could not say where its end was. It is taken to be passed when nothing waits, and the source
	// has had nothing to say for a while: at the beginning of a run nothing waits because nothing was read.
	_, waits := s.sink.oldest()
	_, tells := as[logical.Stalenesser](l.dialect)
	by, known := staleness.Known()
	return !waits && (known && by == 0 || !tells) && time.Since(s.heard) >= s.quiet()
}

// quiet is how long a source that cannot tell where its end is must be silent to be taken to be there.
func (s *switcher) quiet() time.Duration { return max(time.Second, s.w.config.StandbyTimeout) }

// drain lets what was committed land. The open transaction is given up.
func (s *switcher) drain(ctx context.Context) error {
	if err := s.turn.lock(ctx); err != nil {
		return err
	}
	defer s.turn.unlock()
	if s.open && s.sink.partial() {
		return nil
	}
	return s.sink.drain(ctx)
}

func (s *switcher) stop(cause error) {
	<-s.turn // the calls have ended with the run
	defer s.turn.unlock()
	s.w.loop.uses(nil)
	s.sink.stop(cause)
}
