package logical

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/mode"
	"github.com/tailrace-cdc/tailrace/logical"
)

// beginBackfill reports whether the source is to be read by its BackfillInto, which is while a fan is at
// work. What that brings is not a state of the source before all of it is in the target. So the memo says
// so until then, and a successor goes on with the backfill.
func (s *switcher) beginBackfill(ctx context.Context) (bool, error) {
	if err := s.turn.lock(ctx); err != nil {
		return false, err
	}
	defer s.turn.unlock()
	if err := s.steer(ctx); err != nil {
		return false, err
	}
	l := s.w.loop
	if !l.control.Mode().Fan() {
		return false, nil
	}
	s.backfilling, s.backfilled, s.last = true, nil, nil
	l.unclean = true
	l.control.SetUnclean(true)
	s.setPace(mode.Unknown())
	s.stir()
	return true, nil
}

// endBackfill takes note that BackfillInto has sent everything, and returns the position after which the
// source is to be followed: that of the last transaction, or from if there was none.
func (s *switcher) endBackfill(ctx context.Context, from logical.Stamp) (logical.Stamp, error) {
	if err := s.turn.lock(ctx); err != nil {
		return nil, err
	}
	defer s.turn.unlock()
	if s.open {
		return nil, errors.New("logical: BackfillInto ended within a transaction")
	}
	if s.last != nil {
		from = s.last
	}
	s.backfilling, s.backfilled = false, from
	return from, nil
}

// atLeastCaughtUp is the staleness after everything has landed that kept the loop in fan mode. Where the
// source cannot tell of more, that is all there is.
func (s *switcher) atLeastCaughtUp(staleness mode.Staleness) mode.Staleness {
	_, known := staleness.Known()
	_, tells := as[logical.Stalenesser](s.w.loop.dialect)
	if _, waits := s.sink.oldest(); known || tells || waits {
		return staleness
	}
	return mode.By(0)
}
