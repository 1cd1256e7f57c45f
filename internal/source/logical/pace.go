package logical

import (
	"time"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/mode"
	"github.com/tailrace-cdc/tailrace/logical"
)

// steerEvery is how often the mode is reconsidered while the source is silent and something waits, unless
// the window is so short that its quarter is less.
const steerEvery = 500 * time.Millisecond

// pace returns in what time the mode is to be reconsidered, if nothing stirs; 0 is never.
func (s *switcher) pace() time.Duration { return time.Duration(s.pacing.Load()) }

// setPace chooses the pace. While nothing waits, neither here nor at the source, what may come to wait
// there takes a window to be stale, so that a look now and then is enough. It is called under the
// switcher's lock.
func (s *switcher) setPace(staleness mode.Staleness) {
	l, window := s.w.loop, s.w.config.BackfillWindow
	pace := s.fast()
	switch {
	case window <= 0 && !l.unclean:
		pace = 0
	case l.control.Mode() != mode.Backfill && !l.unclean && s.idle(staleness):
		pace = max(pace, window/8)
	}
	s.pacing.Store(int64(pace))
}

// fast is the pace while something waits.
func (s *switcher) fast() time.Duration {
	if window := s.w.config.BackfillWindow; window > 0 {
		return max(time.Millisecond, min(steerEvery, window/4))
	}
	return steerEvery
}

// idle reports whether nothing waits, as far as anybody can tell.
func (s *switcher) idle(staleness mode.Staleness) bool {
	if _, waits := s.sink.oldest(); waits {
		return false
	}
	by, known := staleness.Known()
	_, tells := as[logical.Stalenesser](s.w.loop.dialect)
	return known && by == 0 || !tells
}

// stir has the attendant look at the pace again.
func (s *switcher) stir() {
	select {
	case s.stirred <- struct{}{}:
	default:
	}
}
