package queue

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// Open opens the queue in cfg.Dir, or makes one. It takes about the same time
// whatever the queue's size: it lists the directory and reads the newest segment.
//
// The error is of this queue alone: a [LockedError], a [VersionError], or what
// the file system says. Damage is no error, see [Loss].
func Open(cfg Config) (*Queue, error) {
	cfg = cfg.withDefaults()
	q := &Queue{
		dir: cfg.Dir, name: cfg.Name, cfg: cfg, fs: cfg.FS, log: cfg.Logger,
		limits: cfg.Limits, sync: cfg.Sync, readers: make(map[*reader]struct{}),
	}
	q.writer.q = q
	if err := disk.MkdirAll(q.fs, q.dir); err != nil {
		return nil, errors.Wrapf(err, "queue %s: make directory", q.name)
	}
	if cfg.guard == nil {
		lock, err := lockQueue(cfg.FS, cfg.Dir)
		if err != nil {
			return nil, err
		}
		q.lock = lock
	}
	if err := q.load(); err != nil {
		if q.lock != nil {
			_ = q.lock.Close() // the first error is the one to tell
		}
		return nil, err
	}
	q.active = cfg.Now()
	q.clock = q.active.UnixNano()
	q.watchClock()
	q.rings = q.lookAhead()
	q.keeper.start(q)
	return q, nil
}

// load reads what is in the directory.
func (q *Queue) load() error {
	entries, err := q.fs.List(q.dir)
	if err != nil {
		return errors.Wrapf(err, "queue %s: list", q.name)
	}
	if err := sweep(q.fs, q.dir, entries); err != nil {
		return errors.Wrapf(err, "queue %s: remove leftovers", q.name)
	}
	c, found, damaged, err := loadCursor(q.fs, q.dir)
	if err != nil {
		return errors.Wrapf(err, "queue %s: read cursor", q.name)
	}
	books, booksDamaged, err := loadLedger(q.fs, q.dir)
	if err != nil {
		return errors.Wrapf(err, "queue %s: read losses", q.name)
	}
	// A process that died between a rename and this left names that are not durable.
	// Nothing may be removed on the strength of them.
	if err := q.fs.SyncDir(q.dir); err != nil {
		return errors.Wrapf(err, "queue %s: sync directory", q.name)
	}
	segs := segmentsOf(entries, ID{})
	if err := q.identify(c, found, books, segs); err != nil {
		return err
	}
	if booksDamaged || books.ID != q.id {
		books = ledger{}
	}
	q.books.ledger = books
	q.floor.Store(uint64(books.Floor))
	q.segs = segmentsOf(entries, q.id)
	if err := q.loadSegments(c, found); err != nil {
		return err
	}
	for name, bad := range map[string]bool{cursorName: damaged, lossesName: booksDamaged} {
		if bad {
			q.setNamedAside(name)
		}
	}
	if err := q.missSegments(c); err != nil {
		return err
	}
	// What was passed over behind the newest block, for a segment that did not become
	// durable, may be in use now.
	if err := q.noteUnused(q.newest, q.newest+1); err != nil {
		return err
	}
	q.head.saved = c.Acked
	if found && c.Next == q.next {
		return nil
	}
	// The id of a new queue is durable before anyone can see it, and so is a gap in
	// the numbers before the segment that tells of it can be removed.
	q.head.stale = true
	return q.saveCursor(false)
}

// missSegments declares lost what the cursor says was durable, if the newest segments
// are not there any more, or none at all.
func (q *Queue) missSegments(c cursor) error {
	first, last := q.newest+1, c.MarkSeq
	if last < first {
		return nil
	}
	q.warn(errors.WithStack(&CorruptionError{Dir: q.dir, Segment: segmentName(c.MarkFirst, c.MarkGen), Reason: "the file is gone"}))
	floor := Sequence(0)
	if len(q.segs) == 0 {
		floor = last // nothing else is unsent
	}
	err := q.declareTo(floor, Loss{
		Reason: LostCorrupt, First: first, Last: last, Blocks: uint64(last - first + 1), Time: q.cfg.Now().UnixNano(),
	})
	if err != nil {
		return err
	}
	q.floor.Store(max(q.floor.Load(), uint64(floor)))
	q.newest, q.writer.prev, q.writer.durable = last, last, last
	q.next = max(q.next, last+1)
	if !c.Clean {
		q.next += maxGroup / minBlockSize // what the newest of them may have had behind the mark
	}
	return nil
}

// identify finds the queue's id: in the cursor, else in any segment or in the
// losses. A directory without any of them is a new queue.
func (q *Queue) identify(c cursor, found bool, books ledger, segs []*segment) error {
	if found {
		q.id = c.ID
		return nil
	}
	for _, s := range slices.Backward(segs) {
		head, state, err := q.headOf(s)
		if err != nil {
			return err
		}
		if state == headGood {
			q.id = head.ID
			return nil
		}
	}
	if books.ID != (ID{}) {
		q.id = books.ID
		return nil
	}
	id, err := uuid.NewRandom()
	q.id = id
	return errors.WithStack(err)
}

// headOf reads the header of a segment.
func (q *Queue) headOf(s *segment) (segmentHead, headState, error) {
	f, err := q.fs.Open(q.path(s.name))
	if err != nil {
		return segmentHead{}, headBad, errors.Wrapf(err, "queue %s: open segment", q.name)
	}
	defer func() { _ = f.Close() }() // nothing was written
	head, state, version, err := readSegmentHead(f)
	if state == headNewer {
		return head, state, errors.WithStack(&VersionError{Path: q.path(s.name), Version: version})
	}
	return head, state, errors.Wrapf(err, "queue %s: read segment", q.name)
}

// loadSegments sets the state from the segments: what is the newest block, what
// comes next, and where the head is.
func (q *Queue) loadSegments(c cursor, found bool) error {
	q.cursor.Store(uint64(c.Acked))
	q.lastTime = c.LastTime
	if !found && len(q.segs) > 0 {
		// Without a cursor everything that is there is sent again. What was before
		// had been sent, or it would be there.
		q.cursor.Store(uint64(q.segs[0].first - 1))
	}
	for _, s := range q.segs {
		q.live += s.end - dataStart
	}
	q.newest, q.next = q.settled(), max(q.settled()+1, c.Next)
	if len(q.segs) > 0 {
		if err := q.loadNewest(c); err != nil {
			return err
		}
	}
	q.writer.prev, q.writer.prevTime, q.writer.durable = q.newest, q.lastTime, q.newest
	if q.next != q.newest+1 {
		q.writer.reason = gapOpened
	}
	return q.loadHead(c)
}

// loadHead finds the first unsent block, by the cursor's hint if it is right.
func (q *Queue) loadHead(c cursor) error {
	if len(q.segs) == 0 {
		return nil
	}
	at := place{seg: q.segs[0], off: dataStart}
	for _, s := range q.segs {
		if s.first <= q.settled()+1 {
			at = place{seg: s, off: dataStart}
		}
	}
	if c.HeadOff >= dataStart && c.HeadFirst == at.seg.first && c.HeadGen == at.seg.gen && c.Acked == q.settled() {
		hint := at
		hint.off = c.HeadOff
		if p, _, err := q.walk(hint, hint.seg.end, q.settled()); err == nil && p.seg != nil && p.off == c.HeadOff && p.seq == c.Acked+1 {
			q.setHeadLocked(p)
			return nil
		}
	}
	return q.seek(at)
}

// setNamedAside moves a file that cannot be understood out of the way.
func (q *Queue) setNamedAside(name string) {
	aside := filepath.Join(q.dir, asideName)
	target := filepath.Join(aside, name+"."+q.cfg.Now().UTC().Format("20060102T150405.000000000")+".bad")
	q.warn(errors.WithStack(&CorruptionError{Dir: q.dir, Segment: name, Reason: "its sum is wrong"}))
	err := disk.MkdirAll(q.fs, aside)
	if err == nil {
		err = q.fs.Rename(q.path(name), target)
	}
	if err != nil {
		q.warn(errors.Wrapf(err, "queue %s: keep %s aside", q.name, name))
	}
}

// idleFor returns how long nothing was appended.
func (q *Queue) idleFor() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cfg.Now().Sub(q.active)
}
