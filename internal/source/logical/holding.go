package logical

import (
	"context"
	"sync"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

var errSourceLeaseLost = errors.New("the source's lease of the loop was lost: another process reads it; it is waited for anew")

// holding is what a run holds: the loop's session at the target, and its lease at the source.
type holding struct {
	loop    *Loop
	session logical.Session
	source  logical.Lease // nil where the source has none
	cancel  context.CancelCauseFunc
	once    sync.Once
}

// lease waits for the source's lease, if it has such.
func (l *Loop) lease(ctx context.Context) (logical.Lease, func(), error) {
	source, ok := as[logical.Lessor](l.dialect)
	if !ok {
		return nil, func() {}, nil
	}
	lease, err := source.Acquire(ctx, l.identity)
	if err != nil {
		return nil, nil, errors.WithMessage(err, "the source's lease")
	}
	return lease, func() { l.release(ctx, lease) }, nil
}

// release gives a lease back, so that a successor need not wait for its end.
func (l *Loop) release(ctx context.Context, lease logical.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := lease.Release(ctx); err != nil {
		l.log.Warn("a lease could not be given back; it expires", "error", err.Error())
	}
}

// sourceLost is closed when the source's lease is lost; it is nil where there is none.
func (h *holding) sourceLost() <-chan struct{} {
	if h.source == nil {
		return nil
	}
	return h.source.Lost()
}

// lose ends the run: nothing is applied any more.
func (h *holding) lose(cause error) {
	h.once.Do(func() {
		h.loop.count(func(c *counts) { c.leasesLost++ })
		h.cancel(cause)
	})
}

// while ends the run when a lease is lost, until the returned function is called.
func (h *holding) while() func() {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-h.session.Lost():
			h.lose(errLeaseLost)
		case <-h.sourceLost():
			h.lose(errSourceLeaseLost)
		case <-end:
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
