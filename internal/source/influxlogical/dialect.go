package influxlogical

import (
	"context"
	"log/slog"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/logical"
)

// chunk is how many mutations are handed to the loop at once: few enough that what a block becomes
// is bounded by the loop's budget and not by the block, and enough to make the call cheap.
const chunk = 512

// messageBytes is what a block takes beside its payload on its way through the loop.
const messageBytes = 256

// dialect reads a stream's queue. A write request, which is a group of blocks, is one transaction.
type dialect struct {
	queue    *queue.Queue
	decoder  *lineprotocol.Decoder
	decoding lineprotocol.DecoderConfig
	log      *slog.Logger
	// note is told of what an operator should know about the position in the queue.
	note func(Notice)
}

var (
	_ logical.Resumer      = (*dialect)(nil)
	_ logical.Acknowledger = (*dialect)(nil)
	_ logical.Stalenesser  = (*dialect)(nil)
	_ logical.Replayer     = (*dialect)(nil)
)

// ReadInto implements logical.Dialect.
func (d *dialect) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	after := max(from.(Stamp).Sequence, d.queue.Cursor())
	reader, err := d.queue.NewReader(after)
	if err != nil {
		return errors.WithMessage(err, "the queue cannot be read")
	}
	defer func() { _ = reader.Close() }() // it only frees memory
	for {
		// The mutations point into the payload, so that each block has memory of its own.
		block, err := reader.NextInto(ctx, nil)
		if err != nil {
			return err
		}
		if err := out.Send(ctx, logical.Message{Body: block, Size: len(block.Payload) + messageBytes}); err != nil {
			return err
		}
	}
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
			p.open = false
			err = events.OnRollback(ctx)
		} else {
			err = p.block(ctx, msg.Body.(queue.Block))
		}
		if err != nil {
			return err
		}
	}
}

// Acknowledge implements logical.Acknowledger.
func (d *dialect) Acknowledge(_ context.Context, stamp logical.Stamp) error {
	s := stamp.(Stamp)
	if s.Queue != d.queue.ID() {
		return nil // the zero stamp
	}
	return d.queue.Ack(s.Sequence)
}

// OldestPending implements logical.Stalenesser: the queue knows, also of what has not been read.
func (d *dialect) OldestPending(after logical.Stamp) (time.Time, bool) {
	if d.queue.Newest() <= after.(Stamp).Sequence {
		return time.Time{}, true
	}
	// The cursor follows the consistent point, so that this may be a write that has just landed: older
	// by at most the time between two acknowledgements.
	oldest := d.queue.OldestUnsent()
	if oldest == 0 {
		return time.Time{}, true
	}
	return time.Unix(0, oldest), true
}

// Newest implements logical.Stalenesser.
func (d *dialect) Newest() (logical.Stamp, bool) {
	return Stamp{Queue: d.queue.ID(), Sequence: d.queue.Newest()}, true
}

// Replay implements logical.Replayer: what is null in the point's row is filled, and what has arrived since
// stays.
func (d *dialect) Replay(letter logical.DeadLetter) (logical.Mutation, error) {
	decoder := lineprotocol.NewDecoder(d.decoding) // that of Process is busy
	line := append(append([]byte(nil), letter.Payload...), '\n')
	muts, _, err := decoder.Decode(nil, line, 0)
	if err == nil && len(muts) != 1 {
		err = errors.Errorf("%d points", len(muts))
	}
	if err != nil {
		return logical.Mutation{}, errors.WithMessage(err, "the letter holds no line of line protocol")
	}
	muts[0].Op = logical.OpFill
	return muts[0], nil
}

// processor decodes the blocks of one run of Process.
type processor struct {
	dialect *dialect
	events  logical.Events
	open    bool // inside a group
	muts    []logical.Mutation
}

// block passes one block on.
func (p *processor) block(ctx context.Context, b queue.Block) error {
	if !p.open {
		stamp := Stamp{Queue: p.dialect.queue.ID(), Sequence: b.Group, Enqueued: b.Time}
		if err := p.events.OnBegin(ctx, stamp); err != nil {
			return err
		}
		p.open = true
	}
	if err := p.data(ctx, b); err != nil {
		return err
	}
	if !b.Last {
		return nil
	}
	p.open = false
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
