package queue

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// segmentWith returns a segment's bytes with some groups in it.
func segmentWith(tb testing.TB, id ID, groups ...[]string) []byte {
	tb.Helper()
	head := segmentHead{ID: id, First: 1}
	b := make([]byte, dataStart)
	head.encode(b)
	copy(b[headCopyAt:], b[:fileHeadSize])
	seq := Sequence(1)
	for _, texts := range groups {
		var g Group
		for _, text := range texts {
			require.NoError(tb, g.Add(KindLineProtocol, 1, []byte(text)))
		}
		for i, p := range g.blocks {
			h := blockHead{Sequence: seq, Time: 1, Stored: uint32(p.stored), Raw: uint32(p.raw), Points: 1, Kind: p.kind, Codec: p.codec, PayloadSum: p.crc, Index: uint32(i)}
			if i == len(g.blocks)-1 {
				h.Flags = flagLast
			}
			off := len(b)
			b = append(b, make([]byte, h.size())...)
			h.encode(b[off:], head.seed(), int64(off))
			copy(b[off+blockHeadSize:], g.buf[p.off:p.off+p.stored])
			seq++
		}
	}
	return b
}

var fuzzID = ID{7}

// FuzzScanner feeds the block reader with anything. It must end, must not leave
// the file, and must not deliver what its sums do not cover.
func FuzzScanner(f *testing.F) {
	whole := segmentWith(f, fuzzID, []string{"a v=1 1", "b v=2 2"}, []string{string(bytes.Repeat([]byte("cpu v=1 1\n"), 30))})
	f.Add(whole, uint16(64))
	f.Add(whole[:len(whole)-9], uint16(100))
	f.Add(append(bytes.Clone(whole[:dataStart]), whole...), uint16(4096))
	f.Add([]byte{}, uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, chunk uint16) {
		head := segmentHead{ID: fuzzID, First: 1}
		s := scanner{window: window{file: bytes.NewReader(b), chunk: int(chunk)}, seed: head.seed(), off: dataStart, limit: int64(max(len(b), dataStart))}
		ahead := s // the same through a ring
		ahead.chunk, ahead.alone, ahead.rings, ahead.passed = max(int(chunk), 1), true, &rings{}, 1<<40
		ahead.rings.left.Store(1)
		defer ahead.free()
		var dec decoder
		defer dec.close()
		at := int64(dataStart)
		last := Sequence(0)
		for {
			x, err := s.next()
			same, sameErr := ahead.next()
			require.Equal(t, err, sameErr)
			require.Equal(t, x, same)
			ahead.last = x.Sequence
			if !x.bad.empty() {
				require.Equal(t, at, x.bad.from, "damage begins where the good ends")
				require.LessOrEqual(t, x.bad.to, s.limit)
				at = x.bad.to
			}
			if err != nil {
				require.True(t, isEOF(err))
				return
			}
			require.GreaterOrEqual(t, x.off, at)
			require.LessOrEqual(t, x.off+int64(blockHeadSize)+int64(x.Stored), int64(len(b)))
			require.Greater(t, x.Sequence, last)
			last, at = x.Sequence, x.off+x.size()
			s.last = last
			_, _ = dec.decode(&x.blockHead, x.stored, nil, false)
		}
	})
}

// FuzzCursor reads anything as a cursor: either it is one, or it is not.
func FuzzCursor(f *testing.F) {
	good := cursor{ID: fuzzID, Acked: 7, Next: 9, Clean: true, MarkOff: 4096, MarkSeq: 8}
	f.Add(good.encode())
	newer := good.encode()
	sealFileHeadAs(newer, 3)
	f.Add(newer)
	f.Add(good.encode()[:50])
	f.Add([]byte("TLRQCUR\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, state, version := decodeCursor(b)
		switch state {
		case headGood:
			require.LessOrEqual(t, version, uint16(formatVersion))
			again, state, _ := decodeCursor(c.encode())
			require.Equal(t, headGood, state)
			require.Equal(t, c, again)
		case headNewer:
			require.Greater(t, version, uint16(formatVersion))
		default:
			require.Zero(t, c)
		}
	})
}

// FuzzLedger reads anything as the record of losses, its sum made right, and asks what
// is left of a range.
func FuzzLedger(f *testing.F) {
	good := ledger{
		ID: fuzzID, Floor: 3, Unused: [][2]Sequence{{5, 9}, {20, 29}},
		Totals: map[Reason]Total{LostAge: {Times: 1}}, Losses: []Loss{{Reason: LostAge, First: 1, Last: 3}},
	}
	b, err := good.encode()
	require.NoError(f, err)
	f.Add(b[16:])
	f.Add([]byte(`{"unused":[[9,3]]}`))
	f.Add([]byte(`{"unused":[[1,18446744073709551615]],"losses":[{"first":2,"last":4}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append(make([]byte, 16), body...)
		copy(b, lossesMagic)
		binary.LittleEndian.PutUint32(b[12:], lossesSum(b))
		l, state, _ := decodeLedger(b)
		if state != headGood {
			require.Zero(t, l)
			return
		}
		at := Sequence(0)
		for _, r := range l.uncovered(1, 100) {
			require.Greater(t, r[0], at)
			require.LessOrEqual(t, r[0], r[1])
			for s := r[0]; s <= r[1]; s++ {
				require.Equal(t, s, l.lastUsed(s), "it is not unused")
			}
			at = r[1]
		}
		require.LessOrEqual(t, at, Sequence(100))
		l.skip(50, 60)
		require.True(t, l.inOrder())
		again, err := l.encode()
		require.NoError(t, err)
		_, state, _ = decodeLedger(again)
		require.Equal(t, headGood, state)
	})
}

// FuzzOpen opens a queue whose files are anything.
func FuzzOpen(f *testing.F) {
	whole := segmentWith(f, fuzzID, []string{"a v=1 1"}, []string{"b v=2 2", "c v=3 3"})
	c := cursor{ID: fuzzID, Next: 1}
	books, err := (&ledger{ID: fuzzID, Totals: map[Reason]Total{LostAge: {Times: 1}}, Losses: []Loss{{Reason: LostAge, First: 1, Last: 1}}}).encode()
	require.NoError(f, err)
	f.Add(whole, c.encode(), books)
	f.Add(whole[:1100], []byte{}, []byte{})
	f.Add([]byte{}, c.encode(), books[:20])
	f.Fuzz(func(t *testing.T, seg, cur, los []byte) {
		d := simdisk.New(1)
		require.NoError(t, disk.MkdirAll(d, "/q"))
		for name, b := range map[string][]byte{segmentName(1, 0): seg, cursorName: cur, lossesName: los} {
			require.NoError(t, writeNew(d, "/q/"+name, b))
		}
		q, err := Open(Config{Dir: "/q", FS: d, manual: true})
		if err != nil {
			require.ErrorAs(t, err, new(*VersionError))
			return
		}
		_ = drain(t, q)
		put(t, q, "still working")
		require.NoError(t, q.Close())
		_, err = Inspect(Config{Dir: "/q", FS: d}, true)
		require.NoError(t, err)
	})
}
