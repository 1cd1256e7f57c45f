package logical

import "context"

// turn is a lock for work that may take long: whoever waits for its turn can give up.
type turn chan struct{}

func newTurn() turn {
	t := make(turn, 1)
	t.unlock()
	return t
}

// lock takes the turn, or fails when ctx ends.
func (t turn) lock(ctx context.Context) error {
	select {
	case <-t:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) unlock() { t <- struct{}{} }
