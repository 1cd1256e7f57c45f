package logical

import "context"

// acquire takes bytes of the budget for the transaction that is being collected. While there are none, it
// waits for what was handed over to land. When all of that has, and others have borrowed what there is to
// be borrowed, it hands over what has been collected too: a part of a transaction, which is then streamed.
// So the loop needs nobody else to give something back (ISOLATED).
func (s *serial) acquire(ctx context.Context, n int64) error {
	for !s.w.budget.TryAcquire(n) {
		s.mu.Lock()
		asking, err, changed := s.asking, s.err, s.changed
		s.mu.Unlock()
		switch {
		case err != nil:
			return err
		case asking && len(s.cur.muts) > 0:
			s.handOver(s.following())
		case asking:
			return s.acquireAlone(ctx, n)
		default:
			select {
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// acquireAlone takes the bytes when nothing else is in flight; what the empty segment holds is in the way.
func (s *serial) acquireAlone(ctx context.Context, n int64) error {
	own := s.cur.bytes
	s.release(s.cur)
	if err := s.w.budget.Acquire(ctx, own+n); err != nil {
		return err
	}
	s.cur.bytes = own
	return nil
}

// released wakes whoever waits for room.
func (s *serial) released() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broadcast()
}
