package queue

import (
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/pkg/errors"
)

// window reads a file forwards through one buffer.
type window struct {
	file  io.ReaderAt
	buf   []byte
	start int64 // file offset of buf[0]
	chunk int   // how much is read at once
}

// bytes returns n bytes at off, none of them at or after limit, which are valid
// until the next call. It fails with io.ErrUnexpectedEOF where the file is shorter.
func (w *window) bytes(off int64, n int, limit int64) ([]byte, error) {
	if off+int64(n) > limit {
		return nil, io.ErrUnexpectedEOF
	}
	if off >= w.start && off+int64(n) <= w.start+int64(len(w.buf)) {
		return w.buf[off-w.start:][:n], nil
	}
	kept := 0
	if off >= w.start && off < w.start+int64(len(w.buf)) {
		kept = copy(w.buf, w.buf[off-w.start:])
	}
	want := int(min(int64(max(n, w.chunk)), limit-off))
	if cap(w.buf) < want {
		w.buf = append(make([]byte, 0, max(want, min(2*cap(w.buf), MaxPayload))), w.buf[:kept]...)
	}
	w.buf, w.start = w.buf[:want], off
	got, err := w.file.ReadAt(w.buf[kept:], off+int64(kept))
	w.buf = w.buf[:kept+got]
	if len(w.buf) >= n {
		return w.buf[:n], nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

// drop forgets what was read, for a file that is about to be another one.
func (w *window) drop() { w.buf, w.start = w.buf[:0], 0 }

// scanner finds the blocks of one segment, and its way over damage.
type scanner struct {
	window
	seed  uint32
	off   int64    // where to go on
	limit int64    // end of what may be read
	last  Sequence // blocks up to this one are passed over
	heads bool     // do not look at payloads
}

// scanned is what the scanner found.
type scanned struct {
	blockHead
	off    int64
	stored []byte // valid until the scanner moves
	// bad is the range of damaged bytes that was passed over to get here, empty if
	// from equals to. Of blocks whose header was good, known has the points.
	bad badRange
}

// badRange is a run of bytes that are not blocks.
type badRange struct {
	from, to int64
	blocks   uint64 // blocks in it whose header is good
	points   int64  // and their points
}

func (b *badRange) empty() bool { return b.from == b.to }

// next returns the next good block. At the limit it returns io.EOF, with the
// damage before the limit if there was any. Other errors are of the device, and
// leave the scanner where it was.
func (s *scanner) next() (scanned, error) {
	begin := s.off
	var found scanned
	bad := badRange{}
	damaged := func(from, to int64) {
		if bad.empty() {
			bad.from = from
		}
		bad.to = to
	}
	for s.off+minBlockSize <= s.limit {
		head, err := s.bytes(s.off, blockHeadSize, s.limit)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			break // shorter than it should be: all that follows is missing
		}
		if err != nil {
			s.off = begin
			return scanned{}, err
		}
		h := &found.blockHead
		if !h.decode(head, s.seed, s.off) || s.off+h.size() > s.limit {
			to := s.resync()
			damaged(s.off, to)
			s.off = to
			continue
		}
		if h.Sequence <= s.last {
			s.off += h.size()
			continue
		}
		found.off = s.off
		if s.heads {
			s.off += h.size()
			found.bad = bad
			return found, nil
		}
		whole, err := s.bytes(s.off, blockHeadSize+int(h.Stored), s.limit)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			s.off = begin
			return scanned{}, err
		}
		if err != nil || crc32.Checksum(whole[blockHeadSize:], castagnoli) != h.PayloadSum {
			bad.blocks++
			bad.points += int64(h.Points)
			damaged(s.off, s.off+h.size())
			s.off += h.size()
			continue
		}
		found.stored = whole[blockHeadSize:]
		s.off += h.size()
		found.bad = bad
		return found, nil
	}
	if s.off < s.limit {
		damaged(s.off, s.limit)
		s.off = s.limit
	}
	return scanned{bad: bad}, io.EOF
}

// resync returns the next place that could be a block, looking only at what is
// in the buffer already; the loop in next comes back for more.
func (s *scanner) resync() int64 {
	off := s.off + blockAlign
	for ; off+4 <= s.start+int64(len(s.buf)); off += blockAlign {
		if binary.LittleEndian.Uint32(s.buf[off-s.start:]) == blockMagic {
			break
		}
	}
	return min(off, s.limit)
}
