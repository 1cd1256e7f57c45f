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
	// Next is the sequence that comes next, if the queue was closed properly, else
	// zero. Only then may numbers go on without a gap.
	Next Sequence
	// LastTime is the newest enqueue time so far, for when no segment is left.
	LastTime int64
	// HeadFirst, HeadGen and HeadOff say where the first unsent block lies. They
	// are a hint that saves a search, and are checked before they are believed.
	HeadFirst Sequence
	HeadGen   uint32
	HeadOff   int64
	// End is the end of the last segment at a proper close.
	End int64
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
	le.PutUint64(b[72:], uint64(c.End))
	le.PutUint32(b[80:], c.HeadGen)
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
	c.End = int64(le.Uint64(b[72:]))
	c.HeadGen = le.Uint32(b[80:])
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
