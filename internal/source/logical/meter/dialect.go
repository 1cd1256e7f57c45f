package meter

import (
	"context"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Dialect returns the dialect with its reads and its events counted.
func (m *Meter) Dialect(d logical.Dialect) logical.Dialect { return &dialect{d, m} }

type dialect struct {
	logical.Dialect
	meter *Meter
}

// Unwrap returns the dialect inside, which may have capabilities that this one has not.
func (d *dialect) Unwrap() any { return d.Dialect }

// ReadInto implements logical.Dialect.
func (d *dialect) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	err := d.Dialect.ReadInto(ctx, from, out)
	if ctx.Err() == nil {
		d.meter.reconnects.Add(1)
	}
	return err
}

// Process implements logical.Dialect.
func (d *dialect) Process(ctx context.Context, in logical.Inbox, sink logical.Events) error {
	return d.Dialect.Process(ctx, in, &events{sink, d.meter})
}

type events struct {
	logical.Events
	meter *Meter
}

// OnCommit implements logical.Events.
func (e *events) OnCommit(ctx context.Context) error {
	e.meter.sourceTxs.Add(1)
	return e.Events.OnCommit(ctx)
}

// OnRollback implements logical.Events.
func (e *events) OnRollback(ctx context.Context) error {
	e.meter.sourceRollbacks.Add(1)
	return e.Events.OnRollback(ctx)
}
