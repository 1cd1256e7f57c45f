package chaos

import (
	"context"
	"sync/atomic"

	"github.com/tailrace-cdc/tailrace/logical"
)

// storm bounds how many reads in a row fail at once.
const storm = 8

// Dialect returns the dialect of a loop with its source, its decoding and its events struck.
func (c *Chaos) Dialect(loop string, d logical.Dialect) logical.Dialect {
	if c == nil {
		return d
	}
	return &dialect{Dialect: d, chaos: c, loop: loop}
}

type dialect struct {
	logical.Dialect
	chaos *Chaos
	loop  string
	storm atomic.Int64 // how many of the next reads fail
}

// Unwrap returns the dialect inside, which may have capabilities that this one has not.
func (d *dialect) Unwrap() any { return d.Dialect }

// ReadInto implements logical.Dialect.
func (d *dialect) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	return d.read(ctx, out, func(ctx context.Context, out logical.Outbox) error {
		return d.Dialect.ReadInto(ctx, from, out)
	})
}

// read runs a read of the source until it is struck.
func (d *dialect) read(ctx context.Context, out logical.Outbox, f func(context.Context, logical.Outbox) error) error {
	s, err := d.chaos.strike(ctx, d.loop, "read")
	if err != nil {
		return err
	}
	if d.storm.Load() > 0 {
		d.storm.Add(-1)
		return strike{way: before, site: "read, in a storm"}.err(logical.ClassRetry)
	}
	if s.way == before || s.way == after {
		if s.choose(3) == 0 {
			d.storm.Store(int64(1 + s.choose(storm)))
		}
		return s.err(logical.ClassRetry)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	box := &outbox{Outbox: out, dialect: d, cancel: cancel}
	err = f(ctx, box)
	if box.err != nil {
		return box.err
	}
	return err
}

// outbox is that of one read. When it is struck, the read ends.
type outbox struct {
	logical.Outbox
	dialect *dialect
	cancel  context.CancelCauseFunc
	err     error
}

// Send implements logical.Outbox.
func (o *outbox) Send(ctx context.Context, msg logical.Message) error {
	if o.err != nil {
		return o.err
	}
	s, err := o.dialect.chaos.strike(ctx, o.dialect.loop, "send")
	if err != nil {
		return err
	}
	sent := false
	err = s.around(func() error {
		sent = true
		return o.Outbox.Send(ctx, msg)
	})
	if err != nil && (!sent || s.way == after) {
		o.err = err
		o.cancel(err)
	}
	return err
}

// Process implements logical.Dialect.
func (d *dialect) Process(ctx context.Context, in logical.Inbox, sink logical.Events) error {
	return d.Dialect.Process(ctx, in, &events{sink, d.chaos, d.loop})
}

// Acknowledge implements logical.Acknowledger; a dialect that is none is not told.
func (d *dialect) Acknowledge(ctx context.Context, stamp logical.Stamp) error {
	source, ok := d.Dialect.(logical.Acknowledger)
	if !ok {
		return nil
	}
	return d.chaos.call(ctx, d.loop, "acknowledge", func() error { return source.Acknowledge(ctx, stamp) })
}

// events are those of one Process. An error that they return ends it, whatever they did before.
type events struct {
	sink  logical.Events
	chaos *Chaos
	loop  string
}

// OnBegin implements logical.Events.
func (e *events) OnBegin(ctx context.Context, stamp logical.Stamp) error {
	return e.chaos.call(ctx, e.loop, "begin event", func() error { return e.sink.OnBegin(ctx, stamp) })
}

// OnData implements logical.Events.
func (e *events) OnData(ctx context.Context, muts []logical.Mutation) error {
	return e.chaos.call(ctx, e.loop, "data event", func() error { return e.sink.OnData(ctx, muts) })
}

// OnCommit implements logical.Events.
func (e *events) OnCommit(ctx context.Context) error {
	return e.chaos.call(ctx, e.loop, "commit event", func() error { return e.sink.OnCommit(ctx) })
}

// OnRollback implements logical.Events.
func (e *events) OnRollback(ctx context.Context) error {
	return e.chaos.call(ctx, e.loop, "rollback event", func() error { return e.sink.OnRollback(ctx) })
}
