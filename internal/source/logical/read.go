package logical

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// read keeps the source being read. After each end it has the events rolled back, and goes on from
// the consistent point.
func (l *Loop) read(ctx context.Context, in *pipe, events *switcher) error {
	for tries := l.newTries(); ; {
		from := l.point()
		err := l.readOnce(ctx, from, in, events)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			err = errors.New("the source ended its stream")
		}
		l.sourceFailed(reading, err)
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

// readOnce reads the source until that fails: while a fan is at work by the faster way that it may have
// to catch up, and then by the one that has no end.
func (l *Loop) readOnce(ctx context.Context, from logical.Stamp, in *pipe, events *switcher) error {
	out := &heard{in, l}
	if source, ok := as[logical.Backfiller](l.dialect); ok {
		begun, err := events.beginBackfill(ctx)
		if err != nil {
			return err
		}
		if begun {
			l.log.Info("backfilling", "from", from)
			if err := source.BackfillInto(ctx, from, out); err != nil {
				return err
			}
			if err := in.Flush(ctx); err != nil {
				return err
			}
			if from, err = events.endBackfill(ctx, from); err != nil {
				return err
			}
			l.log.Info("backfilled; following the source", "from", from)
		}
	}
	return l.dialect.ReadInto(ctx, from, out)
}

// heard is the outbox of one ReadInto: its first message says that the source is there.
type heard struct {
	*pipe
	loop *Loop
}

// Send implements logical.Outbox.
func (h *heard) Send(ctx context.Context, msg logical.Message) error {
	if h.loop != nil {
		h.loop.sourceDid(reading)
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
