package queue

import (
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// Blocks bear the wall clock as it was, right or wrong. This file has what that is taken for.
//
// A block whose time lies ahead was written under a clock that was ahead. It was there when that is noticed,
// and is older than those behind it. A block cannot be older than those before its segment either: the
// header says how new those are, so what is written under a clock that begins in 1970 after each start is
// not taken for ancient when the clock is right again.

// clockCheck is how often an age limit is looked at when nothing is due: the clock may be set ahead.
const clockCheck = time.Minute

// readClockLocked returns the wall clock for the blocks that are appended next, and notes the newest time.
// A clock that is set back while it is watched is one that was wrong; one that is behind after a start may be
// wrong itself.
func (q *Queue) readClockLocked() int64 {
	now := q.cfg.Now().UnixNano()
	if now < q.clock {
		q.lastTime = now
	}
	q.lastTime = max(q.lastTime, now)
	q.clock = now
	return now
}

// enqueued returns when a block was appended, as far as can be known, from what it says and since when all of
// its segment is. It reports false if the block says that this is still to come.
func enqueued(says, since, now int64) (int64, bool) {
	if since <= now {
		says = max(says, since)
	}
	return says, says <= now
}

// noticed is when it was noticed that blocks are from the future.
type noticed struct {
	at   int64    // zero if they are not
	upTo Sequence // the newest that there was
}

// headTimeLocked returns when the first unsent block was appended. Of one from the future that is when it was
// noticed first.
func (q *Queue) headTimeLocked(now int64) (t int64, sane bool) {
	h := &q.head
	t, sane = enqueued(h.at.time, h.at.seg.since, now)
	if sane {
		h.noticed = noticed{}
		return t, true
	}
	if h.noticed.at == 0 || h.noticed.at > now || h.at.seq > h.noticed.upTo {
		h.noticed = noticed{at: now, upTo: q.newest}
	}
	return h.noticed.at, false
}

// watchClock warns once of a head that is from the future. Called without a lock.
func (q *Queue) watchClock() {
	now := q.cfg.Now().UnixNano()
	q.mu.Lock()
	at, warn := q.head.at, false
	if at.seq != 0 && at.time != 0 {
		_, sane := q.headTimeLocked(now)
		warn = !sane && !q.head.warned
		q.head.warned = !sane
	}
	q.mu.Unlock()
	if warn {
		q.warn(errors.WithStack(&ClockError{Queue: q.name, Sequence: at.seq, Time: at.time, Now: now}))
	}
}

// learnSince returns the time that none of a segment's blocks is older than, zero if it is not known.
func (q *Queue) learnSince(seg *segment, f disk.File) int64 {
	q.mu.Lock()
	since, known := seg.since, seg.sinceKnown
	q.mu.Unlock()
	if known {
		return since
	}
	head, state, _, err := readSegmentHead(f)
	if err != nil {
		return 0 // the blocks are what matters
	}
	if state == headGood && head.ID == q.id {
		since = head.PrevTime
	}
	q.mu.Lock()
	seg.since, seg.sinceKnown = since, true
	q.mu.Unlock()
	return since
}
