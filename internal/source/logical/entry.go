package logical

import (
	"context"
	"io"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

var errRemoved = errors.New("the loop was removed while it was being made")

// An entry keeps its name from when its loop is being made until the loop has ended and its series are
// gone. Its fields are guarded by the factory's mu, except for what is written before made is closed.
type entry struct {
	settings settings
	abandon  context.CancelCauseFunc // ends the making
	making   context.Context
	made     chan struct{}
	gone     chan struct{}
	removing bool

	loop *Loop // nil if the making failed
	err  error
	own  bool // the context of whoever made it has ended: others may try
}

// enter returns the entry of the name, and whether the caller is to make its loop.
func (f *Factory) enter(ctx context.Context, want settings) (e *entry, mine bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, false, errors.Errorf("loop %s: the factory is closed", want.name)
	}
	e = f.loops[want.name]
	switch {
	case e == nil:
	case e.removing:
		return e, false, nil
	case e.loop != nil && e.loop.ended():
		e.removing = true
		f.forgetLocked(e)
	case e.settings != want:
		return nil, false, errors.Errorf("loop %s: it runs with other settings; remove it first", want.name)
	default:
		return e, false, nil
	}
	if other, taken := f.claims[want.claim()]; taken {
		return nil, false, errors.Errorf("loop %s: loop %s has its identity %q in the same target", want.name, other, want.identity)
	}
	e = &entry{settings: want, made: make(chan struct{}), gone: make(chan struct{})}
	e.making, e.abandon = context.WithCancelCause(ctx)
	f.loops[want.name] = e
	f.claims[want.claim()] = want.name
	return e, true, nil
}

// make makes the loop of an entry that is new.
func (f *Factory) make(ctx context.Context, e *entry, open func(context.Context) (logical.Dialect, error)) (*Loop, error) {
	defer e.abandon(nil)
	dialect := e.settings.dialect
	var err error
	if open != nil {
		if dialect, err = open(e.making); err == nil && dialect == nil {
			err = errors.New("Open returned no dialect")
		}
	}
	loop, err := f.made(ctx, e, dialect, err)
	if err != nil && dialect != nil {
		if err := closeOpened(e.settings, dialect); err != nil {
			f.config.Log.Warn("closing the source", "loop", e.settings.name, "error", err.Error())
		}
	}
	return loop, err
}

// made starts the loop of an entry, or forgets the entry.
func (f *Factory) made(ctx context.Context, e *entry, dialect logical.Dialect, err error) (*Loop, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer close(e.made)
	if err == nil && e.removing {
		err = errRemoved
	}
	if err == nil {
		e.loop = f.start(e.settings, dialect)
		return e.loop, nil
	}
	e.err, e.own = errors.WithMessagef(err, "loop %s", e.settings.name), ctx.Err() != nil
	if !e.removing {
		e.removing = true
		f.forgetLocked(e)
	}
	return nil, e.err
}

// await returns the loop of an entry that somebody else makes or has made, or says that it is to be looked
// for again.
func (f *Factory) await(ctx context.Context, e *entry) (loop *Loop, again bool, err error) {
	select {
	case <-e.made:
	case <-ctx.Done():
		return nil, false, errors.WithMessagef(context.Cause(ctx), "loop %s: waiting for it to be made", e.settings.name)
	}
	f.mu.Lock()
	removing := e.removing
	f.mu.Unlock()
	switch {
	case e.err != nil && !e.own && !errors.Is(e.err, errRemoved):
		return nil, false, e.err
	case !removing:
		return e.loop, false, nil
	}
	select {
	case <-e.gone:
		return nil, true, nil
	case <-ctx.Done():
		return nil, false, errors.WithMessagef(context.Cause(ctx), "loop %s: waiting for its removal", e.settings.name)
	}
}

// forget takes an entry away whose loop has ended.
func (f *Factory) forget(e *entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked(e)
}

func (f *Factory) forgetLocked(e *entry) {
	if e.loop != nil {
		f.config.Metrics.remove(e.loop)
	}
	delete(f.loops, e.settings.name)
	delete(f.claims, e.settings.claim())
	close(e.gone)
}

// closeOpened closes a dialect that Open made.
func closeOpened(s settings, dialect logical.Dialect) error {
	if closer, ok := dialect.(io.Closer); ok && s.opens {
		return closer.Close()
	}
	return nil
}
