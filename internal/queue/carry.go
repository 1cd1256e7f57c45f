package queue

import (
	"github.com/pkg/errors"
)

// carryBlocks writes what lies between from and to in the old segment into a new
// one, makes it durable, and only then lets it take the old one's place.
func (w *writer) carryBlocks(old *segment, from, to int64) error {
	q := w.q
	if w.file != nil {
		_ = w.file.Close() // its sync has failed; there is nothing more to learn
	}
	oldCapacity := w.capacity
	w.file, w.seg, w.alloc = nil, nil, false
	first := w.durable + 1
	newest, newestTime := w.prev, w.prevTime
	q.mu.Lock()
	mark := q.mark
	q.mu.Unlock()
	back := func(err error) error {
		w.abandon(gapCarried, true)
		q.setMark(mark)
		w.seg, w.off, w.synced, w.capacity, w.named = old, to, from, oldCapacity, true
		w.prev, w.prevTime, w.doomed = newest, newestTime, true
		return err
	}
	// The header must name the last block that is durable before this segment.
	w.prev, w.reason = w.durable, gapCarried
	if err := w.create(first, max(oldCapacity, dataStart+(to-from)+w.batchSize())); err != nil {
		return back(err)
	}
	lost, err := w.copyBlocks(old, from, to, newest)
	if err == nil {
		w.written = newest
		err = w.sync()
	}
	if err != nil {
		return back(err)
	}
	if len(lost) > 0 {
		if err := q.declare(lost...); err != nil {
			return back(err)
		}
	}
	w.prev, w.prevTime, w.durable, w.doomed = newest, newestTime, newest, false
	w.reason = gapNone
	if len(w.places) == 0 {
		w.abandon(gapCarried, true) // nothing could be read back
	}
	q.replaceEnd(old, from, first-1, w.seg, w.off, w.places)
	return nil
}

// copyBlocks reads blocks of the old segment and writes them to the one at hand.
func (w *writer) copyBlocks(old *segment, from, to int64, newest Sequence) ([]Loss, error) {
	f, err := w.q.fs.Open(w.q.path(old.name))
	if err != nil {
		return nil, errors.Wrapf(err, "queue %s: read back", w.q.name)
	}
	defer func() { _ = f.Close() }() // nothing was written
	s := scanner{window: window{file: f, chunk: readChunk}, seed: old.seed, off: from, limit: to, last: w.durable}
	w.places = w.places[:0]
	w.staging, w.stageAt = w.header(), 0
	var lost []Loss
	expect := w.durable + 1
	for {
		b, err := s.next()
		upTo := newest
		if err == nil {
			upTo = b.Sequence - 1
		} else if !isEOF(err) {
			return nil, errors.Wrapf(err, "queue %s: read back", w.q.name)
		}
		if upTo >= expect {
			lost = append(lost, Loss{
				Reason: LostUnsynced, First: expect, Last: upTo, Blocks: uint64(upTo - expect + 1),
				Points: b.bad.points, Bytes: b.bad.to - b.bad.from, Exact: b.bad.blocks == uint64(upTo-expect+1), Time: w.q.cfg.Now().UnixNano(),
			})
		}
		if err != nil {
			break
		}
		expect = b.Sequence + 1
		if err := w.copyBlock(b); err != nil {
			return nil, err
		}
	}
	return lost, w.flush()
}

func (w *writer) copyBlock(b scanned) error {
	h := b.blockHead
	h.Synced = 0
	w.places = append(w.places, place{seg: w.seg, off: w.off, seq: h.Sequence, time: h.Time})
	n := len(w.staging)
	size := int(h.size())
	w.staging = grow(w.staging, size)[:n+size]
	clear(w.staging[n:])
	h.encode(w.staging[n:], w.seg.seed, w.off)
	copy(w.staging[n+blockHeadSize:], b.stored)
	w.off += h.size()
	if len(w.staging) >= 4*directFrom {
		return w.flush()
	}
	return nil
}
