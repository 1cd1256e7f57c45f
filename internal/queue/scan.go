package queue

import (
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/pkg/errors"
)

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
func (s *scanner) next() (found scanned, err error) {
	err = s.nextInto(&found)
	return found, err
}

// nextInto is next without a copy of what it found.
func (s *scanner) nextInto(found *scanned) error {
	begin := s.off
	*found = scanned{}
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
			return err
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
			return nil
		}
		whole, err := s.bytes(s.off, blockHeadSize+int(h.Stored), s.limit)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			s.off = begin
			return err
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
		return nil
	}
	if s.off < s.limit {
		damaged(s.off, s.limit)
		s.off = s.limit
	}
	*found = scanned{bad: bad}
	return io.EOF
}

// inPlace finds the next block if all is well with it and it can be read while
// what lies from keep on stays where it is.
func (s *scanner) inPlace(found *scanned, keep int64) bool {
	h := &found.blockHead
	if s.off+blockHeadSize > s.limit || !s.reach(keep, s.off, blockHeadSize) || !h.decode(s.buf[s.off-s.start:], s.seed, s.off) {
		return false
	}
	if h.Sequence != s.last+1 || s.off+h.size() > s.limit || !s.reach(keep, s.off, blockHeadSize+int(h.Stored)) {
		return false
	}
	found.off, found.bad = s.off, badRange{}
	found.stored = s.buf[s.off-s.start+blockHeadSize:][:h.Stored]
	if crc32.Checksum(found.stored, castagnoli) != h.PayloadSum {
		return false
	}
	s.off += h.size()
	return true
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
