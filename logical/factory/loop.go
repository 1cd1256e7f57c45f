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

// Stop ends the loop: no more is read, and what is in flight lands, as far as it can before ctx ends. What
// has not landed is read again by the loop's successor. It returns when the loop has ended; stopping twice
// is harmless.
func (l *Loop) Stop(ctx context.Context) { l.inner.Stop(ctx) }

// Done returns a channel that is closed when the loop has ended.
func (l *Loop) Done() <-chan struct{} { return l.inner.Done() }
