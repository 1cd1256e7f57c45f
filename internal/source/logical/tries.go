package logical

import (
	"context"

	"github.com/tailrace-cdc/tailrace/internal/util/retry"
)

// tries spaces the attempts at something that fails; Loop.Kick ends its present delay.
type tries struct {
	l *Loop
	*retry.Retry
}

func (l *Loop) newTries() tries {
	return tries{l, retry.New(retry.Config{Base: l.config.RetryDelay, Max: l.config.RetryMax, Rand: l.rand})}
}

// wait returns when it is time for the next attempt, or with an error when ctx ends.
func (t tries) wait(ctx context.Context, err error) error {
	t.l.mu.Lock()
	t.l.waiting[t.Retry] = struct{}{}
	t.l.mu.Unlock()
	defer func() {
		t.l.mu.Lock()
		delete(t.l.waiting, t.Retry)
		t.l.mu.Unlock()
	}()
	return t.Wait(ctx, err)
}

// Kick ends the present delays before retries, unless the target asked for them.
func (l *Loop) Kick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.waiting {
		r.Kick()
	}
}
