package queue

import (
	"context"
	"math"

	"github.com/pkg/errors"
)

// This file has how a reader gets from segment to segment, and what it counts on
// the way.

// move looks whether there is more to read: more of the same segment, or the
// next one. It reports whether there is.
func (r *reader) move() (bool, error) {
	q := r.q
	q.mu.Lock()
	if q.closing {
		q.mu.Unlock()
		return false, ErrClosed
	}
	if r.seg == nil {
		seg, off := q.locateLocked(r.last)
		q.mu.Unlock()
		if seg == nil {
			return false, nil
		}
		return r.enter(seg, off)
	}
	end, sealed, known := r.seg.end, r.seg.sealed, r.seg.lastKnown
	next := q.afterLocked(r.seg)
	q.mu.Unlock()
	if end > r.scan.limit {
		r.scan.limit = end
		return true, nil
	}
	if sealed && known {
		// It may have been cut exactly behind a block.
		if err := r.account(&scanned{}, true); err != nil {
			return false, err
		}
	}
	if !sealed || next == nil {
		return false, nil
	}
	return r.enter(next, dataStart)
}

// locateLocked returns where to begin to read for what comes after a sequence.
func (q *Queue) locateLocked(after Sequence) (*segment, int64) {
	if q.newest <= after || len(q.segs) == 0 {
		return nil, 0
	}
	at := place{seg: q.segs[0], off: dataStart}
	if q.head.at.seq != 0 && q.head.at.seq <= after+1 {
		at = q.head.at
	}
	for _, s := range q.segs {
		if s.first <= after+1 && compareSegments(s, at.seg) > 0 {
			at = place{seg: s, off: dataStart}
		}
	}
	for _, x := range []*index{&q.ahead, &q.tail} {
		if p, ok := x.find(after + 1); ok && (compareSegments(p.seg, at.seg) > 0 || p.seg == at.seg && p.off > at.off) {
			at = p
		}
	}
	return at.seg, at.off
}

// enter goes to another segment, and counts what is missing before it.
func (r *reader) enter(seg *segment, off int64) (bool, error) {
	q := r.q
	f, err := q.fs.Open(q.path(seg.name))
	if isNotExist(err) {
		return r.vanished(seg)
	}
	if err != nil {
		return false, errors.Wrapf(err, "queue %s: open segment", q.name)
	}
	prev, good, err := q.lastBefore(seg)
	if err != nil {
		_ = f.Close()
		return false, err
	}
	if !good {
		q.warn(errors.WithStack(&CorruptionError{Dir: q.dir, Segment: seg.name, Length: dataStart, Reason: "both headers are damaged"}))
	}
	// Also in the middle of it, where the blocks before are damaged.
	if err := r.missing(prev, badRange{}); err != nil {
		_ = f.Close()
		return false, err
	}
	r.last = max(r.last, seg.first-1)
	r.closeFile()
	r.seg, r.file = seg, f
	end, listed, err := r.bounds()
	if err != nil || !listed {
		r.leave()
		return !listed, err
	}
	r.scan.drop()
	r.scan.seed, r.scan.off, r.scan.limit, r.scan.last = seg.seed, off, end, r.last
	r.trouble.enters(seg)
	r.setFile(f)
	return true, nil
}

// vanished handles a segment whose file is not there: it was removed because it
// was dropped in the meantime, or by hand.
func (r *reader) vanished(seg *segment) (bool, error) {
	r.q.mu.Lock()
	next := r.q.afterLocked(seg)
	_, listed := r.q.indexLocked(seg)
	r.q.mu.Unlock()
	if !listed {
		r.leave()
		return true, nil
	}
	r.q.warn(errors.WithStack(&CorruptionError{Dir: r.q.dir, Segment: seg.name, Reason: "the file is gone"}))
	if next == nil {
		return false, r.q.forgetSegment(seg)
	}
	return r.enter(next, dataStart)
}

// open opens the file of the segment again, if it was closed for being idle.
func (r *reader) open() error {
	if r.file != nil {
		return nil
	}
	f, err := r.q.fs.Open(r.q.path(r.seg.name))
	if isNotExist(err) {
		r.leave()
		return errors.Wrapf(err, "queue %s: the segment is gone", r.q.name)
	}
	if err != nil {
		return errors.Wrapf(err, "queue %s: open segment", r.q.name)
	}
	r.setFile(f)
	return nil
}

func (r *reader) closeFile() {
	r.scan.drop()
	if r.file != nil {
		_ = r.file.Close() // it was only read
		r.file, r.scan.file = nil, nil
	}
}

// leave forgets the segment; the next one is looked up by r.last.
func (r *reader) leave() {
	r.closeFile()
	r.seg, r.peeked = nil, false
}

// bounds returns the end of the segment's readable bytes, and sets upTo. If the head
// has left the segment behind meanwhile, nobody can tell any more where it ends.
func (r *reader) bounds() (end int64, listed bool, err error) {
	last, known, err := r.q.lastOf(r.seg)
	if err != nil {
		return 0, true, err
	}
	r.q.mu.Lock()
	defer r.q.mu.Unlock()
	r.scan.rings = nil
	if r.seg.sealed {
		r.scan.rings = r.q.rings
	}
	r.upTo = math.MaxUint64
	if r.seg.sealed && known {
		r.upTo = last
	}
	_, listed = r.q.indexLocked(r.seg)
	return r.seg.end, listed, nil
}

// account declares what is missing before a block, or at the end of a segment.
func (r *reader) account(b *scanned, eof bool) error {
	upTo := b.Sequence - 1
	if eof {
		last, known, err := r.q.lastOf(r.seg)
		if err != nil {
			return err
		}
		if !known {
			upTo = r.last // not complete yet, so the next block will tell
		} else {
			upTo = last
		}
	}
	if upTo <= r.last {
		return nil
	}
	if !b.bad.empty() {
		r.q.setAside(r.seg, b.bad.from, b.bad.to)
	}
	if err := r.missing(upTo, b.bad); err != nil {
		return err
	}
	if eof {
		r.last = max(r.last, upTo)
	}
	return nil
}

// missing declares the blocks between the last one delivered and upTo. What was
// acknowledged meanwhile, because another reader had it, is not missing.
func (r *reader) missing(upTo Sequence, bad badRange) error {
	last := max(r.last, r.q.settled())
	if upTo <= last {
		return nil
	}
	n := uint64(upTo - last)
	return r.q.declare(Loss{
		Reason: LostCorrupt, First: last + 1, Last: upTo, Blocks: n,
		Points: bad.points, Bytes: bad.to - bad.from, Exact: bad.blocks == n, Time: r.q.cfg.Now().UnixNano(),
	})
}

// undecodable handles a block whose sums are right and whose content is not: it
// was damaged before it was written.
func (r *reader) undecodable(b *scanned, cause error) error {
	r.q.warn(errors.WithStack(&CorruptionError{
		Dir: r.q.dir, Segment: r.seg.name, Offset: b.off, Length: b.size(), Reason: "cannot be decompressed: " + cause.Error(),
	}))
	return r.q.declare(Loss{
		Reason: LostCorrupt, First: b.Sequence, Last: b.Sequence, Blocks: 1, Points: int64(b.Points), Bytes: b.size(), Exact: true,
		Time: r.q.cfg.Now().UnixNano(),
	})
}

// readToEnd reads everything that is there, so that what is missing is declared.
func (q *Queue) readToEnd() error {
	nr, err := q.NewReader(0)
	if err != nil {
		return err
	}
	defer func() { _ = nr.Close() }() // nothing was written
	r := nr.(*reader)
	failures := 0
	for {
		err := r.find(context.Background(), r.block, false)
		switch {
		case errors.Is(err, errNothingYet):
			return nil
		case err != nil && failures >= maxReadFailures:
			return err
		case err != nil:
			failures++
		default:
			failures = 0
		}
	}
}
