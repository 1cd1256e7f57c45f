package postgres

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/cockroachdb/apd/v3"
)

// The signs of PostgreSQL's binary numeric.
const (
	numericPlus  = 0x0000
	numericMinus = 0x4000
	numericNaN   = 0xC000
	numericInf   = 0xD000
	numericNInf  = 0xF000
)

// Limits of PostgreSQL's numeric.
const (
	maxNumericInt   = 131072 // digits before the decimal point
	maxNumericScale = 16383  // digits behind it
)

// appendNumeric appends the binary form of digits × 10^exp. The digits are ASCII, without a sign. It
// returns false if the number is beyond what the type can hold.
//
// The form is: number of groups, weight of the first group, sign and scale, 16 bits each, followed by
// the groups: four decimal digits each, aligned at the decimal point.
func appendNumeric(dst []byte, negative bool, digits []byte, exp int) ([]byte, bool) {
	scale := max(0, -exp)
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	if scale > maxNumericScale || len(digits)+exp > maxNumericInt {
		return dst, false
	}
	sign := uint16(numericPlus)
	if negative && len(digits) > 0 {
		sign = numericMinus
	}
	head := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	before := len(digits) + exp // digits before the decimal point, negative for zeros behind it
	weight := (before+3)>>2 - 1 // of the first group; the shift rounds towards minus infinity
	at := before - (weight+1)*4 // of the first group's first digit, 0 or negative
	groups, kept := 0, 0
	for ; at < len(digits); at += 4 {
		value := uint16(0)
		for k := at; k < at+4; k++ {
			value *= 10
			if k >= 0 && k < len(digits) {
				value += uint16(digits[k] - '0')
			}
		}
		dst = binary.BigEndian.AppendUint16(dst, value)
		groups++
		if value != 0 {
			kept = groups
		}
	}
	dst = dst[:head+8+2*kept] // no zeros at the end
	if kept == 0 {
		weight = 0
	}
	binary.BigEndian.PutUint16(dst[head:], uint16(kept))
	binary.BigEndian.PutUint16(dst[head+2:], uint16(weight))
	binary.BigEndian.PutUint16(dst[head+4:], sign)
	binary.BigEndian.PutUint16(dst[head+6:], uint16(scale))
	return dst, true
}

func appendNumericSpecial(dst []byte, sign uint16) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, sign)
	return append(dst, 0, 0)
}

func appendNumericUint(dst []byte, negative bool, v uint64) []byte {
	var buf [20]byte
	dst, _ = appendNumeric(dst, negative, strconv.AppendUint(buf[:0], v, 10), 0)
	return dst
}

func appendNumericInt(dst []byte, v int64) []byte {
	if v < 0 {
		return appendNumericUint(dst, true, -uint64(v))
	}
	return appendNumericUint(dst, false, uint64(v))
}

func appendNumericDecimal(dst []byte, v *apd.Decimal) ([]byte, bool) {
	switch v.Form {
	case apd.NaN, apd.NaNSignaling:
		return appendNumericSpecial(dst, numericNaN), true
	case apd.Infinite:
		if v.Negative {
			return appendNumericSpecial(dst, numericNInf), true
		}
		return appendNumericSpecial(dst, numericInf), true
	}
	var buf [40]byte
	return appendNumeric(dst, v.Negative, v.Coeff.Append(buf[:0], 10), int(v.Exponent))
}

// appendNumericFloat appends the shortest decimal that reads back as the same float.
func appendNumericFloat(dst []byte, v float64) []byte {
	switch {
	case v != v:
		return appendNumericSpecial(dst, numericNaN)
	case math.IsInf(v, 1):
		return appendNumericSpecial(dst, numericInf)
	case math.IsInf(v, -1):
		return appendNumericSpecial(dst, numericNInf)
	}
	var buf [32]byte
	text := strconv.AppendFloat(buf[:0], math.Abs(v), 'e', -1, 64) // d.ddde±dd
	mantissa := text
	exp := 0
	for i, c := range text {
		if c == 'e' {
			mantissa = text[:i]
			exp, _ = strconv.Atoi(string(text[i+1:]))
		}
	}
	if len(mantissa) > 1 {
		exp -= len(mantissa) - 2
		copy(mantissa[1:], mantissa[2:])
		mantissa = mantissa[:len(mantissa)-1]
	}
	dst, _ = appendNumeric(dst, v < 0, mantissa, exp)
	return dst
}
