package queue

import (
	"hash/crc32"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pkg/errors"
)

// Compression says how payloads are stored. Readers understand all of them, so
// it may differ from block to block.
type Compression uint8

const (
	// S2 costs little: about 700–1,000 MB/s a core on line protocol, which
	// becomes a fifth to a seventh of its size. The default.
	S2 Compression = iota
	// Zstd costs about three times as much as S2 and needs two thirds of the
	// space, which is the better bargain where the disk is small and the network
	// is often away. Payloads below 4 KiB are stored with S2 all the same, since
	// starting zstd costs more than it saves there.
	Zstd
	// NoCompression stores payloads as they are.
	NoCompression
)

// zstdFrom is the payload size from which zstd is worth its start-up cost.
const zstdFrom = 4 << 10

// Group is what is appended as a whole: the blocks of one write. It compresses
// and sums each payload once, however many queues it is then appended to.
//
// The zero value is an empty group, compressed with S2. A group may be appended
// to several queues at once, but not changed while it is being appended. After
// Reset its buffers are used again.
type Group struct {
	// Compression is how payloads that are added from now on are stored.
	Compression Compression

	blocks []prepared
	buf    []byte
	size   int64
	points int64
	zstd   *zstd.Encoder
}

// prepared is a block before it has its number: all that does not depend on the
// queue it goes to.
type prepared struct {
	off, stored int // payload as stored, in Group.buf
	raw         int
	points      uint32
	kind        Kind
	codec       codec
	crc         uint32
}

// Reset empties the group and keeps its buffers.
func (g *Group) Reset() {
	g.blocks, g.buf, g.size, g.points = g.blocks[:0], g.buf[:0], 0, 0
}

// Add adds a block. The payload is copied. It must not be longer than
// [MaxPayload].
func (g *Group) Add(kind Kind, points int, payload []byte) error {
	if len(payload) > MaxPayload {
		return errors.Errorf("queue: a payload of %d bytes is above the limit of %d: split it", len(payload), MaxPayload)
	}
	if points < 0 || int64(points) > 1<<32-1 {
		return errors.Errorf("queue: a block cannot have %d points", points)
	}
	off := len(g.buf)
	c := g.store(payload)
	stored := g.buf[off:]
	g.blocks = append(g.blocks, prepared{
		off: off, stored: len(stored), raw: len(payload),
		points: uint32(points), kind: kind, codec: c,
		crc: crc32.Checksum(stored, castagnoli),
	})
	g.size += blockSize(len(stored))
	g.points += int64(points)
	return nil
}

// store appends the payload to the buffer, compressed if that makes it shorter.
func (g *Group) store(payload []byte) codec {
	off := len(g.buf)
	switch {
	case g.Compression == NoCompression || len(payload) < 32:
	case g.Compression == Zstd && len(payload) >= zstdFrom:
		if g.zstd == nil {
			g.zstd = newZstdEncoder()
		}
		g.buf = g.zstd.EncodeAll(payload, g.buf)
		if len(g.buf)-off < len(payload) {
			return codecZstd
		}
	default:
		g.buf = grow(g.buf, s2.MaxEncodedLen(len(payload)))
		out := s2.Encode(g.buf[off:cap(g.buf)], payload)
		if len(out) < len(payload) {
			g.buf = g.buf[:off+len(out)]
			return codecS2
		}
	}
	g.buf = append(g.buf[:off], payload...)
	return codecNone
}

// Blocks returns the number of blocks.
func (g *Group) Blocks() int { return len(g.blocks) }

// Points returns the number of points of all blocks.
func (g *Group) Points() int64 { return g.points }

// Size returns the bytes that the group takes in a queue, exactly.
func (g *Group) Size() int64 { return g.size }

// grow makes room for n more bytes behind b's length.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	bigger := make([]byte, len(b), max(2*cap(b), len(b)+n))
	copy(bigger, b)
	return bigger
}

// newZstdEncoder makes an encoder for blocks of at most MaxPayload. Our own sums
// cover the content, so zstd's are left out.
func newZstdEncoder() *zstd.Encoder {
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(MaxPayload),
		zstd.WithLowerEncoderMem(true),
		zstd.WithEncoderCRC(false))
	if err != nil {
		panic(err) // the options are constants
	}
	return enc
}

// Block returns the block at position i of the group as it was added, without a
// sequence or time. The payload is a copy. It is for other implementations of Log.
func (g *Group) Block(i int) (Block, error) {
	p := &g.blocks[i]
	var d decoder
	defer d.close()
	h := blockHead{Codec: p.codec, Raw: uint32(p.raw)}
	payload, err := d.decode(&h, g.buf[p.off:p.off+p.stored], nil, false)
	return Block{Points: int(p.points), Kind: p.kind, Last: i == len(g.blocks)-1, Payload: payload}, err
}
