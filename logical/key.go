package logical

import (
	"encoding/binary"
	"math"

	"github.com/cockroachdb/apd/v3"
)

// AppendKey appends the canonical encoding of the mutation's table and key to dst, and returns the
// result: two mutations change the same row if and only if their encodings are equal. The encoding
// is for comparing within a process; it is not stored across versions except in dead letters.
//
// A mutation without Values has no key of its own; its encoding is that of its table and Route.
func (m *Mutation) AppendKey(dst []byte) []byte {
	dst = appendString(dst, m.Relation.Schema)
	dst = appendString(dst, m.Relation.Name)
	if m.Values == nil {
		return binary.LittleEndian.AppendUint64(dst, m.Route)
	}
	for i := range m.Relation.Columns {
		if m.Relation.Columns[i].Key {
			dst = m.Values[i].appendTo(dst)
		}
	}
	return dst
}

// appendTo appends an encoding that is equal for equal values of one kind only.
func (v Value) appendTo(dst []byte) []byte {
	dst = append(dst, byte(v.kind))
	switch v.kind {
	case KindText, KindBytes, KindUUID, KindJSON:
		return appendString(dst, v.Text())
	case KindDecimal:
		// 1.0 and 1.00 are one key to SQL.
		var d apd.Decimal
		d.Reduce(v.Decimal())
		return appendString(dst, d.String())
	case KindFloat64:
		// 0 and -0 are one key to SQL.
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v.Float64()+0))
	case KindTime:
		dst = binary.LittleEndian.AppendUint64(dst, v.num)
		return binary.LittleEndian.AppendUint32(dst, v.aux)
	}
	return binary.LittleEndian.AppendUint64(dst, v.num)
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
