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
	after, cursor := from.(Stamp).Sequence, d.queue.Cursor()
	if after == 0 {
		after = cursor
	}
	reader, err := d.queue.NewReader(max(after, cursor))
	if err != nil {
		return errors.WithMessage(err, "the queue cannot be read")
	}
	defer func() { _ = reader.Close() }() // it only frees memory
	for {
		// Several blocks wait in the pipe, so that each has memory of its own.
		block, err := reader.NextInto(ctx, nil)
		if err != nil {
			return err
		}
		msg := logical.Message{Body: passage{block, after}, Size: len(block.Payload) + messageBytes}
		if err := out.Send(ctx, msg); err != nil {
			return err
		}
		after = block.Sequence
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
	// The cursor follows the consistent point when that is acknowledged, so that until then this may be a
	// write that has landed, and longer if acknowledging fails.
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
