package factory

import (
	"context"
	"time"

	"github.com/pkg/errors"

	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
)

// A Loop moves the changes of one source into one target, until it is stopped. Its methods may be called
// concurrently.
type Loop struct {
	inner *loops.Loop
}

// Name returns the name under which the factory knows the loop.
func (l *Loop) Name() string { return l.inner.Name() }

// Status returns what the loop tells about itself now.
func (l *Loop) Status() Status { return statusOf(l.inner.Status()) }

// Changed returns a channel that is closed when the status changes next, its staleness aside. Take it
// before Status, so that no change is missed.
func (l *Loop) Changed() <-chan struct{} { return l.inner.Changed() }

// lookEvery is how often Wait looks at what changes without a change of the status: the staleness.
const lookEvery = 100 * time.Millisecond

// Wait waits until the status is as asked for, its staleness included. It fails when ctx is done, or when the loop has ended and
// its last status is not as asked for.
func (l *Loop) Wait(ctx context.Context, holds func(Status) bool) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		changed, done := l.Changed(), l.Done()
		if holds(l.Status()) {
			return nil
		}
		select {
		case <-changed:
		case <-look.C:
		case <-done:
			if holds(l.Status()) {
				return nil
			}
			return errors.Errorf("loop %s: it has ended", l.Name())
		case <-ctx.Done():
			return errors.WithMessagef(context.Cause(ctx), "loop %s", l.Name())
		}
	}
}

// Kick ends the present delays before retries, for when it is known that what was broken is mended.
// Delays that the target asked for stay.
func (l *Loop) Kick() { l.inner.Kick() }

// Replay applies the mutations of dead letters, named by their IDs, and removes each letter together with that: in one
// transaction of the target, exactly once, beside what the loop applies. (A target that is not transactional gets them at
// least once.) It returns how many. What cannot be replayed stays, and the error joins a [logical.ReplayError] for each; a letter
// that the target rejects again stays with its new reason.
//
// Letters of one row are replayed in the source's order, and one that comes after another which stays is not replayed.
// Letters that are not there are passed over. Replay tries for as long as ctx lets it. It needs a loop that runs and a dialect
// that implements [logical.Replayer].
//
// The letters and their IDs are listed by the target, as [logical.DeadLetters].
func (l *Loop) Replay(ctx context.Context, ids []int64) (replayed int, err error) {
	return l.inner.Replay(ctx, ids)
}

// Discard removes dead letters, named by their IDs, and their mutations are lost, which is logged. Later
// mutations of their rows are applied again. Letters that are not there are passed over. Unlike Replay, it also works while
// the loop waits for its target.
func (l *Loop) Discard(ctx context.Context, ids []int64) error { return l.inner.Discard(ctx, ids) }

// Stop ends the loop: no more is read, and what is in flight lands, as far as it can before ctx ends. What
// has not landed is read again by the loop's successor. It returns when the loop has ended; stopping twice
// is harmless.
func (l *Loop) Stop(ctx context.Context) { l.inner.Stop(ctx) }

// Done returns a channel that is closed when the loop has ended.
func (l *Loop) Done() <-chan struct{} { return l.inner.Done() }
