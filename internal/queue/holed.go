package queue

import "io"

const (
	// pageSize is how little of a file may be given up.
	pageSize = 4096
	// maxReadFailures is how often the same place may fail to be read until it is
	// taken for damaged.
	maxReadFailures = 5
)

// patient asks a device that fails again, at once.
type patient struct{ io.ReaderAt }

func (p patient) ReadAt(b []byte, off int64) (n int, err error) {
	for range maxReadFailures {
		if n, err = p.ReaderAt.ReadAt(b, off); n == len(b) || isEOF(err) {
			break
		}
	}
	return n, err
}

// holed reads zeros in place of those pages of a file that cannot be read.
type holed struct {
	file io.ReaderAt
	// give is asked whether to give up a page, or to fail with its error. Without it
	// every page that cannot be read is given up.
	give func(page int64) bool
}

func (h holed) ReadAt(p []byte, off int64) (int, error) {
	n, err := h.file.ReadAt(p, off)
	if n == len(p) || err == nil || isEOF(err) {
		return n, err
	}
	for at := 0; at < len(p); {
		from := off + int64(at)
		part := p[at:min(len(p), at+pageSize-int(from%pageSize))]
		n, err := h.file.ReadAt(part, from)
		switch {
		case n == len(part):
		case isEOF(err):
			return at + n, err
		case h.give != nil && !h.give(from/pageSize):
			return at, err
		default:
			clear(part)
		}
		at += len(part)
	}
	return len(p), nil
}
