package logical

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
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
	lease, giveBack, err := l.lease(stop)
	if err != nil {
		return err
	}
	defer giveBack()
	w, release, err := l.takeOver(ctx, stop)
	if err != nil {
		return err
	}
	defer release()
	defer l.welcome(w)()
	w.fail = cancel
	held := &holding{loop: l, session: w.session, source: lease, cancel: cancel}

	// The source is read and processed until stop; what has been handed to a sink by then lands.
	source, endSource := context.WithCancelCause(stop)
	defer endSource(nil)
	defer context.AfterFunc(ctx, func() { endSource(context.Cause(ctx)) })()
	events := newSwitcher(w)
	defer events.stop(errStopped)
	in := newPipe(l.piped)
	defer in.close()
	group, source := errgroup.WithContext(source)
	group.Go(func() error { return l.read(source, in, events) })
	group.Go(func() error { return l.process(source, in, events) })
	attendant := &attendant{loop: l, events: events}
	if err := attendant.attend(source, held); err != nil {
		endSource(err)
	}
	defer held.while()()
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
	session, err := l.meter.Take(taking, l.target, logical.Claim{Loop: l.identity, Holder: l.holder, TTL: l.config.LeaseTTL})
	if err != nil {
		return nil, nil, err
	}
	release := func() { l.release(ctx, session) }
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
		if point, err = l.resume(ctx, state.Point); err != nil {
			return err
		}
	}
	if err := l.loadLetters(ctx, w); err != nil {
		return err
	}
	if w.skip = state.Skip; w.skip > 0 && !l.means(point, state.Point) {
		w.skip = 0 // it is about a transaction that the source no longer knows
	}
	l.judge(state)
	l.log.Debug("taken over", "storedPoint", string(state.Point), "storedMode", state.Mode, "consistentSince", state.ConsistentSince, "skip", state.Skip)
	l.update(func(s *Status) {
		s.State, s.Err = StateRunning, nil
		// A target without a memo leaves the point to the source's own cursor and to what this
		// process has seen land.
		if s.Point == nil || w.traits.Transactional {
			s.Point = point
		}
		s.ConsistentSince = state.ConsistentSince
	})
	return nil
}

// resume tells the source where the target says that it was, and returns what that is to the source.
func (l *Loop) resume(ctx context.Context, stored []byte) (logical.Stamp, error) {
	if source, ok := as[logical.Resumer](l.dialect); ok {
		if err := source.Resume(ctx, stored); err != nil {
			return nil, err
		}
	}
	return l.dialect.DecodeStamp(stored)
}

// means reports whether a point is what was stored of it, and not a translation. Doubt is no harm: what is
// not skipped is applied again.
func (l *Loop) means(point logical.Stamp, stored []byte) bool {
	if point.Compare(l.dialect.ZeroStamp()) != 0 {
		return true
	}
	text, err := encodeStamp(point)
	return err == nil && sameJSON(text, stored)
}

// sameJSON reports whether two texts say the same: databases store JSON in forms of their own.
func sameJSON(a, b []byte) bool {
	var values [2]any
	for i, text := range [][]byte{a, b} {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// judge finds out from the memo whether a fan was cut short, and how far it may have come. A loop that
// begins has everything to catch up with, if its source has a faster way for that.
func (l *Loop) judge(state logical.MemoState) {
	l.cutShort = state.Point != nil && state.ConsistentSince.IsZero()
	l.uncleanUntil, l.torn = nil, nil // what was torn counts as cut short
	if source, ok := as[logical.Stalenesser](l.dialect); ok && l.cutShort {
		if newest, known := source.Newest(); known {
			l.uncleanUntil = newest
		}
	}
	_, backfills := as[logical.Backfiller](l.dialect)
	l.unclean = l.cutShort || state.Point == nil && backfills
	l.control.SetUnclean(l.unclean)
}

// tear says that parts of a transaction are in the target, or are going to be, which is to be read again. It is
// called under the switcher's lock.
func (l *Loop) tear(stamp logical.Stamp) {
	if l.torn == nil || l.torn.Compare(stamp) < 0 {
		l.torn = stamp
	}
	l.unclean = true
	l.control.SetUnclean(true)
}
