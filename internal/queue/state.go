package queue

import (
	"cmp"
	"slices"
)

// This file has what changes the list of segments. All of it holds mu for a
// moment, and does no I/O.

// outlook returns the size of the group that is next, how large segments are to
// be, and the sync mode.
func (q *Queue) outlook() (need, segment int64, mode SyncMode) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) > 0 {
		need = q.pending[0].g.Size()
	}
	return need, q.limits.segmentSize(), q.sync
}

func (q *Queue) peekNext() Sequence {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next
}

// publish makes what was appended to a segment readable, and wakes the readers.
func (q *Queue) publish(seg *segment, end int64, last Sequence, places []place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.growLocked(seg, end, last, places)
	for r := range q.readers {
		r.poke()
	}
}

func (q *Queue) growLocked(seg *segment, end int64, last Sequence, places []place) {
	if len(q.segs) == 0 || q.segs[len(q.segs)-1] != seg {
		q.segs = append(q.segs, seg)
	}
	q.live += end - seg.end
	seg.end, seg.size = end, end
	seg.ends(last)
	q.newest = max(q.newest, last)
	for _, p := range places {
		q.tail.add(p)
	}
	if q.head.at.seq == 0 {
		q.setHeadLocked(places[0])
	}
	q.weighLocked()
}

// replaceEnd lets the segment next take the place of what lies behind end in old.
func (q *Queue) replaceEnd(old *segment, end int64, last Sequence, next *segment, nextEnd int64, places []place) {
	q.head.mu.Lock()
	defer q.head.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tail.cut(last + 1)
	q.ahead.cut(last + 1)
	if slices.Contains(q.segs, old) {
		q.live -= old.end - end
	}
	old.end, old.sealed = end, true
	old.ends(last)
	unsent := q.head.at.seq
	if unsent > last {
		q.head.at.seq = 0
	}
	i := 0
	if unsent > last {
		// The head goes to the same block in its new place, or the first after it.
		i, _ = slices.BinarySearchFunc(places, unsent, func(p place, s Sequence) int { return cmp.Compare(p.seq, s) })
	}
	if i < len(places) {
		q.growLocked(next, nextEnd, places[len(places)-1].seq, places[i:])
	}
	if unsent == 0 || q.head.at.seq == 0 {
		q.setEndLocked()
	}
	for r := range q.readers {
		r.poke()
	}
}

// seal marks a segment as complete.
func (q *Queue) seal(seg *segment, last Sequence) {
	q.mu.Lock()
	defer q.mu.Unlock()
	seg.sealed = true
	seg.ends(last)
	for r := range q.readers {
		r.poke()
	}
}

// readable returns up to where a segment may be read, and whether it may at all.
func (q *Queue) readable(seg *segment) (int64, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return seg.end, seg.end > dataStart
}

// orphan remembers a file that could not be removed when nothing of it counts.
func (q *Queue) orphan(seg *segment, upTo Sequence) {
	q.mu.Lock()
	q.passed = append(q.passed, passed{segment: seg, upTo: upTo})
	q.mu.Unlock()
}

// freeGen returns a generation that tells the new segment from those that begin
// with the same sequence, of which nothing could be made durable.
func (q *Queue) freeGen(first Sequence) uint32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	gen := uint32(0)
	for _, s := range q.segs {
		if s.first == first {
			gen = max(gen, s.gen+1)
		}
	}
	for _, p := range q.passed {
		if p.first == first {
			gen = max(gen, p.gen+1)
		}
	}
	return gen
}

// afterLocked returns the segment behind seg, or nil.
func (q *Queue) afterLocked(seg *segment) *segment {
	i, found := slices.BinarySearchFunc(q.segs, seg, compareSegments)
	if found {
		i++
	}
	if i < len(q.segs) {
		return q.segs[i]
	}
	return nil
}

// setHeadLocked moves the head to a block.
func (q *Queue) setHeadLocked(p place) {
	for len(q.segs) > 0 && q.segs[0] != p.seg {
		q.passLocked()
	}
	q.head.at = p
	q.used = p.off - dataStart
	q.ahead.forget(p.seq)
	q.tail.forget(p.seq)
	q.weighLocked()
}

// setEndLocked moves the head behind everything.
func (q *Queue) setEndLocked() {
	for len(q.segs) > 1 || len(q.segs) == 1 && q.segs[0].sealed {
		q.passLocked()
	}
	q.head.at, q.used = place{}, q.live
	if len(q.segs) == 1 {
		q.head.at = place{seg: q.segs[0], off: q.segs[0].end}
	}
	q.tail.forget(q.newest + 1)
	q.ahead.forget(q.newest + 1)
	q.weighLocked()
}

// passLocked takes the first segment out of the list.
func (q *Queue) passLocked() {
	s := q.segs[0]
	q.passed = append(q.passed, passed{segment: s, upTo: q.settled()})
	q.live -= s.end - dataStart
	q.segs = append(q.segs[:0], q.segs[1:]...)
}

// indexLocked finds a segment in the list.
func (q *Queue) indexLocked(seg *segment) (int, bool) {
	i, found := slices.BinarySearchFunc(q.segs, seg, compareSegments)
	return i, found && q.segs[i] == seg
}

// passedBy notes where a reader has seen a block that begins a group, or that ends
// one, with another block behind it.
func (q *Queue) passedBy(seg *segment, b *scanned, ends bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, listed := q.indexLocked(seg); !listed {
		return
	}
	if b.Index == 0 {
		p := place{seg: seg, off: b.off, seq: b.Sequence, time: b.Time}
		q.ahead.add(p)
		if at := &q.head.at; at.seq == p.seq && at.time == 0 {
			*at = p
			q.used = p.off - dataStart
		}
	}
	if ends {
		q.ahead.add(place{seg: seg, off: b.off + b.size(), seq: b.Sequence + 1})
	}
}

// forgetSegment takes the newest segment out of the books when its file is gone.
func (q *Queue) forgetSegment(seg *segment) error {
	last, known, err := q.lastOf(seg)
	if err != nil || !known {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !seg.sealed {
		return nil
	}
	if i, listed := q.indexLocked(seg); listed {
		q.live -= seg.end - dataStart
		q.segs = slices.Delete(q.segs, i, i+1)
		q.newest = max(q.newest, last)
	}
	return nil
}

// lastOf returns the last valid sequence of a sealed segment. For one of an earlier
// process the next segment tells.
func (q *Queue) lastOf(seg *segment) (last Sequence, known bool, err error) {
	q.mu.Lock()
	last, known = seg.last, seg.lastKnown && seg.sealed
	next := q.afterLocked(seg)
	q.mu.Unlock()
	if known || next == nil || !seg.sealed {
		return last, known, nil
	}
	last, _, err = q.lastBefore(next)
	if err != nil {
		return 0, false, err
	}
	q.mu.Lock()
	seg.ends(last)
	q.mu.Unlock()
	return last, true, nil
}

// lastBefore returns the last valid sequence before a segment, and whether its header
// is good. If it is damaged, the ledger tells which numbers were passed over.
func (q *Queue) lastBefore(seg *segment) (last Sequence, good bool, err error) {
	last = seg.first - 1
	head, state, err := q.headOf(seg)
	if err != nil && !isNotExist(err) {
		return 0, false, err
	}
	if state == headGood && head.ID == q.id && head.First == seg.first {
		return min(head.Prev, last), true, nil
	}
	q.books.mu.Lock()
	defer q.books.mu.Unlock()
	return q.books.ledger.lastUsed(last), false, nil
}

// setMark notes up to where the newest segment is durable.
func (q *Queue) setMark(p place) {
	q.mu.Lock()
	q.mark = p
	q.mu.Unlock()
}
