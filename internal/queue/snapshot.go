package queue

import (
	"bytes"
	"io"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// A Snapshot is a queue as it was at one instant, while that goes on: everything that had been answered then
// and was not acknowledged. Its files, written to a directory, are a queue. It holds them open until Close.
type Snapshot struct {
	parts []SnapshotPart
	files []disk.File
}

// A SnapshotPart is one file.
type SnapshotPart struct {
	// Name is the file's in the queue's directory.
	Name string
	// Size is how many bytes Content has.
	Size int64
	// Content may be read once.
	Content io.Reader
}

// Snapshot returns the queue as it is now. Appending waits for no more than the opening of the files;
// acknowledging goes on too, and what it removes stays readable here.
func (q *Queue) Snapshot() (s *Snapshot, err error) {
	s = &Snapshot{}
	defer func() {
		if err != nil {
			_ = s.Close() // nothing was written
			s = nil
		}
	}()
	q.head.mu.Lock() // the cursor stays, and no segment is removed
	defer q.head.mu.Unlock()
	q.books.mu.Lock()
	losses := q.books.ledger.clone()
	q.books.mu.Unlock()
	// The segments end where they do after the losses were read: what is dropped in between is in both.
	q.mu.Lock()
	closing := q.closing
	at := q.cursorLocked()
	type extent struct {
		name string
		end  int64
	}
	var extents []extent
	for _, seg := range q.segs {
		extents = append(extents, extent{seg.name, seg.end})
	}
	q.mu.Unlock()
	if closing {
		return s, ErrClosed
	}
	losses.ID = q.id
	text, err := losses.encode()
	if err != nil {
		return s, err
	}
	s.add(cursorName, at.encode())
	s.add(lossesName, text)
	for _, e := range extents {
		f, err := q.fs.Open(q.path(e.name))
		if isNotExist(err) {
			continue // removed by hand; opening the copy counts what is missing
		}
		if err != nil {
			return s, errors.Wrapf(err, "queue %s: snapshot", q.name)
		}
		s.files = append(s.files, f)
		size, err := f.Size()
		if err != nil {
			return s, errors.Wrapf(err, "queue %s: snapshot", q.name)
		}
		size = min(size, e.end) // what lies behind is not answered yet
		s.parts = append(s.parts, SnapshotPart{Name: e.name, Size: size, Content: io.NewSectionReader(f, 0, size)})
	}
	return s, nil
}

func (s *Snapshot) add(name string, content []byte) {
	s.parts = append(s.parts, SnapshotPart{Name: name, Size: int64(len(content)), Content: bytes.NewReader(content)})
}

// Parts returns the files, the cursor first.
func (s *Snapshot) Parts() []SnapshotPart { return s.parts }

// Close gives the files back.
func (s *Snapshot) Close() error {
	var first error
	for _, f := range s.files {
		if err := f.Close(); first == nil {
			first = err
		}
	}
	s.files = nil
	return errors.Wrap(first, "queue: snapshot")
}

// FormatVersion is the version of the files that this program writes.
const FormatVersion = formatVersion

// IsSnapshotName reports whether a snapshot can have a file of that name.
func IsSnapshotName(name string) bool {
	_, _, segment := parseSegmentName(name)
	return segment || name == cursorName || name == lossesName
}
