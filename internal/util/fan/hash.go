package fan

import (
	"encoding/binary"
	"math/bits"
)

// Odd constants with as many ones as zeros, for hash.
const (
	hashA = 0xa0761d6478bd642f
	hashB = 0xe7037ed1a0b428db
	hashC = 0x8ebc6af09c88c6e3
)

// hash returns a hash of b that is never zero. It is the same in every process, so that a run can be
// replayed; it is no defence against someone who chooses the keys, who could at most make one shard
// do all the work.
func hash(b []byte) uint64 {
	h := uint64(len(b)) * hashC
	for len(b) >= 16 {
		h = fold(binary.LittleEndian.Uint64(b)^hashA, binary.LittleEndian.Uint64(b[8:])^h)
		b = b[16:]
	}
	var lo, hi uint64
	switch {
	case len(b) >= 8:
		lo = binary.LittleEndian.Uint64(b)
		hi = tail(b[8:])
	default:
		lo = tail(b)
	}
	h = fold(lo^hashB, hi^h^hashA)
	h = fold(h^hashC, hashB)
	if h == 0 {
		return 1
	}
	return h
}

// fold multiplies to 128 bits and folds the halves.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// tail reads up to seven bytes.
func tail(b []byte) (v uint64) {
	for i, c := range b {
		v |= uint64(c) << (8 * i)
	}
	return v
}
