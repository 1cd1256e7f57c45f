package logical

import (
	"context"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace-cdc/tailrace/logical"
)

// releaseTimeout bounds how long a loop that ends waits for its lease to be given back.
const releaseTimeout = 2 * time.Second

// run drives the loop until it is stopped. ctx ends everything at once; stop asks for an end in which
// what is in flight lands.
func (l *Loop) run(ctx, stop context.Context) {
	defer close(l.done)
	defer l.update(func(s *Status) { s.State = StateStopped })
	for tries := l.newTries(); ; {
		before := l.Status().Mutations
		err := l.once(ctx, stop)
		if stop.Err() != nil || ctx.Err() != nil {
			return
		}
		if errors.Is(err, errReadAgain) {
			continue
		}
		l.failed(err)
		if l.Status().Mutations != before {
			tries = l.newTries() // there was progress
		}
		if tries.wait(stop, err) != nil {
			return
		}
	}
}

// once takes the target over and runs the dialect from the stored consistent point until something
// fails that cannot be mended from memory.
func (l *Loop) once(ctx, stop context.Context) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w, release, err := l.takeOver(ctx, stop)
	if err != nil {
		return err
	}
	defer release()
	defer l.welcome(w)()
	w.fail = cancel
	defer l.whileHeld(w.session, cancel)()

	// The source is read and processed until stop; what has been handed to a sink by then lands.
	source, endSource := context.WithCancelCause(stop)
	defer endSource(nil)
	defer context.AfterFunc(ctx, func() { endSource(context.Cause(ctx)) })()
	events := newSwitcher(w)
	defer events.stop(errStopped)
	in := newPipe(int(l.config.BytesInFlight / 4))
	group, source := errgroup.WithContext(source)
	group.Go(func() error { return l.read(source, in) })
	group.Go(func() error { return l.process(source, in, events) })
	group.Go(func() error { return events.govern(source) })
	group.Go(func() error { return l.acknowledge(source) })
	err = group.Wait()
	if stop.Err() != nil && ctx.Err() == nil {
		if drained := events.drain(ctx); drained != nil && ctx.Err() == nil {
			return drained
		}
		l.acknowledgeNow(context.WithoutCancel(ctx))
	}
	return err
}

// takeOver takes the loop over at its target and reads the consistent point.
func (l *Loop) takeOver(ctx, stop context.Context) (*writer, func(), error) {
	taking, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	session, err := l.target.Take(taking, logical.Claim{Loop: l.identity, Holder: l.holder, TTL: l.config.LeaseTTL})
	if err != nil {
		return nil, nil, err
	}
	release := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		if err := session.Release(ctx); err != nil {
			l.log.Warn("the lease could not be given back; it expires", "error", err.Error())
		}
	}
	w := &writer{
		ctx: ctx, loop: l, session: l.meter.Session(session), traits: l.target.Traits(), budget: l.budget, config: l.config,
		prepared: map[*logical.Relation]struct{}{},
	}
	if err := l.recall(taking, w); err != nil {
		release()
		return nil, nil, err
	}
	return w, release, nil
}

// recall sets the consistent point to the one that is stored in the target.
func (l *Loop) recall(ctx context.Context, w *writer) error {
	point := l.dialect.ZeroStamp()
	var state logical.MemoState
	err := w.timed(ctx, func(ctx context.Context) (err error) {
		state, err = w.session.LoadMemo(ctx)
		return err
	})
	if err != nil {
		return err
	}
	if state.Point != nil {
		if point, err = l.dialect.DecodeStamp(state.Point); err != nil {
			return err
		}
	}
	if err := l.loadLetters(ctx, w); err != nil {
		return err
	}
	w.skip = state.Skip
	l.judge(state)
	l.log.Debug("taken over", "storedPoint", string(state.Point), "storedMode", state.Mode, "consistentSince", state.ConsistentSince, "skip", state.Skip)
	l.update(func(s *Status) {
		s.State = StateRunning
		// A target without a memo leaves the point to the source's own cursor and to what this
		// process has seen land.
		if s.Point == nil || w.traits.Transactional {
			s.Point = point
		}
		s.ConsistentSince = state.ConsistentSince
	})
	return nil
}

// judge finds out from the memo whether a fan was cut short, and how far it may have come.
func (l *Loop) judge(state logical.MemoState) {
	l.unclean = state.Point != nil && state.ConsistentSince.IsZero()
	l.uncleanUntil = nil
	if source, ok := as[logical.Stalenesser](l.dialect); ok && l.unclean {
		l.uncleanUntil, _ = source.Newest()
	}
	l.control.SetUnclean(l.unclean)
}

// whileHeld cancels when the lease is lost, until the returned function is called.
func (l *Loop) whileHeld(lease logical.Lease, cancel context.CancelCauseFunc) func() {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-lease.Lost():
			l.count(func(c *counts) { c.leasesLost++ })
			cancel(errLeaseLost)
		case <-end:
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// read keeps the source being read. After each end it has the events rolled back, and goes on from
// the consistent point.
func (l *Loop) read(ctx context.Context, in *pipe) error {
	for tries := l.newTries(); ; {
		from := l.point()
		err := l.dialect.ReadInto(ctx, from, &heard{in, l})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			err = errors.New("the source ended its stream")
		}
		l.sourceFailed("reading", err)
		if err := in.Rollback(ctx); err != nil {
			return err
		}
		if from.Compare(l.point()) != 0 {
			tries = l.newTries() // there was progress
		}
		if err := tries.wait(ctx, err); err != nil {
			return err
		}
	}
}

// heard is the outbox of one ReadInto: its first message says that the source is there.
type heard struct {
	*pipe
	loop *Loop
}

// Send implements logical.Outbox.
func (h *heard) Send(ctx context.Context, msg logical.Message) error {
	if h.loop != nil {
		h.loop.sourceHeard()
		h.loop = nil
	}
	return h.pipe.Send(ctx, msg)
}

func (l *Loop) process(ctx context.Context, in *pipe, events logical.Events) error {
	err := l.dialect.Process(ctx, in, events)
	if err == nil && ctx.Err() == nil {
		err = errors.New("logical: Process returned without an error although its inbox had not ended")
	}
	return err
}

// acknowledge tells the source of the consistent point, at most every tenth of StandbyTimeout.
func (l *Loop) acknowledge(ctx context.Context) error {
	source, ok := as[logical.Acknowledger](l.dialect)
	if !ok {
		return nil
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	var told logical.Stamp
	for {
		changed := l.Changed()
		if point := l.point(); told == nil || point.Compare(told) > 0 {
			if err := source.Acknowledge(ctx, point); err != nil {
				l.sourceFailed("telling it of progress", err)
			}
			told = point
		}
		pause.Reset(l.config.StandbyTimeout / 10)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// acknowledgeNow tells the source of the consistent point when the loop ends.
func (l *Loop) acknowledgeNow(ctx context.Context) {
	source, ok := as[logical.Acknowledger](l.dialect)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := source.Acknowledge(ctx, l.point()); err != nil {
		l.log.Warn("the source could not be told of the last progress; it sends that again", "error", err.Error())
	}
}
