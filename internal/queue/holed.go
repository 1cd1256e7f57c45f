package queue

import "io"

const (
	// pageSize is how little of a file may be given up.
	pageSize = 4096
	// maxReadFailures is how often the same place may fail to be read until it is
	// taken for damaged.
	maxReadFailures = 5
)

// verdict says what to do with a page of a file.
type verdict uint8

const (
	tryIt   verdict = iota // read it, again if it has failed
	giveUp                 // take it for zeros
	letFail                // return its error
)

// holed reads zeros in place of those pages of a file that cannot be read. It asks
// judge what to do with a page that has failed so many times within this call.
type holed struct {
	file  io.ReaderAt
	judge func(page int64, failures int) verdict
}

// patiently asks the device again at once, before it gives a page up.
func patiently(_ int64, failures int) verdict {
	if failures < maxReadFailures {
		return tryIt
	}
	return giveUp
}

func (h holed) ReadAt(p []byte, off int64) (int, error) {
	if !h.hasHole(off, len(p)) {
		n, err := h.file.ReadAt(p, off)
		if n == len(p) || err == nil || isEOF(err) {
			return n, err
		}
	}
	for at := 0; at < len(p); {
		from := off + int64(at)
		part := p[at:min(len(p), at+pageSize-int(from%pageSize))]
		n, err := h.readPage(part, from)
		if err != nil {
			return at + n, err
		}
		at += len(part)
	}
	return len(p), nil
}

// hasHole reports whether a page has been given up, so that it need not be read.
func (h holed) hasHole(off int64, n int) bool {
	for page := off / pageSize; page*pageSize < off+int64(n); page++ {
		if h.judge(page, 0) == giveUp {
			return true
		}
	}
	return false
}

// readPage reads a part of one page.
func (h holed) readPage(p []byte, off int64) (n int, err error) {
	for failures := 0; ; failures++ {
		switch h.judge(off/pageSize, failures) {
		case giveUp:
			clear(p)
			return len(p), nil
		case letFail:
			return n, err
		}
		if n, err = h.file.ReadAt(p, off); n == len(p) || err == nil {
			return n, nil
		}
		if isEOF(err) {
			return n, err
		}
	}
}
