package sqlite

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"time"
	"unsafe"

	"github.com/cockroachdb/apd/v3"
	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A cell is a value in one of the forms that SQLite stores.
type cell struct {
	form  sqlite3.Datatype // 0 if the value cannot be stored; then text says why
	int   int64
	float float64
	text  string
	blob  []byte
}

func intCell(v int64) cell     { return cell{form: sqlite3.INTEGER, int: v} }
func floatCell(v float64) cell { return cell{form: sqlite3.FLOAT, float: v} }
func textCell(v string) cell   { return cell{form: sqlite3.TEXT, text: v} }
func blobCell(v []byte) cell   { return cell{form: sqlite3.BLOB, blob: v} }
func refused(why string) cell  { return cell{text: why} }

// bind puts the cell into a statement, which keeps a copy.
func (c *cell) bind(stmt *sqlite3.Stmt, param int) error {
	switch c.form {
	case sqlite3.INTEGER:
		return stmt.BindInt64(param, c.int)
	case sqlite3.FLOAT:
		return stmt.BindFloat(param, c.float)
	case sqlite3.TEXT:
		return stmt.BindText(param, c.text)
	case sqlite3.BLOB:
		if len(c.blob) == 0 {
			return stmt.BindZeroBlob(param, 0)
		}
		return stmt.BindBlob(param, c.blob)
	}
	return stmt.BindNull(param)
}

// toCell converts a value for a column of the given class. Texts that it makes live in scratch, and
// until scratch is used again.
func toCell(c class, v logical.Value, scratch *[]byte) cell {
	switch v.Kind() {
	case logical.KindNull, logical.KindAbsent:
		return cell{form: sqlite3.NULL}
	case logical.KindInt64:
		return fromInt64(c, v.Int64(), scratch)
	case logical.KindFloat64:
		return fromFloat64(c, v.Float64(), scratch)
	case logical.KindUint64:
		return fromUint64(c, v.Uint64(), scratch)
	case logical.KindBool:
		return fromBool(c, v.Bool())
	case logical.KindText, logical.KindJSON:
		return fromText(c, v.Text())
	case logical.KindBytes:
		return fromBytes(c, v.Bytes())
	case logical.KindUUID:
		return fromUUID(c, v.Bytes(), scratch)
	case logical.KindTime:
		return fromTime(c, v, scratch)
	case logical.KindDecimal:
		return fromDecimal(c, v.Decimal(), scratch)
	}
	return refused("the kind " + v.Kind().String() + " is unknown")
}

func fromInt64(c class, v int64, scratch *[]byte) cell {
	switch c {
	case classInteger, classNumeric, classAny, classBlob, classFieldInt:
		return intCell(v)
	case classReal, classFieldFloat:
		// 1<<63 as a float is out of an int64's range, and the conversion back would be undefined.
		if f := float64(v); f < 1<<63 && int64(f) == v {
			return floatCell(f)
		}
		return refused("the integer would lose digits as a float")
	case classFieldUint:
		if v < 0 {
			return refused("the integer is negative, the column unsigned")
		}
		return scratchText(scratch, strconv.AppendInt((*scratch)[:0], v, 10))
	case classText:
		return scratchText(scratch, strconv.AppendInt((*scratch)[:0], v, 10))
	}
	return refused("an integer does not fit")
}

func fromUint64(c class, v uint64, scratch *[]byte) cell {
	switch c {
	case classFieldUint, classText:
		return scratchText(scratch, strconv.AppendUint((*scratch)[:0], v, 10))
	case classAny, classBlob:
		if v > math.MaxInt64 {
			return scratchText(scratch, strconv.AppendUint((*scratch)[:0], v, 10))
		}
	}
	if v > math.MaxInt64 {
		if f := float64(v); (c == classReal || c == classFieldFloat) && f < 1<<64 && uint64(f) == v {
			return floatCell(f)
		}
		return refused("the unsigned integer is too large")
	}
	return fromInt64(c, int64(v), scratch)
}

func fromFloat64(c class, v float64, scratch *[]byte) cell {
	if v != v && c != classText { // SQLite would store NULL
		return refused("NaN cannot be stored")
	}
	switch c {
	case classReal, classNumeric, classAny, classBlob, classFieldFloat:
		return floatCell(v)
	case classInteger, classFieldInt:
		if v >= -1<<63 && v < 1<<63 && float64(int64(v)) == v {
			return intCell(int64(v))
		}
		return refused("the float is no integer")
	case classFieldUint:
		if v >= 0 && v < 1<<64 && float64(uint64(v)) == v {
			return fromUint64(c, uint64(v), scratch)
		}
		return refused("the float is no unsigned integer")
	case classText:
		return scratchText(scratch, strconv.AppendFloat((*scratch)[:0], v, 'g', -1, 64))
	}
	return refused("a float does not fit")
}

func fromBool(c class, v bool) cell {
	switch c {
	case classInteger, classNumeric, classAny, classBlob, classFieldBool:
		if v {
			return intCell(1)
		}
		return intCell(0)
	case classText:
		return textCell(strconv.FormatBool(v))
	}
	return refused("a boolean does not fit")
}

func fromText(c class, v string) cell {
	switch c {
	case classFieldFloat, classFieldInt, classFieldUint, classFieldBool:
		return refused("a string does not fit")
	}
	return textCell(v) // SQLite itself turns texts that look like numbers into numbers where it should
}

func fromBytes(c class, v []byte) cell {
	switch c {
	case classBlob, classAny, classText, classNumeric:
		return blobCell(v)
	}
	return refused("binary data does not fit")
}

func fromUUID(c class, v []byte, scratch *[]byte) cell {
	switch c {
	case classBlob, classAny:
		return blobCell(v)
	case classText, classNumeric:
		return scratchText(scratch, appendUUID((*scratch)[:0], v))
	}
	return refused("a UUID does not fit")
}

func appendUUID(dst, v []byte) []byte {
	for i, b := range v {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, []byte{b})
	}
	return dst
}

func fromTime(c class, v logical.Value, scratch *[]byte) cell {
	inf := v.Infinite()
	switch c {
	case classInteger:
		sec, nanos := v.Unix()
		ns, ok := unixNano(sec, nanos)
		if inf != 0 || !ok {
			return refused("the time is out of the range of nanoseconds in 64 bits, the years 1677 to 2262")
		}
		return intCell(ns)
	case classText, classNumeric, classAny, classBlob:
		if inf > 0 {
			return textCell("infinity")
		} else if inf < 0 {
			return textCell("-infinity")
		}
		return scratchText(scratch, appendTime((*scratch)[:0], v.Time()))
	}
	return refused("a time does not fit")
}

// unixNano returns nanoseconds since the epoch, and whether they fit.
func unixNano(sec int64, nanos int) (int64, bool) {
	const limit = math.MaxInt64 / 1_000_000_000
	if sec > limit || sec < -limit-1 {
		return 0, false
	}
	if sec >= 0 {
		ns := sec*1_000_000_000 + int64(nanos)
		return ns, ns >= 0
	}
	// One second is kept back, so that the product stays in range down to the very first instant.
	ns := (sec+1)*1_000_000_000 + (int64(nanos) - 1_000_000_000)
	return ns, ns < 0
}

func appendTime(dst []byte, t time.Time) []byte {
	year, era := t.Year(), ""
	if year <= 0 {
		year, era = 1-year, " BC"
	}
	dst = fmt.Appendf(dst, "%04d", year)
	return append(t.AppendFormat(dst, "-01-02 15:04:05.999999999"), era...)
}

func fromDecimal(c class, v *apd.Decimal, scratch *[]byte) cell {
	switch c {
	case classText, classAny, classBlob:
		return scratchText(scratch, v.Append((*scratch)[:0], 'f'))
	case classInteger, classFieldInt, classNumeric:
		if i, err := v.Int64(); err == nil {
			return intCell(i)
		}
		if c == classNumeric {
			return decimalAsFloat(v)
		}
		return refused("the decimal is no integer of 64 bits")
	case classReal, classFieldFloat:
		return decimalAsFloat(v)
	}
	return refused("a decimal does not fit")
}

// decimalAsFloat gives a float that reads back as the same decimal, if there is one.
func decimalAsFloat(v *apd.Decimal) cell {
	f, err := v.Float64()
	switch {
	case v.Form == apd.NaN || v.Form == apd.NaNSignaling:
		return refused("NaN cannot be stored")
	case v.Form == apd.Infinite:
		return floatCell(f)
	case err == nil:
		var back apd.Decimal
		if _, err := back.SetFloat64(f); err == nil && back.Cmp(v) == 0 {
			return floatCell(f)
		}
	}
	return refused("the decimal would lose digits as a float; make the column TEXT")
}

// scratchText returns a text that lives in scratch.
func scratchText(scratch *[]byte, text []byte) cell {
	*scratch = text
	return textCell(unsafe.String(unsafe.SliceData(text), len(text)))
}
