package queue

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// readChunk is how much is read at once.
const readChunk = 256 << 10

// reader implements Reader.
type reader struct {
	q     *Queue
	seg   *segment
	file  disk.File
	scan  scanner
	dec   decoder
	out   []byte        // decoded payload for Next
	poked chan struct{} // something may be new
	idle  *time.Timer

	upTo    Sequence // the last valid sequence of the segment, if it is known
	last    Sequence // everything up to here was delivered, lost, or never there
	block   *scanned // the one that is being delivered
	peek    *scanned // the block after it, if peeked
	peeked  bool
	trouble trouble
	closed  bool
}

// NewReader returns a reader of the blocks after a sequence. What was acknowledged
// or dropped is not delivered again, so zero means the oldest unsent block.
func (q *Queue) NewReader(after Sequence) (Reader, error) {
	r := &reader{q: q, last: max(after, q.settled()), poked: make(chan struct{}, 1), idle: time.NewTimer(q.cfg.IdleAfter)}
	r.block, r.peek = new(scanned), new(scanned)
	r.scan.chunk, r.scan.alone = q.cfg.chunk, q.cfg.manual
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		return nil, ErrClosed
	}
	q.readers[r] = struct{}{}
	return r, nil
}

// poke wakes the reader if it waits. It never blocks.
func (r *reader) poke() {
	select {
	case r.poked <- struct{}{}:
	default:
	}
}

// Next waits for the next block; its payload is valid until the next call.
func (r *reader) Next(ctx context.Context) (Block, error) {
	b, err := r.next(ctx, r.out, true)
	return b, err
}

// NextInto waits for the next block and puts its payload into the caller's memory.
func (r *reader) NextInto(ctx context.Context, dst []byte) (Block, error) {
	return r.next(ctx, dst, false)
}

func (r *reader) next(ctx context.Context, dst []byte, own bool) (Block, error) {
	if r.closed {
		return Block{}, ErrClosed
	}
	if err := r.take(ctx); err != nil {
		return Block{}, err
	}
	b := r.block
	// What comes next decides whether this block ends its group. Most often it is in
	// the read buffer already, so that the payload may stay there too.
	ends, looked := b.last(), b.last()
	if !looked {
		ends, looked = r.peekInPlace()
	}
	stays := own && looked
	payload, err := r.dec.decode(&b.blockHead, b.stored, dst, stays)
	if err != nil {
		// Its sums are right, so it was like this when it was written. It is declared
		// lost, and delivered empty, for the sake of its group's end.
		if err := r.undecodable(b, err); err != nil {
			r.stepBack(r.seg)
			return Block{}, err
		}
		b.Points, payload = 0, nil
	}
	if own && (b.Codec != codecNone || !stays) && payload != nil {
		r.out = payload[:0]
	}
	if !looked {
		if ends, err = r.endsGroup(); err != nil {
			return Block{}, err
		}
	}
	return Block{
		Sequence: b.Sequence, Time: b.Time, Points: int(b.Points), Kind: b.Kind, Group: b.groupEnd(), Last: ends,
		Payload: payload,
	}, nil
}

// peekInPlace is endsGroup without moving the read buffer. It reports whether it
// could tell.
func (r *reader) peekInPlace() (ends, looked bool) {
	b, next := r.block, r.peek
	if Sequence(r.q.floor.Load()) >= b.Sequence {
		return false, false
	}
	off := r.scan.off
	if !r.scan.inPlace(next, b.off) {
		return false, false
	}
	if next.Sequence > r.upTo {
		r.scan.off = off
		return false, false
	}
	r.took(next)
	r.peeked = true
	return next.group() != b.group(), true
}

// took notes that a block was found.
func (r *reader) took(b *scanned) {
	r.last, r.scan.last = b.Sequence, b.Sequence
	r.trouble.passes(b.Sequence)
	// Whoever acknowledges this group wants to know where the next one begins.
	ends := b.last() && r.scan.off < r.scan.limit && b.Sequence < r.upTo
	if b.Index == 0 || ends {
		r.q.passedBy(r.seg, b, ends)
	}
}

// take moves on to the block that was peeked at, or waits for one.
func (r *reader) take(ctx context.Context) error {
	if r.peeked {
		r.peeked = false
		if r.peek.Sequence > Sequence(r.q.floor.Load()) {
			r.block, r.peek = r.peek, r.block
			return nil
		}
	}
	return r.find(ctx, r.block, true)
}

// endsGroup reports whether the block is the last of its group that will come,
// though it is not marked so: its successors are damaged.
func (r *reader) endsGroup() (bool, error) {
	seg, b := r.seg, r.block
	err := r.find(context.Background(), r.peek, false)
	if errors.Is(err, errNothingYet) {
		return true, nil
	}
	if err != nil {
		r.stepBack(seg) // it has to be delivered with the right mark
		return false, err
	}
	r.peeked = true
	return r.peek.group() != b.group(), nil
}

// stepBack makes the block, which was found in seg, come again.
func (r *reader) stepBack(seg *segment) {
	r.last, r.peeked = r.block.Sequence-1, false
	if r.seg == seg {
		r.scan.off, r.scan.last = r.block.off, r.last
	} else {
		r.leave()
	}
}

var errNothingYet = errors.New("queue: nothing yet")

// find finds the next good block, and declares lost what it passes over. It waits
// for one if wait is set, else it fails with errNothingYet.
func (r *reader) find(ctx context.Context, b *scanned, wait bool) error {
	for {
		if r.q.ended.Load() {
			r.leave()
			r.scan.free()
			return ErrClosed
		}
		if floor := Sequence(r.q.floor.Load()); floor > r.last {
			r.last = floor
			r.leave()
		}
		if r.seg == nil || r.scan.off >= r.scan.limit {
			moved, err := r.move()
			if err != nil {
				return err
			}
			if moved {
				continue
			}
			if !wait {
				return errNothingYet
			}
			if err := r.wait(ctx); err != nil {
				return err
			}
			continue
		}
		if err := r.open(); err != nil {
			return err
		}
		from := r.scan.off
		err := r.scan.nextInto(b)
		if err != nil && !isEOF(err) {
			if err = r.failed(err); err != nil {
				return err
			}
			continue
		}
		eof := err != nil
		if eof {
			r.trouble.failures = 0
		}
		if !eof && b.Sequence > r.upTo {
			r.scan.off = r.scan.limit // leftovers of a failed write
			eof = true
		}
		if err := r.account(b, eof); err != nil {
			r.scan.off = from
			return err
		}
		if eof {
			continue
		}
		r.took(b)
		return nil
	}
}

// wait waits until something may be new. A reader that waits for long closes its
// file, so that an idle queue holds none.
func (r *reader) wait(ctx context.Context) error {
	r.scan.rest()
	r.idle.Reset(r.q.cfg.IdleAfter)
	for {
		select {
		case <-r.poked:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.idle.C:
			r.closeFile()
			r.scan.free()
		}
	}
}

// Close frees what the reader holds.
func (r *reader) Close() error {
	r.q.mu.Lock()
	delete(r.q.readers, r)
	r.q.mu.Unlock()
	r.closed = true
	r.idle.Stop()
	r.leave()
	r.scan.free()
	r.dec.close()
	return nil
}
