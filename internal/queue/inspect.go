package queue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// inspection is an Inspect at work.
type inspection struct {
	cfg    Config
	q      *Queue // only as far as reading goes
	rep    *Report
	deep   bool
	walk   *walker
	expect Sequence
	dec    decoder
	out    []byte
}

// isQueue reports whether a directory holds anything of a queue.
func isQueue(entries []disk.Entry) bool {
	return len(segmentsOf(entries, ID{})) > 0 || slices.ContainsFunc(entries, func(e disk.Entry) bool {
		return e.Name == cursorName || e.Name == lossesName
	})
}

// walker holds the blocks of a group until it is known to be complete.
type walker struct {
	all  bool
	f    func(Block) error
	held []Block
}

func inspect(cfg Config, deep bool, walk *walker) (*Report, error) {
	cfg = cfg.withDefaults()
	entries, err := cfg.FS.List(cfg.Dir)
	if err != nil {
		return nil, errors.Wrapf(err, "queue: list %s", cfg.Dir)
	}
	if !isQueue(entries) {
		return nil, errors.WithStack(&NoQueueError{Dir: cfg.Dir})
	}
	lock, err := lockQueue(cfg.FS, cfg.Dir)
	var locked *LockedError
	switch {
	case errors.As(err, &locked):
		return nil, err
	case err == nil:
		defer func() { _ = lock.Close() }() // nothing was written
	} // else it cannot be locked, as a copy on read-only media cannot, and need not
	in := &inspection{
		cfg: cfg, deep: deep, walk: walk, rep: &Report{Dir: cfg.Dir},
		q: &Queue{dir: cfg.Dir, name: cfg.Name, cfg: cfg, fs: cfg.FS, log: cfg.Logger},
	}
	defer in.dec.close()
	mark, err := in.files(entries)
	if err != nil {
		return nil, err
	}
	for i := range in.q.segs {
		if err := in.segment(i); err != nil {
			return nil, err
		}
	}
	if mark >= in.expect {
		in.missing(mark, cursorName, 0) // the newest segments are gone
	}
	return in.rep, nil
}

func (in *inspection) problem(file string, off, n int64, what, hint string) {
	in.rep.Problems = append(in.rep.Problems, Problem{File: file, Offset: off, Length: n, What: what, Hint: hint})
}

// files reads the cursor and the losses, and finds the segments. It returns the last
// sequence that the cursor says was durable.
func (in *inspection) files(entries []disk.Entry) (mark Sequence, err error) {
	q, rep := in.q, in.rep
	c, found, damaged, err := loadCursor(q.fs, q.dir)
	if err != nil {
		return 0, err
	}
	books, booksDamaged, err := loadLedger(q.fs, q.dir)
	if err != nil {
		return 0, err
	}
	if err := q.identify(c, found, books, segmentsOf(entries, ID{})); err != nil {
		return 0, err
	}
	q.segs = segmentsOf(entries, q.id)
	if !found && len(q.segs) > 0 {
		c.Acked = q.segs[0].first - 1
	}
	q.cursor.Store(uint64(c.Acked))
	q.floor.Store(uint64(books.Floor))
	q.books.ledger = books
	rep.ID, rep.Cursor, rep.Floor, rep.Lost, rep.Losses = q.id, c.Acked, books.Floor, books.Totals, books.Losses
	rep.CursorState, rep.LossesState = stateName(found, damaged), stateName(books.ID != ID{}, booksDamaged)
	if damaged {
		in.problem(cursorName, 0, 0, "the cursor is damaged", "everything that is there will be sent again; repair sets the file aside")
	}
	if booksDamaged {
		in.problem(lossesName, 0, 0, "the record of losses is damaged", "what was declared lost before may be counted again; repair sets the file aside")
	}
	if n := len(q.segs); n > 0 {
		newest := q.segs[n-1]
		marked := c.MarkFirst == newest.first && c.MarkGen == newest.gen
		rep.Closed = c.Clean && marked && c.MarkOff == newest.size
		if last, older := books.lastBelow(c, newest); older {
			newest.ends(last)
		} else if marked && c.MarkOff >= newest.size {
			newest.ends(c.MarkSeq)
		}
		if marked && c.MarkOff > newest.size {
			in.problem(newest.name, newest.size, c.MarkOff-newest.size, shortFile, "check the device; repair declares what is missing")
		}
	} else {
		rep.Closed = c.Clean
	}
	for _, e := range entries {
		if !belongs(e) {
			in.problem(e.Name, 0, e.Size, "this file does not belong to a queue", "repair sets it aside")
		}
	}
	in.expect = q.settled() + 1
	return c.MarkSeq, nil
}

func stateName(found, damaged bool) string {
	switch {
	case damaged:
		return "damaged"
	case found:
		return "ok"
	}
	return "missing"
}

// belongs reports whether a queue's directory has such a file.
func belongs(e disk.Entry) bool {
	if e.Mode.IsDir() {
		return e.Name == asideName
	}
	_, _, segment := parseSegmentName(e.Name)
	return segment || slices.Contains([]string{cursorName, lossesName, lockName}, e.Name) || strings.HasSuffix(e.Name, tmpSuffix)
}

// segment goes through one segment.
func (in *inspection) segment(i int) error {
	q, seg := in.q, in.q.segs[i]
	s := SegmentReport{Name: seg.name, Size: seg.size, First: seg.first}
	defer func() { in.rep.Segments = append(in.rep.Segments, s) }()
	head, state, err := q.headOf(seg)
	if err != nil {
		return err
	}
	switch {
	case state != headGood:
		in.problem(seg.name, 0, dataStart, "both headers are damaged", "its blocks are read by the file's name")
	case head.ID != q.id:
		in.problem(seg.name, 0, seg.size, "it belongs to the queue "+head.ID.String(), "repair sets it aside")
		return nil
	}
	prev, _, err := q.lastBefore(seg)
	if err != nil {
		return err
	}
	if prev >= in.expect {
		in.missing(prev, seg.name, 0)
	}
	in.expect = max(in.expect, seg.first)
	last, known, err := q.lastOf(seg)
	if err != nil {
		return err
	}
	if err := in.blocks(&s, seg, last, known); err != nil {
		return err
	}
	if known && last >= in.expect {
		in.missing(last, seg.name, seg.size)
	}
	return nil
}

// missing counts blocks that should be there, up to one, and goes behind it.
func (in *inspection) missing(upTo Sequence, file string, off int64) {
	for _, part := range in.q.books.ledger.uncovered(in.expect, upTo) {
		n := uint64(part[1] - part[0] + 1)
		in.rep.Missing += n
		in.problem(file, off, 0, fmt.Sprintf("sequences %d to %d are missing before this place, %d blocks", part[0], part[1], n),
			"they are declared lost when the queue is read")
	}
	in.expect = upTo + 1
}

// blocks goes through the blocks of a segment that are valid.
func (in *inspection) blocks(s *SegmentReport, seg *segment, last Sequence, known bool) error {
	f, err := in.q.fs.Open(in.q.path(seg.name))
	if err != nil {
		return errors.Wrapf(err, "queue: open %s", seg.name)
	}
	defer func() { _ = f.Close() }() // nothing was written
	sc := scanner{window: window{file: holed{f, patiently}, chunk: readChunk}, seed: seg.seed, off: dataStart, limit: seg.end, heads: !in.deep}
	end := int64(dataStart)
	var pending Report // of a group that is not complete yet
	for {
		b, err := sc.next()
		if err != nil && !isEOF(err) {
			return errors.Wrapf(err, "queue: read %s", seg.name)
		}
		eof := err != nil
		if known && !eof && b.Sequence > last {
			s.Leftover++
			continue
		}
		if !b.bad.empty() && (!eof || known) && s.Leftover == 0 {
			s.Damaged += b.bad.to - b.bad.from
			in.problem(seg.name, b.bad.from, b.bad.to-b.bad.from, "damaged", "good blocks behind it are delivered, the damaged bytes set aside")
		}
		if eof || b.Index == 0 {
			if err := in.endGroup(&pending, !known && eof); err != nil {
				return err
			}
		}
		if eof {
			if !known {
				s.Torn = max(seg.size-end, 0)
			}
			return nil
		}
		s.Blocks, s.Points, s.Last = s.Blocks+1, s.Points+uint64(b.Points), b.Sequence
		if b.Sequence > in.expect && b.Sequence > in.q.settled() {
			in.missing(b.Sequence-1, seg.name, b.off)
		}
		in.expect = max(in.expect, b.Sequence+1)
		if err := in.block(&pending, b); err != nil {
			return err
		}
		if b.last() {
			end = b.off + b.size()
			if err := in.endGroup(&pending, false); err != nil {
				return err
			}
		}
	}
}

// block adds a block to the group at hand.
func (in *inspection) block(pending *Report, b scanned) error {
	sent := b.Sequence <= in.q.settled()
	if !sent {
		if pending.FirstSeq == 0 {
			pending.FirstSeq, pending.OldestUnsent = b.Sequence, b.Time
		}
		pending.LastSeq, pending.NewestUnsent = b.Sequence, b.Time
		pending.UnsentBlocks++
		pending.UnsentPoints += uint64(b.Points)
		pending.UnsentBytes += b.size()
	}
	if !in.deep {
		return nil
	}
	payload, err := in.dec.decode(&b.blockHead, b.stored, in.out, false)
	if err != nil {
		in.problem("", b.off, b.size(), "a payload cannot be decompressed: "+err.Error(), "")
		return nil
	}
	in.out = payload[:0]
	if in.walk != nil && (!sent || in.walk.all) {
		in.walk.held = append(in.walk.held, Block{
			Sequence: b.Sequence, Time: b.Time, Points: int(b.Points), Kind: b.Kind, Last: b.last(), Payload: slices.Clone(payload),
		})
	}
	return nil
}

// endGroup takes the group at hand over, or drops it if it has no end.
func (in *inspection) endGroup(pending *Report, drop bool) error {
	p, rep := *pending, in.rep
	*pending = Report{}
	var held []Block
	if in.walk != nil {
		held, in.walk.held = in.walk.held, in.walk.held[:0]
	}
	if drop {
		return nil
	}
	for _, b := range held {
		if err := in.walk.f(b); err != nil {
			return err
		}
	}
	if p.UnsentBlocks == 0 {
		return nil
	}
	if rep.FirstSeq == 0 {
		rep.FirstSeq, rep.OldestUnsent = p.FirstSeq, p.OldestUnsent
	}
	rep.LastSeq, rep.NewestUnsent = p.LastSeq, p.NewestUnsent
	rep.UnsentBlocks += p.UnsentBlocks
	rep.UnsentPoints += p.UnsentPoints
	rep.UnsentBytes += p.UnsentBytes
	return nil
}
