package queue

import (
	"github.com/pkg/errors"
)

// recovery is what is found out about the newest segment when a queue is opened.
//
// Up to a point everything had been durable: the cursor's mark says so, and each
// block says how much was when it was written. What is bad before that point is
// damage, and all good blocks around it are delivered. Behind it lies what was
// written last, of which a power cut leaves any part: there a group counts only
// if it is whole, since otherwise nobody was told that it is kept.
type recovery struct {
	q       *Queue
	seg     *segment
	durable int64    // everything before it had been durable
	end     int64    // of what is kept
	last    Sequence // newest block that is kept

	group []place // blocks of the group at hand, so far without a gap
	whole bool    // it has its beginning
	from  int64   // where the group at hand begins, its damage included
	dead  []place // blocks of groups that are not whole
	torn  []Loss  // groups that are missing between others

	gaveUp int64 // the last page that could not be read
}

// loadNewest looks at the newest segment, cuts what is torn, and decides which
// sequence comes next.
func (q *Queue) loadNewest(c cursor) error {
	seg := q.segs[len(q.segs)-1]
	head, state, err := q.headOf(seg)
	if err != nil {
		return err
	}
	good := state == headGood && head.ID == q.id && head.First == seg.first
	rec := &recovery{q: q, seg: seg, end: dataStart, last: seg.first - 1}
	capacity := max(seg.size, maxSegment)
	if good {
		rec.last, capacity = head.Prev, head.Capacity
		q.lastTime = max(q.lastTime, head.PrevTime)
	}
	marked := c.MarkFirst == seg.first && c.MarkGen == seg.gen && c.MarkOff >= dataStart
	if marked && c.MarkOff > seg.size {
		return rec.short(c, capacity)
	}
	if last, older := q.books.ledger.lastBelow(c, seg); older {
		rec.end, rec.last = seg.end, last
		return rec.complete()
	}
	if marked {
		rec.durable, rec.end, rec.last = c.MarkOff, c.MarkOff, c.MarkSeq
	}
	if c.Clean && marked && rec.end == seg.size {
		// It was closed properly, so there is nothing to look for.
		q.newest, q.next = max(q.newest, rec.last), max(q.next, rec.last+1)
		seg.ends(rec.last)
		q.mark = place{seg: seg, off: rec.end, seq: rec.last}
		return nil
	}
	if err := rec.scan(); err != nil {
		return err
	}
	// Blocks beyond the last one may have been there, and have been seen by
	// someone, before a power cut: the greatest number that can be is bounded by
	// the space that the segment had. The gap costs nothing.
	q.next = max(q.next, max(rec.last+1, seg.first)+Sequence(max(capacity-rec.end, 0)/minBlockSize))
	if !good && rec.durable == 0 {
		// Its header is written with its first blocks, so they were not durable either.
		// And without it nobody knows what is valid in the segment before.
		rec.end, rec.last, rec.dead, q.tail = dataStart, seg.first-1, nil, index{}
	}
	if err := rec.cut(); err != nil {
		return err
	}
	if !good && rec.end == dataStart {
		// Nothing of it is left, not even where it belongs: the one before it is the
		// newest, if there is one.
		q.segs = q.segs[:len(q.segs)-1]
		q.passed = append(q.passed, passed{segment: seg})
		if len(q.segs) == 0 {
			return nil
		}
		return q.loadNewest(c)
	}
	q.newest = max(q.newest, rec.last)
	q.next = max(q.next, q.newest+1)
	seg.ends(rec.last)
	return rec.sync()
}

// complete takes over a segment that is not the newest one that there was, so that all
// of it was durable. Whoever reads it declares what is missing.
func (r *recovery) complete() error {
	q := r.q
	q.newest, q.next = max(q.newest, r.last), max(q.next, r.last+1)
	r.seg.ends(r.last)
	return r.sync()
}

// short takes over a segment that was cut below what had been durable. The mark
// says which blocks there were, so whoever reads it declares exactly what is missing.
func (r *recovery) short(c cursor, capacity int64) error {
	q, seg := r.q, r.seg
	q.warn(errors.WithStack(&CorruptionError{
		Dir: q.dir, Segment: seg.name, Offset: seg.size, Length: c.MarkOff - seg.size, Reason: shortFile,
	}))
	r.end, r.last = seg.size, c.MarkSeq
	if !c.Clean {
		q.next = max(q.next, r.last+1) + Sequence(max(capacity-c.MarkOff, 0)/minBlockSize)
	}
	return r.complete()
}

const shortFile = "the file ends here, and what was durable does not"

// scan finds the groups that are kept. A place that can be read at a later try must not
// be taken for damage; what cannot be read in the end is.
func (r *recovery) scan() error {
	f, err := r.q.fs.Open(r.q.path(r.seg.name))
	if err != nil {
		return errors.Wrapf(err, "queue %s: open segment", r.q.name)
	}
	defer func() { _ = f.Close() }() // nothing was written
	s := scanner{window: window{file: holed{f, r.judge}, chunk: readChunk}, seed: r.seg.seed, off: r.end, limit: r.seg.end}
	r.from = r.end
	for {
		b, err := s.next()
		if isEOF(err) {
			r.stop(r.seg.end)
			return nil
		}
		if err != nil {
			return errors.Wrapf(err, "queue %s: read segment", r.q.name)
		}
		r.add(&b)
	}
}

// judge gives up pages, patiently, and says so once for each run of them.
func (r *recovery) judge(page int64, failures int) verdict {
	v := patiently(page, failures)
	if v != giveUp {
		return v
	}
	if r.gaveUp == 0 || r.gaveUp != page-1 {
		r.q.warn(errors.WithStack(&CorruptionError{
			Dir: r.q.dir, Segment: r.seg.name, Offset: page * pageSize, Length: pageSize, Reason: "it cannot be read",
		}))
	}
	r.gaveUp = page
	return v
}

// add takes the next good block.
func (r *recovery) add(b *scanned) {
	r.durable = max(r.durable, min(int64(b.Synced), b.off))
	r.q.lastTime = max(r.q.lastTime, b.Time)
	n := len(r.group)
	follows := n > 0 && r.group[n-1].seq+1 == b.Sequence && b.bad.empty() && b.Index != 0
	if !follows {
		begin := b.off
		if !b.bad.empty() {
			begin = b.bad.from
		}
		r.stop(begin)
		r.whole, r.from = b.Index == 0, begin
	}
	r.group = append(r.group, place{seg: r.seg, off: b.off, seq: b.Sequence, time: b.Time})
	if b.last() {
		if r.whole {
			r.keep(b.off + b.size())
		} else {
			r.stop(b.off + b.size())
		}
	}
}

// stop ends a group that is not whole. If its damage lies where everything had
// been durable, its good blocks count all the same.
func (r *recovery) stop(end int64) {
	switch {
	case len(r.group) == 0:
	case r.from < r.durable:
		r.keep(r.group[len(r.group)-1].off) // the exact end is told by what follows
	default:
		r.dead = append(r.dead, r.group...)
	}
	r.group, r.whole, r.from = r.group[:0], false, end
}

// keep takes the group at hand over.
func (r *recovery) keep(end int64) {
	expect := max(r.last+1, r.seg.first)
	if first := r.group[0].seq; first > expect && r.from >= r.durable {
		r.torn = append(r.torn, Loss{Reason: LostTorn, First: expect, Last: first - 1, Blocks: uint64(first - expect), Bytes: r.group[0].off - r.end})
	}
	for _, p := range r.group {
		r.q.tail.add(p)
	}
	r.end, r.last = max(r.end, end), r.group[len(r.group)-1].seq
	r.group, r.whole, r.from = r.group[:0], false, end
}

// cut keeps what is not taken over aside, and takes it out of the segment. With
// SyncAlways none of it had been acknowledged to a writer.
func (r *recovery) cut() error {
	q := r.q
	r.end = max(r.end, min(r.durable, r.seg.end))
	now := q.cfg.Now().UnixNano()
	if tail := r.seg.size - r.end; tail > 0 {
		r.torn = append(r.torn, Loss{Reason: LostTorn, First: r.last + 1, Last: max(q.next-1, r.last+1), Bytes: tail})
	}
	if len(r.torn) == 0 {
		return nil
	}
	from := r.seg.size
	for i := range r.torn {
		r.torn[i].Time = now
	}
	if len(r.dead) > 0 {
		from = r.dead[0].off
	}
	q.setAside(r.seg, min(from, r.end), r.seg.size)
	if err := q.declare(r.torn...); err != nil {
		return err
	}
	f, err := q.fs.OpenWrite(q.path(r.seg.name))
	if err != nil {
		return errors.Wrapf(err, "queue %s: cut the torn end", q.name)
	}
	for _, p := range r.dead {
		// So that it is not taken for a good block the next time.
		if p.off < r.end && err == nil {
			_, err = f.WriteAt(make([]byte, blockHeadSize), p.off)
		}
	}
	if err == nil && r.seg.size > r.end {
		err = f.Truncate(r.end)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if r.seg.size > r.end {
		q.live -= r.seg.end - r.end
		r.seg.end, r.seg.size = r.end, r.end
	}
	return errors.Wrapf(err, "queue %s: cut the torn end", q.name)
}

// sync makes durable what an earlier process may have left in the page cache,
// before anyone reads it.
func (r *recovery) sync() error {
	q := r.q
	f, err := q.fs.OpenWrite(q.path(r.seg.name))
	if err != nil {
		return errors.Wrapf(err, "queue %s: open segment", q.name)
	}
	err = f.Sync()
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = q.fs.SyncDir(q.dir)
	}
	q.mark = place{seg: r.seg, off: r.end, seq: r.last}
	return errors.Wrapf(err, "queue %s: sync what was found", q.name)
}
