package logical

import (
	"context"

	"github.com/tailrace-cdc/tailrace/internal/util/retry"
)

// tries spaces the attempts at something that fails; Loop.Kick ends its present delay, or the next one if an
// attempt is under way.
type tries struct {
	l *Loop
	*retry.Retry
	kicks uint64 // those that were before the present attempt
}

func (l *Loop) newTries() *tries {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &tries{l, retry.New(retry.Config{Base: l.config.RetryDelay, Max: l.config.RetryMax, Rand: l.rand}), l.kicks}
}

// wait returns when it is time for the next attempt, or with an error when ctx ends.
func (t *tries) wait(ctx context.Context, err error) error {
	t.l.mu.Lock()
	t.l.waiting[t.Retry] = struct{}{}
	if t.l.kicks != t.kicks {
		t.Kick()
	}
	t.l.mu.Unlock()
	defer func() {
		t.l.mu.Lock()
		delete(t.l.waiting, t.Retry)
		t.kicks = t.l.kicks
		t.l.mu.Unlock()
	}()
	return t.Wait(ctx, err)
}

// Kick ends the present delays before the next tries, in every mode, unless the target asked for them. A try
// that is under way and fails is followed by another one at once.
func (l *Loop) Kick() {
	l.mu.Lock()
	l.kicks++
	for r := range l.waiting {
		r.Kick()
	}
	sink := l.sink
	l.mu.Unlock()
	if sink != nil { // it is locked while it tells the loop of progress
		sink.kick()
	}
}
