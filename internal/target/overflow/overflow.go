// Package overflow is the form of what has no column of its own, because a table, or the number of tables,
// has reached its limit: one JSON object per row, with a member for each such tag and field.
//
//	{"usage": 1.5, "count": 18446744073709551615, "tag:rack": "r7"}
//
// A field is called by its name and a tag by "tag:" and its name. A field whose name begins with "tag:" or
// "field:" has "field:" in front of it, so that no two are called the same.
package overflow

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailrace-cdc/tailrace/logical"
)

const (
	// Role is what the staging tables call the column, where others are a tag's or a field's.
	Role = "overflow"
	// Column is the column's name, unless that is taken.
	Column = "overflow"
	// Suffix is put behind the column's name if that is taken.
	Suffix = "_json"
	// TableKey is the name by which the staging tables know the table of the measurements that have none
	// of their own. No line of line protocol comes to it.
	TableKey = "\x01overflow"
	// Table is the name of that table, unless that is taken.
	Table = "overflow"
	// TableSuffix is put behind its name if that is taken.
	TableSuffix = "_measurements"
	// MeasurementColumn is the column of that table which names the measurement.
	MeasurementColumn = "measurement"
)

// Name returns the name of a tag's or field's member.
func Name(c *logical.Column) string {
	switch {
	case c.Role == logical.RoleTag:
		return "tag:" + c.Name
	case strings.HasPrefix(c.Name, "tag:") || strings.HasPrefix(c.Name, "field:"):
		return "field:" + c.Name
	}
	return c.Name
}

// An Object collects the members of one row. Its memory is reused; it is not safe for concurrent use.
type Object struct {
	buf   []byte
	names map[string]struct{}
}

// Reset makes the object an empty one.
func (o *Object) Reset() {
	o.buf = append(o.buf[:0], '{')
	if o.names == nil {
		o.names = map[string]struct{}{}
	}
	clear(o.names)
}

// Add adds a member unless there is one for the column already: what is added first counts. The value
// is one that [Refuses] does not refuse.
func (o *Object) Add(c *logical.Column, v logical.Value) {
	name := Name(c)
	if _, known := o.names[name]; known {
		return
	}
	o.names[name] = struct{}{}
	if len(o.buf) > 1 {
		o.buf = append(o.buf, ',')
	}
	o.buf = appendString(o.buf, name)
	o.buf = append(o.buf, ':')
	o.buf = appendValue(o.buf, v)
}

// Empty reports whether nothing was added.
func (o *Object) Empty() bool { return len(o.names) == 0 }

// JSON returns the object. It is valid until the next call of a method.
func (o *Object) JSON() []byte {
	n := len(o.buf)
	return append(o.buf, '}')[:n+1]
}

// Refuses says why a value cannot be a member; "" if it can.
func Refuses(c *logical.Column, v logical.Value) string {
	if !storable(c.Name) {
		return "its name is not UTF-8, or has a NUL, and the overflow column can hold no such name"
	}
	switch v.Kind() {
	case logical.KindFloat64:
		if f := v.Float64(); math.IsNaN(f) || math.IsInf(f, 0) {
			return "NaN and infinities cannot be in the overflow column"
		}
	case logical.KindText:
		if !storable(v.Text()) {
			return "it is not UTF-8, or has a NUL, and cannot be in the overflow column"
		}
	case logical.KindJSON:
		if !json.Valid(v.Bytes()) {
			return "it is no JSON"
		}
	}
	return ""
}

func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }

func appendValue(dst []byte, v logical.Value) []byte {
	switch v.Kind() {
	case logical.KindBool:
		return strconv.AppendBool(dst, v.Bool())
	case logical.KindInt64:
		return strconv.AppendInt(dst, v.Int64(), 10)
	case logical.KindUint64:
		return strconv.AppendUint(dst, v.Uint64(), 10)
	case logical.KindFloat64:
		return strconv.AppendFloat(dst, v.Float64(), 'g', -1, 64)
	case logical.KindNull, logical.KindAbsent:
		return append(dst, "null"...)
	case logical.KindJSON:
		return append(dst, v.Text()...)
	case logical.KindText:
		return appendString(dst, v.Text())
	case logical.KindBytes, logical.KindUUID:
		dst = append(dst, '"')
		dst = hex.AppendEncode(dst, v.Bytes())
		return append(dst, '"')
	}
	return appendString(dst, v.String())
}

// appendString appends a text that is UTF-8 as JSON.
func appendString(dst []byte, s string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
