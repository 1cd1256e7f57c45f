package queue

import (
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// This file has what a reader does when the device fails. A page that fails
// maxReadFailures times in a row is given up and read as zeros; all others are asked
// as patiently, each for itself.

// hole is a page that a reader has given up.
type hole struct {
	seg  *segment
	page int64
}

// trouble is what a reader knows about a device that fails.
type trouble struct {
	holes    map[hole]bool // nil as long as nothing has failed
	at       hole          // the page that failed last
	known    bool          // at is known
	failures int           // of that page, one after the other
	after    Sequence      // the last one that was delivered before it
}

// failed counts a failure to read. It returns nil if it is worth to go on at once:
// the page is given up, or lies behind one that is, so that it is most likely the
// same damage, and nobody should have to wait for each page of it.
func (r *reader) failed(err error) error {
	t := &r.trouble
	if t.holes == nil {
		t.holes = make(map[hole]bool)
	}
	t.after = r.last
	t.failures++
	enough := t.known && t.failures >= maxReadFailures
	follows := t.known && t.holes[hole{t.at.seg, t.at.page - 1}]
	switch {
	case !enough && !follows:
		r.closeFile()
		return errors.Wrapf(err, "queue %s: read", r.q.name)
	case enough && !follows:
		r.q.warn(errors.Wrapf(err, "queue %s: a place of %s cannot be read and is passed over", r.q.name, r.seg.name))
	}
	if enough {
		t.failures = 0
		t.holes[t.at] = true
	}
	return nil
}

// give tells a file whether to give up a page.
func (r *reader) give(page int64) bool {
	at, t := hole{r.seg, page}, &r.trouble
	if t.holes[at] {
		return true
	}
	if t.known && t.at != at {
		t.failures = 0 // of another one
	}
	t.at, t.known = at, true
	return false
}

// setFile reads the segment's blocks from a file. Once the device has failed it is
// not read ahead any more.
func (r *reader) setFile(f disk.File) {
	r.file, r.scan.file = f, f
	if r.trouble.holes != nil {
		r.scan.file, r.scan.rings = holed{f, r.give}, nil
	}
}

// enters forgets the pages of segments before the one at hand.
func (t *trouble) enters(seg *segment) {
	for h := range t.holes {
		if compareSegments(h.seg, seg) < 0 {
			delete(t.holes, h)
		}
	}
	if len(t.holes) == 0 && t.failures == 0 {
		*t = trouble{}
	}
}

// passes notes that a block was found.
func (t *trouble) passes(seq Sequence) {
	if seq > t.after {
		t.failures = 0
	}
}
