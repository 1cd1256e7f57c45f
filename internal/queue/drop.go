package queue

import (
	"github.com/pkg/errors"
)

// makeRoom drops the oldest groups until n bytes fit, and a little more, so that
// a full queue does not write a record for each append. It reports whether
// anything was dropped.
func (q *Queue) makeRoom(n int64) (bool, error) {
	q.head.mu.Lock()
	defer q.head.mu.Unlock()
	q.mu.Lock()
	limits := q.limits
	need := q.unsentLocked() + q.reserved + n - limits.MaxBytes
	q.mu.Unlock()
	// Where the store is full, and not this queue, its oldest groups make room.
	need = max(need, min(n, limits.MaxBytes))
	loss, err := q.dropWhile(LostOldest, func(g droppable) verdictOnGroup {
		return dropIf(g.dropped < need+limits.MaxBytes/64)
	})
	return loss.Blocks > 0, err
}

// Purge declares everything that is unsent lost, and returns the loss.
func (q *Queue) Purge() (Loss, error) {
	q.head.mu.Lock()
	defer q.head.mu.Unlock()
	q.mu.Lock()
	closing := q.closing
	before := q.newest
	q.mu.Unlock()
	if closing {
		return Loss{}, ErrClosed
	}
	return q.dropWhile(LostPurge, func(g droppable) verdictOnGroup { return dropIf(g.first <= before) })
}

// dropWhile drops whole groups from the head on, as long as judge says so. The
// record of it is durable before anything is given up. Called with head.mu held.
//
// Blocks that a reader has delivered, but that were not acknowledged yet, count
// as lost too: nobody can know here whether they arrived.
func (q *Queue) dropWhile(reason Reason, judge func(droppable) verdictOnGroup) (Loss, error) {
	if q.head.closed {
		return Loss{}, ErrClosed
	}
	q.mu.Lock()
	at, newest := q.head.at, q.newest
	q.mu.Unlock()
	if at.seq == 0 {
		return Loss{}, nil
	}
	d := dropping{reason: reason, expect: q.settled() + 1}
	q.books.mu.Lock()
	d.open = q.books.ledger.uncovered(d.expect, newest)
	q.books.mu.Unlock()
	for at.seg != nil {
		stopped, err := q.dropIn(at, &d, judge)
		if err != nil {
			return Loss{}, err
		}
		if stopped {
			break
		}
		// A group lies in one segment, so this one has no more to come.
		d.groupEnds()
		q.mu.Lock()
		next := q.afterLocked(at.seg)
		q.mu.Unlock()
		at = place{seg: next, off: dataStart}
	}
	if d.upTo == 0 {
		return Loss{}, nil
	}
	runs := d.result(q.cfg.Now().UnixNano())
	if err := q.declareTo(d.upTo, runs...); err != nil {
		return Loss{}, err
	}
	q.floor.Store(uint64(d.upTo))
	if err := q.advance(); err != nil {
		return Loss{}, err
	}
	q.mu.Lock()
	for r := range q.readers {
		r.poke()
	}
	q.mu.Unlock()
	q.removePassed()
	return total(runs), nil
}

// dropIn looks at the blocks of one segment. It reports whether judge said stop.
func (q *Queue) dropIn(at place, d *dropping, judge func(droppable) verdictOnGroup) (bool, error) {
	prev, _, err := q.lastBefore(at.seg)
	if err != nil {
		return false, err
	}
	d.missing(prev, 0)
	d.expect = max(d.expect, at.seg.first)
	upTo, known, err := q.lastOf(at.seg)
	if err != nil {
		return false, err
	}
	end, _ := q.readable(at.seg)
	f, err := q.fs.Open(q.path(at.seg.name))
	if isNotExist(err) {
		return false, nil // the next segment tells what is missing
	}
	if err != nil {
		return false, errors.WithStack(err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	since := q.learnSince(at.seg, f)
	s := &q.head.scan
	*s = scanner{window: window{file: f, mem: s.mem, chunk: headChunk}, seed: at.seg.seed, off: at.off, limit: end, heads: true, last: q.settled()}
	defer func() { s.file = nil }()
	for {
		b, err := s.next()
		if isEOF(err) || err == nil && known && b.Sequence > upTo {
			return false, nil
		}
		if err != nil {
			return false, errors.WithStack(err)
		}
		if b.Index == 0 || !d.any {
			// A group that lacks its end through damage ends here as well.
			d.groupEnds()
			v := judge(droppable{dropped: d.bytes, first: b.Sequence, time: b.Time, since: since})
			if v == keepIt {
				return true, nil
			}
			d.held = v == dropWithNext
		}
		d.missing(b.Sequence-1, b.bad.to-b.bad.from)
		d.block(&b)
		if b.last() {
			d.groupEnds()
		}
	}
}

// Decline counts a group that was not taken. See [Log]. The record of a loss becomes
// durable within Config.CursorEvery, together with those of others.
func (q *Queue) Decline(g *Group, keptElsewhere bool) {
	if !keptElsewhere {
		q.counts.refused.Add(1)
		return
	}
	now := q.cfg.Now().UnixNano()
	loss := Loss{
		Reason: LostNewest, Blocks: uint64(g.Blocks()), Points: g.Points(), Bytes: g.Size(),
		Exact: true, Time: now, Oldest: now, Newest: now,
	}
	q.books.mu.Lock()
	q.books.ledger.add(loss)
	q.books.dirty = true
	q.books.mu.Unlock()
	q.tellLoss(loss)
	q.keeper.acked()
}

// saveDirtyBooks writes what Decline has counted.
func (q *Queue) saveDirtyBooks() error {
	q.books.mu.Lock()
	defer q.books.mu.Unlock()
	if !q.books.dirty {
		return nil
	}
	if err := q.saveLedger(&q.books.ledger); err != nil {
		return err
	}
	q.books.dirty = false
	return nil
}
