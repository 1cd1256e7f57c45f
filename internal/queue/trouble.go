package queue

import (
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// This file has what a reader does when the device fails. A page that fails
// maxReadFailures times in a row is given up and read as zeros; all others are asked
// as patiently, each for itself.

// maxRun is how many pages in a row are given up without an error in between. A device
// that is away for a while costs no more than that at a time.
const maxRun = 64

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
	run      int           // pages given up in a row, without an error in between
	after    Sequence      // the last one that was delivered before it
}

// failed counts a failure to read. It returns nil if the page is given up, so that
// one can go on.
func (r *reader) failed(err error) error {
	t := &r.trouble
	if t.holes == nil {
		t.holes = make(map[hole]bool)
	}
	t.after = r.last
	t.failures++
	if !t.known || t.failures < maxReadFailures {
		r.closeFile()
		return errors.Wrapf(err, "queue %s: read", r.q.name)
	}
	t.holes[t.at] = true
	t.failures, t.run = 0, 1
	r.q.warn(errors.Wrapf(err, "queue %s: a place of %s cannot be read and is passed over", r.q.name, r.seg.name))
	return nil
}

// judge tells a file what to do with a page. One behind a page that was given up is
// asked again at once, since it most likely is the same damage, and nobody should
// have to wait for each page of it.
func (r *reader) judge(page int64, failures int) verdict {
	at, t := hole{r.seg, page}, &r.trouble
	switch {
	case t.holes[at]:
		return giveUp
	case failures == 0:
		return tryIt
	case t.run >= maxRun || !t.holes[hole{r.seg, page - 1}]:
		if t.known && t.at != at {
			t.failures = 0 // they were of another one
		}
		t.at, t.known = at, true
		return letFail
	case failures < maxReadFailures:
		return tryIt
	}
	t.holes[at] = true
	t.run++
	return giveUp
}

// setFile reads the segment's blocks from a file. Once the device has failed it is
// not read ahead any more.
func (r *reader) setFile(f disk.File) {
	r.file, r.scan.file = f, f
	if r.trouble.holes != nil {
		r.scan.file, r.scan.rings = holed{f, r.judge}, nil
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
