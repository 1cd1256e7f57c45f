package influxlogical

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/logical"
)

// chunk is how many mutations are handed to the loop at once: few enough that what a block becomes
// is bounded by the loop's budget and not by the block, and enough to make the call cheap.
const chunk = 512

// passage is a block on its way to Process.
type passage struct {
	queue.Block
	// after is the number that came before it: of the last block, or of the point that was read from.
	after queue.Sequence
}

// Process implements logical.Dialect.
func (d *dialect) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	p := processor{dialect: d, events: events}
	for {
		msg, err := in.Receive(ctx)
		if err != nil {
			return err
		}
		if msg.Rollback {
			p.open, p.ended = false, 0
			err = events.OnRollback(ctx)
		} else {
			err = p.pass(ctx, msg.Body.(passage))
		}
		if err != nil {
			return err
		}
	}
}

// processor decodes the blocks of one run of Process.
type processor struct {
	dialect *dialect
	events  logical.Events
	open    bool           // inside a group
	group   queue.Sequence // that group
	ended   queue.Sequence // the newest transaction that has ended since the start or a rollback
	muts    []logical.Mutation
}

// pass passes one block on.
func (p *processor) pass(ctx context.Context, b passage) error {
	if p.open && b.Group != p.group {
		// The rest of the group was dropped while it was read, and is declared lost, as where it is damaged.
		if err := p.end(ctx); err != nil {
			return err
		}
	}
	if !p.open {
		if err := p.passOver(ctx, b); err != nil {
			return err
		}
		if err := p.begin(ctx, b.Group, b.Time); err != nil {
			return err
		}
	}
	if err := p.data(ctx, b.Block); err != nil {
		return err
	}
	if !b.Last {
		return nil
	}
	return p.end(ctx)
}

// passOver makes what is missing before a block a transaction without data. It moves the consistent point,
// and what a fan has brought of a group that was dropped since is not taken for a part of the next one.
func (p *processor) passOver(ctx context.Context, b passage) error {
	if b.Sequence-1 <= max(b.after, p.ended) {
		return nil
	}
	if err := p.begin(ctx, b.Sequence-1, b.Time); err != nil {
		return err
	}
	return p.end(ctx)
}

func (p *processor) begin(ctx context.Context, group queue.Sequence, enqueued int64) error {
	p.open, p.group = true, group
	return p.events.OnBegin(ctx, Stamp{Queue: p.dialect.queue.ID(), Sequence: group, Enqueued: enqueued})
}

func (p *processor) end(ctx context.Context) error {
	p.open, p.ended = false, p.group
	return p.events.OnCommit(ctx)
}

// data decodes the lines of a block, a chunk at a time.
func (p *processor) data(ctx context.Context, b queue.Block) error {
	for rest := b.Payload; len(rest) > 0; {
		var err error
		p.muts, rest, err = p.dialect.decoder.Decode(p.muts[:0], rest, chunk)
		if err != nil {
			return errors.WithMessagef(err, "block %d of the queue", b.Sequence)
		}
		if err := p.events.OnData(ctx, p.muts); err != nil {
			return err
		}
	}
	return nil
}
