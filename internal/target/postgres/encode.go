package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"

	"github.com/tailrace-cdc/tailrace/logical"
)

// encode appends a value that is neither null nor absent in the form in which it travels to a
// column, or says why it cannot be stored there.
func encode(dst []byte, c *column, s *source, v logical.Value) ([]byte, string) {
	switch s.wire {
	case wireBool:
		if v.Kind() == logical.KindBool {
			return append(dst, boolByte(v)), ""
		}
	case wireInt2, wireInt4, wireInt8:
		return encodeInt(dst, s, v)
	case wireFloat8, wireFloat4:
		return encodeFloat(dst, s, v)
	case wireNumeric:
		return encodeNumeric(dst, s, v)
	case wireText:
		return encodeText(dst, c, s, v)
	case wireBytes:
		switch v.Kind() {
		case logical.KindBytes, logical.KindUUID, logical.KindText:
			return append(dst, v.Bytes()...), ""
		}
	case wireTimestamptz, wireTimestamp:
		if v.Kind() == logical.KindTime {
			return encodeTime(dst, c, v)
		}
	case wireUUID:
		if k := v.Kind(); k == logical.KindUUID || k == logical.KindBytes && len(v.Bytes()) == 16 {
			return append(dst, v.Bytes()...), ""
		}
	case wireJSON:
		return encodeJSON(dst, v)
	case wireJSONB:
		return encodeJSON(append(dst, 1), v) // the version of the form
	case wireCast:
		return encodeCast(dst, c, v)
	}
	return dst, "it does not fit"
}

func boolByte(v logical.Value) byte {
	if v.Bool() {
		return 1
	}
	return 0
}

func encodeInt(dst []byte, s *source, v logical.Value) ([]byte, string) {
	var n int64
	switch v.Kind() {
	case logical.KindInt64:
		n = v.Int64()
	case logical.KindUint64:
		if v.Uint64() > math.MaxInt64 {
			return dst, "the number is too large"
		}
		n = int64(v.Uint64())
	case logical.KindFloat64:
		f := v.Float64()
		if !(f >= -1<<63 && f < 1<<63) || float64(int64(f)) != f {
			return dst, "the float is no integer"
		}
		n = int64(f)
	case logical.KindDecimal:
		i, err := v.Decimal().Int64()
		if err != nil {
			return dst, "the decimal is no integer"
		}
		n = i
	case logical.KindTime:
		if !s.nanos {
			return dst, "a time is no integer"
		}
		_, nanos := v.Unix()
		n = int64(nanos % 1000)
	default:
		return dst, "it is no integer"
	}
	switch s.wire {
	case wireInt2:
		if n != int64(int16(n)) {
			return dst, "the number is too large for a smallint"
		}
		return binary.BigEndian.AppendUint16(dst, uint16(n)), ""
	case wireInt4:
		if n != int64(int32(n)) {
			return dst, "the number is too large for an integer"
		}
		return binary.BigEndian.AppendUint32(dst, uint32(n)), ""
	}
	return binary.BigEndian.AppendUint64(dst, uint64(n)), ""
}

func encodeFloat(dst []byte, s *source, v logical.Value) ([]byte, string) {
	var f float64
	switch v.Kind() {
	case logical.KindFloat64:
		f = v.Float64()
	case logical.KindInt64:
		// 1<<63 as a float is out of an int64's range, and the conversion back would be undefined.
		if f = float64(v.Int64()); f >= 1<<63 || int64(f) != v.Int64() {
			return dst, "the integer would lose digits as a float"
		}
	case logical.KindUint64:
		if f = float64(v.Uint64()); f >= 1<<64 || uint64(f) != v.Uint64() {
			return dst, "the integer would lose digits as a float"
		}
	case logical.KindDecimal:
		var ok bool
		if f, ok = exactFloat(v.Decimal()); !ok {
			return dst, "the decimal would lose digits as a float"
		}
	default:
		return dst, "it is no number"
	}
	if s.wire == wireFloat8 {
		return binary.BigEndian.AppendUint64(dst, math.Float64bits(f)), ""
	}
	if g := float32(f); f == f && float64(g) != f {
		return dst, "the float would lose digits as a real"
	}
	return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(f))), ""
}

// exactFloat returns a float that reads back as the same decimal, if there is one.
func exactFloat(d *apd.Decimal) (float64, bool) {
	switch d.Form {
	case apd.NaN, apd.NaNSignaling:
		return math.NaN(), true
	case apd.Infinite:
		if d.Negative {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	}
	f, err := d.Float64()
	if err != nil {
		return 0, false
	}
	var back apd.Decimal
	_, err = back.SetFloat64(f)
	return f, err == nil && back.Cmp(d) == 0
}

func encodeNumeric(dst []byte, s *source, v logical.Value) ([]byte, string) {
	if s.field == logical.KindUint64 { // numeric(20,0) would round, and take more than 64 bits
		n, why := unsigned(v)
		if why != "" {
			return dst, why
		}
		return appendNumericUint(dst, false, n), ""
	}
	switch v.Kind() {
	case logical.KindInt64:
		return appendNumericInt(dst, v.Int64()), ""
	case logical.KindUint64:
		return appendNumericUint(dst, false, v.Uint64()), ""
	case logical.KindFloat64:
		return appendNumericFloat(dst, v.Float64()), ""
	case logical.KindDecimal:
		encoded, ok := appendNumericDecimal(dst, v.Decimal())
		if !ok {
			return dst, "the decimal has too many digits"
		}
		return encoded, ""
	}
	return dst, "it is no number"
}

// unsigned returns the value as an unsigned integer, or why it is none.
func unsigned(v logical.Value) (uint64, string) {
	switch v.Kind() {
	case logical.KindUint64:
		return v.Uint64(), ""
	case logical.KindInt64:
		if v.Int64() < 0 {
			return 0, "the integer is negative, the column unsigned"
		}
		return uint64(v.Int64()), ""
	case logical.KindFloat64:
		if f := v.Float64(); f >= 0 && f < 1<<64 && float64(uint64(f)) == f {
			return uint64(f), ""
		}
		return 0, "the float is no unsigned integer"
	}
	return 0, "it is no unsigned integer"
}

func encodeText(dst []byte, c *column, s *source, v logical.Value) ([]byte, string) {
	from := len(dst)
	switch v.Kind() {
	case logical.KindText, logical.KindJSON:
		dst = append(dst, v.Bytes()...)
	default:
		if s.field == logical.KindText || s.tag {
			return dst, "it is no string"
		}
		dst = appendTextForm(dst, v)
	}
	return dst, badText(dst[from:], c.maxChars)
}

// badText says what PostgreSQL does not take in a text; "" if there is nothing.
func badText(text []byte, maxChars int) string {
	switch {
	case !utf8.Valid(text):
		return "the text is not UTF-8"
	case bytes.IndexByte(text, 0) >= 0:
		return "the text holds a NUL, which PostgreSQL cannot store"
	case maxChars > 0 && len(text) > maxChars && utf8.RuneCount(text) > maxChars:
		return fmt.Sprintf("the text is longer than %d characters", maxChars)
	}
	return ""
}

func encodeJSON(dst []byte, v logical.Value) ([]byte, string) {
	from := len(dst)
	switch v.Kind() {
	case logical.KindJSON, logical.KindText:
		dst = append(dst, v.Bytes()...)
	case logical.KindBool, logical.KindInt64, logical.KindUint64:
		dst = appendTextForm(dst, v)
	default:
		return dst, "it is no JSON"
	}
	return dst, badText(dst[from:], 0)
}

const oidDate = 1082

func encodeCast(dst []byte, c *column, v logical.Value) ([]byte, string) {
	from := len(dst)
	if c.typeOID == oidDate && v.Kind() == logical.KindTime && v.Infinite() == 0 {
		if sec, nanos := v.Unix(); sec%86400 != 0 || nanos != 0 {
			return dst, "the time of day would be lost in a date"
		}
	}
	dst = appendTextForm(dst, v)
	return dst, badText(dst[from:], 0)
}

// appendTextForm appends the text that PostgreSQL reads as the value.
func appendTextForm(dst []byte, v logical.Value) []byte {
	switch v.Kind() {
	case logical.KindBool:
		return strconv.AppendBool(dst, v.Bool())
	case logical.KindInt64:
		return strconv.AppendInt(dst, v.Int64(), 10)
	case logical.KindUint64:
		return strconv.AppendUint(dst, v.Uint64(), 10)
	case logical.KindFloat64:
		switch f := v.Float64(); {
		case math.IsInf(f, 1):
			return append(dst, "Infinity"...)
		case math.IsInf(f, -1):
			return append(dst, "-Infinity"...)
		default:
			return strconv.AppendFloat(dst, f, 'g', -1, 64)
		}
	case logical.KindDecimal:
		return v.Decimal().Append(dst, 'f')
	case logical.KindBytes:
		return hex.AppendEncode(append(dst, `\x`...), v.Bytes())
	case logical.KindUUID:
		return hex.AppendEncode(dst, v.Bytes())
	case logical.KindTime:
		return appendTimeText(dst, v)
	}
	return append(dst, v.Bytes()...)
}

func appendTimeText(dst []byte, v logical.Value) []byte {
	switch v.Infinite() {
	case 1:
		return append(dst, "infinity"...)
	case -1:
		return append(dst, "-infinity"...)
	}
	t, era := v.Time(), ""
	year := t.Year()
	if year <= 0 {
		year, era = 1-year, " BC"
	}
	dst = fmt.Appendf(dst, "%04d", year)
	return append(t.AppendFormat(dst, "-01-02 15:04:05.999999-07"), era...)
}

// The range of PostgreSQL's times, in seconds since 1970: 24 November 4714 BC (by our calendar; day 0 of the
// Julian period) to the year 294276.
const (
	minSeconds = -210866803200
	maxSeconds = 9223371331200 + epoch2000
	epoch2000  = 946684800
)

// encodeTime appends the microseconds since 2000, rounded down; in a column of less precision, rounded further as the
// server does it, so that keys which it would make equal are.
func encodeTime(dst []byte, c *column, v logical.Value) ([]byte, string) {
	var micros int64
	switch v.Infinite() {
	case 1:
		micros = math.MaxInt64
	case -1:
		micros = math.MinInt64
	default:
		sec, nanos := v.Unix()
		if sec < minSeconds || sec >= maxSeconds {
			return dst, "the time is out of the range of November 4714 BC to the year 294276"
		}
		micros = (sec-epoch2000)*1_000_000 + int64(nanos/1000)
		if unit := c.timeUnit; unit > 1 && micros >= 0 {
			micros = (micros + unit/2) / unit * unit
		} else if unit > 1 {
			micros = -((-micros + unit/2) / unit * unit)
		}
	}
	return binary.BigEndian.AppendUint64(dst, uint64(micros)), ""
}

// fits reports, cheaply, that encode will take the value. It may miss some.
func fits(s *source, k logical.Kind) bool {
	switch s.wire {
	case wireBool:
		return k == logical.KindBool
	case wireInt8:
		return k == logical.KindInt64
	case wireFloat8:
		return k == logical.KindFloat64
	case wireUUID:
		return k == logical.KindUUID
	}
	return k == logical.KindUint64 && s.wire == wireNumeric
}
