package queue

import (
	"encoding/binary"
	"path/filepath"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// cursor is the content of the cursor file: how far the queue was sent.
type cursor struct {
	ID    ID
	Acked Sequence
	// Next is a sequence that was not used when this was written, nor any greater.
	Next Sequence
	// Clean says that the queue was closed properly. Only then may numbers go on
	// without a gap.
	Clean bool
	// LastTime is the newest enqueue time so far, which nothing that is appended later
	// counts as older than, unless it is still to come.
	LastTime int64
	// HeadFirst, HeadGen and HeadOff say where the first unsent block lies. They
	// are a hint that saves a search, and are checked before they are believed.
	HeadFirst Sequence
	HeadGen   uint32
	HeadOff   int64
	// MarkFirst, MarkGen, MarkOff and MarkSeq name a place in the newest segment up
	// to which everything was durable, and the last sequence before it.
	MarkFirst Sequence
	MarkGen   uint32
	MarkOff   int64
	MarkSeq   Sequence
}

func (c *cursor) encode() []byte {
	b := make([]byte, fileHeadSize)
	copy(b, cursorMagic)
	le := binary.LittleEndian
	copy(b[16:], c.ID[:])
	le.PutUint64(b[32:], uint64(c.Acked))
	le.PutUint64(b[40:], uint64(c.Next))
	le.PutUint64(b[48:], uint64(c.LastTime))
	le.PutUint64(b[56:], uint64(c.HeadFirst))
	le.PutUint64(b[64:], uint64(c.HeadOff))
	le.PutUint64(b[72:], uint64(c.MarkFirst))
	le.PutUint64(b[80:], uint64(c.MarkOff))
	le.PutUint64(b[88:], uint64(c.MarkSeq))
	le.PutUint32(b[96:], c.HeadGen)
	le.PutUint32(b[100:], c.MarkGen)
	if c.Clean {
		b[104] = 1
	}
	sealFileHead(b)
	return b
}

// decodeCursor reads a cursor file.
func decodeCursor(b []byte) (c cursor, state headState, version uint16) {
	state, version = checkFileHead(b, cursorMagic)
	if state != headGood {
		return c, state, version
	}
	le := binary.LittleEndian
	copy(c.ID[:], b[16:])
	c.Acked = Sequence(le.Uint64(b[32:]))
	c.Next = Sequence(le.Uint64(b[40:]))
	c.LastTime = int64(le.Uint64(b[48:]))
	c.HeadFirst = Sequence(le.Uint64(b[56:]))
	c.HeadOff = int64(le.Uint64(b[64:]))
	c.MarkFirst = Sequence(le.Uint64(b[72:]))
	c.MarkOff = int64(le.Uint64(b[80:]))
	c.MarkSeq = Sequence(le.Uint64(b[88:]))
	c.HeadGen = le.Uint32(b[96:])
	c.MarkGen = le.Uint32(b[100:])
	c.Clean = b[104] == 1
	return c, state, version
}

// loadCursor returns found=false where the file is missing or damaged.
func loadCursor(fsys disk.FS, dir string) (c cursor, found, damaged bool, err error) {
	path := filepath.Join(dir, cursorName)
	b, err := readAll(fsys, path, 4096)
	if isNotExist(err) {
		return c, false, false, nil
	}
	if err != nil {
		return c, false, false, err
	}
	c, state, version := decodeCursor(b)
	switch state {
	case headGood:
		return c, true, false, nil
	case headNewer:
		return c, false, false, &VersionError{Path: path, Version: version}
	}
	return c, false, true, nil
}
