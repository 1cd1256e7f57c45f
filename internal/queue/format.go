package queue

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// The layout is drawn in doc.go and explained in docs/queue-format.md.
const (
	formatVersion = 1

	fileHeadSize   = 128 // of segments and cursors
	headCopyAt     = 512 // where a segment has the second copy of its header
	dataStart      = 1024
	blockHeadSize  = 56
	blockAlign     = 8
	minBlockSize   = blockHeadSize
	blockMagic     = 0x4b4c4254 // "TBLK"
	flagLast       = 1 << 0
	segmentMagic   = "TLRQSEG\x00"
	cursorMagic    = "TLRQCUR\x00"
	lossesMagic    = "TLRQLOS\x00"
	maxStoredSlack = 1 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// codec says how one payload is stored.
type codec uint8

const (
	codecNone codec = iota
	codecS2
	codecZstd
)

// gapReason says why sequences between two segments were never used.
type gapReason uint32

const (
	gapNone    gapReason = iota
	gapOpened            // the queue was not closed before, so some might have been seen, or they were skipped
	gapFailed            // a write or a sync failed, and its sequences are not used again
	gapCarried           // the unsynced end of the segment before was written again
)

// segmentHead opens a segment.
type segmentHead struct {
	ID    ID
	First Sequence // of the first block in this segment
	// Prev is the last valid sequence before this segment. Blocks with a greater
	// one in older segments are leftovers of a failed write.
	Prev     Sequence
	Gen      uint32 // tells segments with the same First apart; the greatest counts
	Reason   gapReason
	Created  int64
	PrevTime int64 // newest enqueue time up to Prev: no block here counts as older
	Capacity int64 // no block lies beyond, which bounds what a crash can have lost
}

func (h *segmentHead) encode(b []byte) {
	clear(b[:fileHeadSize])
	copy(b, segmentMagic)
	le := binary.LittleEndian
	copy(b[16:], h.ID[:])
	le.PutUint64(b[32:], uint64(h.First))
	le.PutUint64(b[40:], uint64(h.Prev))
	le.PutUint64(b[48:], uint64(h.Created))
	le.PutUint64(b[56:], uint64(h.PrevTime))
	le.PutUint64(b[64:], uint64(h.Capacity))
	le.PutUint32(b[72:], h.Gen)
	le.PutUint32(b[76:], uint32(h.Reason))
	sealFileHead(b)
}

func (h *segmentHead) decode(b []byte) {
	le := binary.LittleEndian
	copy(h.ID[:], b[16:])
	h.First = Sequence(le.Uint64(b[32:]))
	h.Prev = Sequence(le.Uint64(b[40:]))
	h.Created = int64(le.Uint64(b[48:]))
	h.PrevTime = int64(le.Uint64(b[56:]))
	h.Capacity = int64(le.Uint64(b[64:]))
	h.Gen = le.Uint32(b[72:])
	h.Reason = gapReason(le.Uint32(b[76:]))
}

// seed starts the sums of the block headers of one segment, so that a block is
// valid only in its own place: neither in another queue's file, nor as a copy
// inside a payload, nor after a misdirected write.
func (h *segmentHead) seed() uint32 {
	var b [28]byte
	copy(b[:], h.ID[:])
	binary.LittleEndian.PutUint64(b[16:], uint64(h.First))
	binary.LittleEndian.PutUint32(b[24:], h.Gen)
	return crc32.Checksum(b[:], castagnoli)
}

// sealFileHead fills in what every file of every version has at the same place:
// version, length and sum.
func sealFileHead(b []byte) {
	binary.LittleEndian.PutUint16(b[8:], formatVersion)
	binary.LittleEndian.PutUint16(b[10:], fileHeadSize)
	binary.LittleEndian.PutUint32(b[12:], fileHeadSum(b[:fileHeadSize]))
}

func fileHeadSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[16:])
}

type headState uint8

const (
	headBad   headState = iota // not what was written
	headGood                   // of a version that is known
	headNewer                  // intact, but of a version to come
)

// checkFileHead looks at the first bytes of a file. The sum is checked before the
// version is believed, so a flipped bit there does not read as "newer".
func checkFileHead(b []byte, magic string) (headState, uint16) {
	if len(b) < 16 || !bytes.Equal(b[:8], []byte(magic)) {
		return headBad, 0
	}
	version := binary.LittleEndian.Uint16(b[8:])
	size := int(binary.LittleEndian.Uint16(b[10:]))
	if size < 16 || size > len(b) || binary.LittleEndian.Uint32(b[12:]) != fileHeadSum(b[:size]) {
		return headBad, 0
	}
	if version > formatVersion {
		return headNewer, version
	}
	if size != fileHeadSize {
		return headBad, 0
	}
	return headGood, version
}

// blockHead opens a block.
type blockHead struct {
	Sequence   Sequence
	Time       int64
	Stored     uint32 // bytes of the payload as stored
	Raw        uint32 // bytes of the payload as it was given
	Points     uint32
	Kind       Kind
	Codec      codec
	Flags      uint8
	PayloadSum uint32
	Index      uint32 // position within the group, from 0
	// Synced is how much of the segment was durable when the block was written:
	// damage before it is damage, damage after it may be a write that a power cut
	// interrupted.
	Synced uint32
	// After is how many blocks of the group follow, as it was written.
	After uint32
}

func (h *blockHead) last() bool { return h.Flags&flagLast != 0 }

// group returns the sequence of the group's first block.
func (h *blockHead) group() Sequence { return h.Sequence - Sequence(h.Index) }

// groupEnd returns the sequence of the group's last block, as it was written.
func (h *blockHead) groupEnd() Sequence { return h.Sequence + Sequence(h.After) }

func (h *blockHead) size() int64 { return blockSize(int(h.Stored)) }

func (h *blockHead) encode(b []byte, seed uint32, off int64) {
	le := binary.LittleEndian
	le.PutUint32(b, blockMagic)
	le.PutUint64(b[8:], uint64(h.Sequence))
	le.PutUint64(b[16:], uint64(h.Time))
	le.PutUint32(b[24:], h.Stored)
	le.PutUint32(b[28:], h.Raw)
	le.PutUint32(b[32:], h.Points)
	le.PutUint16(b[36:], uint16(h.Kind))
	b[38] = byte(h.Codec)
	b[39] = h.Flags
	le.PutUint32(b[40:], h.PayloadSum)
	le.PutUint32(b[44:], h.Index)
	le.PutUint32(b[48:], h.Synced)
	le.PutUint32(b[52:], h.After)
	le.PutUint32(b[4:], blockSum(b, seed, off))
}

// decode reads a header that lies at offset off, and reports whether it is one.
func (h *blockHead) decode(b []byte, seed uint32, off int64) bool {
	le := binary.LittleEndian
	if le.Uint32(b) != blockMagic || le.Uint32(b[4:]) != blockSum(b, seed, off) {
		return false
	}
	h.Sequence = Sequence(le.Uint64(b[8:]))
	h.Time = int64(le.Uint64(b[16:]))
	h.Stored = le.Uint32(b[24:])
	h.Raw = le.Uint32(b[28:])
	h.Points = le.Uint32(b[32:])
	h.Kind = Kind(le.Uint16(b[36:]))
	h.Codec = codec(b[38])
	h.Flags = b[39]
	h.PayloadSum = le.Uint32(b[40:])
	h.Index = le.Uint32(b[44:])
	h.Synced = le.Uint32(b[48:])
	h.After = le.Uint32(b[52:])
	return h.Stored <= MaxPayload+maxStoredSlack && h.Raw <= MaxPayload && Sequence(h.Index) < h.Sequence
}

// blockSum mixes the place into the sum. The offset goes in by exclusive or, not
// as bytes: it costs nothing, and two places still never share a sum.
func blockSum(b []byte, seed uint32, off int64) uint32 {
	return crc32.Update(seed^uint32(off), castagnoli, b[8:blockHeadSize])
}

// blockSize returns the bytes that a block takes on disk.
func blockSize(stored int) int64 {
	return blockHeadSize + (int64(stored)+blockAlign-1)&^(blockAlign-1)
}
