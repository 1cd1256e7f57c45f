package queue

import (
	"slices"
	"sync"

	"github.com/pkg/errors"
)

// head is where sending begins: the first block that is neither acknowledged nor
// dropped. mu lets one goroutine at a time move it, and covers the cursor file;
// where it is, is guarded by Queue.mu.
type head struct {
	mu sync.Mutex
	at place // seq is zero if nothing is unsent

	closed bool     // Close has gone by: nothing is written, dropped or looked up any more
	saved  Sequence // newest acknowledgement that is durable
	stale  bool     // the cursor file lacks something else
	looked int64    // when blocks behind one from the future were looked at

	noticed noticed // of at and those behind it; guarded by Queue.mu
	warned  bool    // of that; guarded by Queue.mu
	scan    scanner // for looking up where a block lies
}

// The head looks at headers only, so it reads in small pieces.
const headChunk = 32 << 10

// Ack moves the cursor. See [Log].
//
// It is durable within Config.CursorEvery; until then, what was acknowledged is
// delivered again after a crash.
func (q *Queue) Ack(seq Sequence) error {
	q.head.mu.Lock()
	defer q.head.mu.Unlock()
	q.mu.Lock()
	newest, closing := q.newest, q.closing
	q.mu.Unlock()
	switch {
	case closing:
		return ErrClosed
	case seq <= q.Cursor():
		return nil
	case seq > newest && seq > q.settled():
		return errors.WithStack(&AckError{Queue: q.name, Sequence: seq, Last: newest})
	}
	q.cursor.Store(uint64(seq))
	// The cursor has moved; that the head could not follow only means that some
	// bytes are still counted as unsent.
	if err := q.advance(); err != nil {
		q.warn(errors.Wrapf(err, "queue %s: look up the first unsent block", q.name))
	}
	q.keeper.acked()
	return nil
}

// advance moves the head behind what is acknowledged or dropped. Called with
// head.mu held.
func (q *Queue) advance() error {
	from, done := q.nearest(q.settled())
	if done {
		return nil
	}
	return q.seek(from)
}

// seek moves the head to the first block at or behind a place that is still to
// be sent. Called with head.mu held.
func (q *Queue) seek(from place) error {
	target := q.settled()
	for {
		end, _ := q.readable(from.seg)
		found, bad, err := q.walk(from, end, target)
		if err != nil {
			return err
		}
		q.mu.Lock()
		next := q.afterLocked(from.seg)
		switch {
		case found.seg != nil:
			q.setHeadLocked(found)
		case next != nil:
			q.mu.Unlock()
			if err := q.keepEnd(from.seg, bad, target); err != nil {
				return err
			}
			from = place{seg: next, off: dataStart}
			continue
		case from.seg.end > end: // something came meanwhile
			q.mu.Unlock()
			continue
		case q.newest > target && from.seg.sealed:
			q.mu.Unlock()
			return q.loseEnd(from.seg, bad, target)
		default:
			q.setEndLocked()
		}
		q.mu.Unlock()
		return nil
	}
}

// keepEnd keeps the damaged end of a segment aside, which is about to be left behind
// though nobody has read it. What is missing there is declared by whoever comes by
// the next segment.
func (q *Queue) keepEnd(seg *segment, bad badRange, target Sequence) error {
	if bad.empty() {
		return nil
	}
	last, known, err := q.lastOf(seg)
	if err == nil && known && last > target {
		q.setAside(seg, bad.from, bad.to)
	}
	return err
}

// loseEnd declares lost what is behind target, where nothing good is left, and moves
// the head behind it. Called with head.mu held.
func (q *Queue) loseEnd(newest *segment, bad badRange, target Sequence) error {
	d := dropping{reason: LostCorrupt, expect: target + 1}
	q.mu.Lock()
	segs, last := slices.Clone(q.segs), q.newest
	q.mu.Unlock()
	q.books.mu.Lock()
	d.open = q.books.ledger.uncovered(d.expect, last)
	q.books.mu.Unlock()
	for _, seg := range segs {
		prev, _, err := q.lastBefore(seg)
		if err != nil {
			return err
		}
		d.missing(prev, 0)
		d.expect = max(d.expect, seg.first)
	}
	end, known, err := q.lastOf(newest)
	if err != nil {
		return err
	}
	if known {
		d.missing(end, bad.to-bad.from)
	}
	if len(d.runs) > 0 && !bad.empty() {
		q.setAside(newest, bad.from, bad.to)
	}
	if err := q.declare(d.all(q.cfg.Now().UnixNano())...); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.newest == last { // else there is something good again
		q.setEndLocked()
	}
	return nil
}

// resolve looks at the first unsent block if only its place is known. Called with
// head.mu held.
func (q *Queue) resolve() error {
	q.mu.Lock()
	at := q.head.at
	q.mu.Unlock()
	if at.seq == 0 || at.time != 0 || q.head.closed {
		return nil
	}
	return q.seek(at)
}

// nearest returns the best known place to look for the first block after target,
// or moves the head there if it is known exactly.
func (q *Queue) nearest(target Sequence) (from place, done bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.head.at
	if at.seq == 0 || at.seq > target {
		return at, true
	}
	if target >= q.newest {
		q.setEndLocked()
		return at, true
	}
	for _, x := range []*index{&q.ahead, &q.tail} {
		if p, ok := x.find(target + 1); ok && p.seq > at.seq {
			at = p
		}
	}
	if at.seq == target+1 {
		q.setHeadLocked(at)
		return at, true
	}
	return at, false
}

// walk looks for the first block after target in the segment of from, up to end. It
// returns no segment if there is none, and then what is damaged there.
func (q *Queue) walk(from place, end int64, target Sequence) (place, badRange, error) {
	f, err := q.fs.Open(q.path(from.seg.name))
	if isNotExist(err) {
		return place{}, badRange{}, nil // removed by hand
	}
	if err != nil {
		return place{}, badRange{}, errors.WithStack(err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	q.learnSince(from.seg, f)
	s := &q.head.scan
	*s = scanner{window: window{file: f, mem: s.mem, chunk: headChunk}, seed: from.seg.seed, off: from.off, limit: end, heads: true, last: target}
	b, err := s.next()
	s.file = nil
	if isEOF(err) {
		return place{}, b.bad, nil
	}
	if err != nil {
		return place{}, badRange{}, errors.WithStack(err)
	}
	return place{seg: from.seg, off: b.off, seq: b.Sequence, time: b.Time}, badRange{}, nil
}

// saveCursor makes the cursor durable. Called with head.mu held. With clean it
// says that the queue was closed, so that numbers may go on without a gap.
func (q *Queue) saveCursor(clean bool) error {
	if q.Cursor() == q.head.saved && !clean && !q.head.stale {
		return nil
	}
	q.mu.Lock()
	c := q.cursorLocked()
	q.mu.Unlock()
	c.Clean = clean
	if err := replaceFile(q.fs, q.dir, cursorName, c.encode()); err != nil {
		return errors.Wrapf(err, "queue %s: save cursor", q.name)
	}
	q.head.saved, q.head.stale = c.Acked, false
	return nil
}

// cursorLocked returns the content of the cursor file, as of now.
func (q *Queue) cursorLocked() cursor {
	c := cursor{ID: q.id, Acked: q.Cursor(), LastTime: q.lastTime, Next: q.next}
	if at := q.head.at; at.seg != nil && at.seq != 0 {
		c.HeadFirst, c.HeadGen, c.HeadOff = at.seg.first, at.seg.gen, at.off
	}
	if m := q.mark; m.seg != nil {
		c.MarkFirst, c.MarkGen, c.MarkOff, c.MarkSeq = m.seg.first, m.seg.gen, m.off, m.seq
	}
	return c
}

// removePassed removes segments of which nothing is to be sent any more. Called
// with head.mu held. A file that cannot be removed (on some systems because a
// reader has it open) is tried again later.
func (q *Queue) removePassed() {
	q.mu.Lock()
	list := q.passed
	q.passed = nil
	q.mu.Unlock()
	safe := max(q.head.saved, Sequence(q.floor.Load()))
	var left []passed
	removed := false
	for _, p := range list {
		if p.upTo > safe {
			left = append(left, p)
			continue
		}
		if err := q.fs.Remove(q.path(p.name)); err != nil && !isNotExist(err) {
			q.warn(errors.Wrapf(err, "queue %s: remove a segment that was sent", q.name))
			left = append(left, p)
			continue
		}
		removed = true
	}
	q.mu.Lock()
	q.passed = append(left, q.passed...)
	q.mu.Unlock()
	if removed {
		if err := q.fs.SyncDir(q.dir); err != nil {
			q.warn(errors.Wrapf(err, "queue %s: sync directory", q.name))
		}
	}
}
