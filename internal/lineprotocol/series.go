package lineprotocol

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// SeriesHashVersion names the canonical form of a tag set that SeriesHash is made of. The form is
// frozen: rows that were written years ago are found by it. docs/series-hash.md defines it, with
// test vectors.
const SeriesHashVersion = "tailrace-series-v1"

// A Tag is a tag of a point, unescaped.
type Tag struct{ Key, Value string }

// SeriesHash returns the 128-bit identifier of a tag set: two sets have the same one if they have
// the same keys with the same values, in whatever order. Keys must be unique. The measurement is not
// part of it.
func SeriesHash(tags []Tag) [16]byte {
	if !slices.IsSortedFunc(tags, byKey) {
		tags = slices.Clone(tags)
		slices.SortFunc(tags, byKey)
	}
	return hashSorted(tags)
}

func byKey(a, b Tag) int { return cmp.Compare(a.Key, b.Key) }

// hashSorted hashes tags that are sorted by the bytes of their keys.
func hashSorted(tags []Tag) [16]byte {
	sum := sha256.Sum256(appendCanonical(make([]byte, 0, 512), tags))
	return [16]byte(sum[:16])
}

// appendCanonical appends the canonical form of sorted tags: the version's name and a zero byte, and
// then key and value of each tag, each as its length (four bytes, big endian) and its bytes.
func appendCanonical(dst []byte, tags []Tag) []byte {
	dst = append(dst, SeriesHashVersion...)
	dst = append(dst, 0)
	for _, t := range tags {
		dst = appendSized(dst, t.Key)
		dst = appendSized(dst, t.Value)
	}
	return dst
}

func appendSized(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

// routeOf returns what chooses the shard of a series: its hash mixed with the measurement, and never
// zero. It is the same in every process, so that an order that must hold survives a restart.
func routeOf(hash [16]byte, measurement string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for i := range len(measurement) {
		h = (h ^ uint64(measurement[i])) * prime
	}
	h ^= binary.LittleEndian.Uint64(hash[:8])
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return max(h, 1)
}
