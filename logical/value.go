package logical

import (
	"encoding/hex"
	"math"
	"strconv"
	"time"
	"unsafe"

	"github.com/cockroachdb/apd/v3"
)

// Kind says what a Value holds, or what a Column is declared to hold.
type Kind uint8

// The kinds of values. The zero Kind is KindAbsent, so that the zero Value is an absent one.
const (
	KindAbsent  Kind = iota // not sent by the source: the target's column stays as it is
	KindNull                // SQL NULL
	KindBool                // true or false
	KindInt64               // signed 64-bit integer
	KindUint64              // unsigned 64-bit integer
	KindFloat64             // IEEE 754 double, with NaN and the infinities
	KindDecimal             // exact decimal (apd), with NaN and the infinities
	KindText                // UTF-8 text; also any type that has no kind of its own, as its text form
	KindBytes               // binary data
	KindTime                // instant with nanoseconds; also ±infinity
	KindUUID                // 128-bit identifier
	KindJSON                // a JSON document, as its text
)

var kindNames = [...]string{
	"absent", "null", "bool", "int64", "uint64", "float64", "decimal", "text", "bytes", "time", "uuid", "json",
}

// String returns the kind's name in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// A Value is one typed column value. It is immutable, 24 bytes large, and building one allocates
// nothing. The zero Value is absent.
//
// Text and binary values point into memory of whoever built them: that memory must not change for
// as long as the Value is in use (see [Events.OnData]).
type Value struct {
	ptr  unsafe.Pointer // text, bytes, *apd.Decimal
	num  uint64         // number, length of what ptr points to, or Unix seconds
	aux  uint32         // nanoseconds of a time
	kind Kind
}

// Null is the SQL NULL.
func Null() Value { return Value{kind: KindNull} }

// Bool returns a boolean value.
func Bool(v bool) Value {
	var n uint64
	if v {
		n = 1
	}
	return Value{kind: KindBool, num: n}
}

// Int64 returns a signed integer value.
func Int64(v int64) Value { return Value{kind: KindInt64, num: uint64(v)} }

// Uint64 returns an unsigned integer value.
func Uint64(v uint64) Value { return Value{kind: KindUint64, num: v} }

// Float64 returns a floating point value.
func Float64(v float64) Value { return Value{kind: KindFloat64, num: math.Float64bits(v)} }

// Decimal returns an exact decimal value. The decimal must not be changed afterwards.
func Decimal(v *apd.Decimal) Value { return Value{kind: KindDecimal, ptr: unsafe.Pointer(v)} }

// Text returns a text value.
func Text(v string) Value { return textual(KindText, v) }

// TextBytes returns a text value that shares the memory of v.
func TextBytes(v []byte) Value { return blob(KindText, v) }

// JSON returns a JSON document, given as its text.
func JSON(v string) Value { return textual(KindJSON, v) }

// Bytes returns a binary value that shares the memory of v.
func Bytes(v []byte) Value { return blob(KindBytes, v) }

// UUID returns a 128-bit identifier that shares the memory of v.
func UUID(v *[16]byte) Value { return blob(KindUUID, v[:]) }

// Time returns an instant; its location is not kept.
func Time(v time.Time) Value {
	return Value{kind: KindTime, num: uint64(v.Unix()), aux: uint32(v.Nanosecond())}
}

// UnixNano returns the instant that lies ns nanoseconds after (before, if negative) the Unix epoch.
func UnixNano(ns int64) Value {
	sec, nanos := ns/1e9, ns%1e9
	if nanos < 0 {
		sec, nanos = sec-1, nanos+1e9
	}
	return Value{kind: KindTime, num: uint64(sec), aux: uint32(nanos)}
}

// InfiniteTime returns the instant after all others, or before all others if sign is negative.
func InfiniteTime(sign int) Value {
	sec := int64(math.MaxInt64)
	if sign < 0 {
		sec = math.MinInt64
	}
	return Value{kind: KindTime, num: uint64(sec)}
}

func textual(k Kind, v string) Value {
	return Value{kind: k, num: uint64(len(v)), ptr: unsafe.Pointer(unsafe.StringData(v))}
}

func blob(k Kind, v []byte) Value {
	return Value{kind: k, num: uint64(len(v)), ptr: unsafe.Pointer(unsafe.SliceData(v))}
}

// Kind returns what the value holds. The accessors below may be called for their kind only; for
// another kind they return something meaningless, or panic.
func (v Value) Kind() Kind { return v.kind }

// IsAbsent reports whether the source did not send this column.
func (v Value) IsAbsent() bool { return v.kind == KindAbsent }

// IsNull reports whether the value is the SQL NULL.
func (v Value) IsNull() bool { return v.kind == KindNull }

// Bool returns a KindBool value.
func (v Value) Bool() bool { return v.num != 0 }

// Int64 returns a KindInt64 value.
func (v Value) Int64() int64 { return int64(v.num) }

// Uint64 returns a KindUint64 value.
func (v Value) Uint64() uint64 { return v.num }

// Float64 returns a KindFloat64 value.
func (v Value) Float64() float64 { return math.Float64frombits(v.num) }

// Decimal returns a KindDecimal value; it must not be changed.
func (v Value) Decimal() *apd.Decimal {
	v.must(KindDecimal)
	return (*apd.Decimal)(v.ptr)
}

// Text returns a KindText or KindJSON value. It shares the value's memory.
func (v Value) Text() string {
	v.mustPoint()
	return unsafe.String((*byte)(v.ptr), int(v.num))
}

// Bytes returns the memory of a KindBytes, KindUUID, KindText or KindJSON value; it must not be
// changed.
func (v Value) Bytes() []byte {
	v.mustPoint()
	return unsafe.Slice((*byte)(v.ptr), int(v.num))
}

// Unix returns a KindTime value as seconds since the Unix epoch (negative before it) and the
// nanoseconds, 0 to 999,999,999, that follow that second. It is meaningless for an infinite time.
func (v Value) Unix() (sec int64, nanos int) { return int64(v.num), int(v.aux) }

// Time returns a KindTime value in UTC. It is meaningless for an infinite time.
func (v Value) Time() time.Time { return time.Unix(int64(v.num), int64(v.aux)).UTC() }

// Infinite returns +1 or -1 for the instant after or before all others, and 0 for any other value.
func (v Value) Infinite() int {
	switch {
	case v.kind != KindTime:
		return 0
	case int64(v.num) == math.MaxInt64:
		return 1
	case int64(v.num) == math.MinInt64:
		return -1
	}
	return 0
}

// String returns the value as a person would write it: bytes and UUIDs in hexadecimal, instants in
// RFC 3339.
func (v Value) String() string {
	switch v.kind {
	case KindBool:
		return strconv.FormatBool(v.Bool())
	case KindInt64:
		return strconv.FormatInt(v.Int64(), 10)
	case KindUint64:
		return strconv.FormatUint(v.Uint64(), 10)
	case KindFloat64:
		return strconv.FormatFloat(v.Float64(), 'g', -1, 64)
	case KindDecimal:
		return v.Decimal().String()
	case KindText, KindJSON:
		return v.Text()
	case KindBytes, KindUUID:
		return hex.EncodeToString(v.Bytes())
	case KindTime:
		switch v.Infinite() {
		case 1:
			return "infinity"
		case -1:
			return "-infinity"
		}
		return v.Time().Format(time.RFC3339Nano)
	}
	return v.kind.String()
}

// Size returns the bytes of memory that the value occupies, what it points to included.
func (v Value) Size() int {
	const self = int(unsafe.Sizeof(Value{}))
	switch v.kind {
	case KindText, KindBytes, KindUUID, KindJSON:
		return self + int(v.num)
	case KindDecimal:
		return self + int((*apd.Decimal)(v.ptr).Size())
	}
	return self
}

func (v Value) must(k Kind) {
	if v.kind != k {
		panic("logical: " + v.kind.String() + " value used as " + k.String())
	}
}

func (v Value) mustPoint() {
	switch v.kind {
	case KindText, KindBytes, KindUUID, KindJSON:
	default:
		panic("logical: " + v.kind.String() + " value used as text or bytes")
	}
}
