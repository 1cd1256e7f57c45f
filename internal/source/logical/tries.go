package logical

import (
	"context"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// tries spaces the attempts at something that fails.
type tries struct {
	l *Loop
	n int
}

func (l *Loop) newTries() *tries { return &tries{l: l} }

// wait returns when it is time for the next attempt, or with an error when ctx ends.
func (t *tries) wait(ctx context.Context, err error) error {
	top := min(t.l.config.RetryMax, t.l.config.RetryDelay<<min(t.n, 20))
	t.n++
	timer := time.NewTimer(logical.RetryAfterOf(err) + time.Duration(t.l.random()*float64(top)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-t.l.kicks:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
