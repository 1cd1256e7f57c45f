package lineprotocol

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"

	"github.com/tailrace-cdc/tailrace/logical"
)

// fieldKey scans a field's key at i and returns it with the index of the value, behind the equals
// sign; on failure with the index of what is wrong.
func fieldKey(buf []byte, i int) (key span, next int, why reason) {
	key = span{i, i}
	if i >= len(buf) {
		return key, i, badNoFields
	}
	if class[buf[i]]&(clsSpace|clsComma|clsEquals|clsLF) != 0 {
		if buf[i] == '\n' {
			return key, i, badNoFields
		}
		return key, i, badFieldKey
	}
	escaped := false
	for i < len(buf) {
		c := class[buf[i]]
		if c == 0 {
			i++
			continue
		}
		if c == clsBackslash {
			escaped = true
			if i++; i < len(buf) && class[buf[i]]&(clsSpace|clsComma|clsEquals) != 0 {
				i++
			}
			continue
		}
		if c == clsLF && backslashes(buf[key.start:i])%2 == 1 {
			i++
			continue
		}
		break
	}
	key.end = i
	switch {
	case i < len(buf) && buf[i] == '=':
	case i == key.start+1 && buf[key.start] == '\r':
		return key, i, badNoFields // CRLF right after the key
	default:
		return key, i, badFieldFormat
	}
	if escaped && ambiguousKey(buf[key.start:key.end]) {
		return key, i, badFieldKeyEscape
	}
	return key, i + 1, fine
}

// ambiguousKey reports whether a special byte of the key is preceded by an even number of
// backslashes. InfluxDB's validation reads those in pairs, and its own later steps do not: it refuses
// most such keys, and mistakes the rest for something else.
func ambiguousKey(key []byte) bool {
	run := 0
	for _, c := range key {
		switch {
		case c == '\\':
			run++
			continue
		case class[c]&(clsSpace|clsComma|clsEquals) != 0 && run%2 == 0:
			return true
		}
		run = 0
	}
	return false
}

// A number is what scanNumber found.
type number struct {
	kind logical.Kind
	bits uint64 // of an int64, a uint64, or a float64 if exact
	// exact says that bits holds the float; otherwise its text must be parsed.
	exact bool
}

// float returns the number that bits holds.
func (n number) float() float64 { return math.Float64frombits(n.bits) }

// checkValue validates the value at i, and that something follows it that may; it returns the index
// of that: a comma, a space, a line end, or the buffer's length.
func checkValue(buf []byte, i int) (end int, why reason) {
	if i >= len(buf) {
		return i, badFieldValue
	}
	switch c := buf[i]; {
	case c-'0' <= 9 || c == '-' || c == '.':
		_, end, why = scanNumber(buf, i)
	case c == '"':
		end, why = stringEnd(buf, i)
	case class[c]&(clsSpace|clsComma|clsLF) != 0:
		return i, badFieldValue
	default:
		_, end, why = scanBool(buf, i)
	}
	if why != fine {
		return end, why
	}
	return end, checkDelimiter(buf, end)
}

// checkDelimiter checks what follows a value that ends at i.
func checkDelimiter(buf []byte, i int) reason {
	if i >= len(buf) || class[buf[i]]&(clsSpace|clsComma|clsLF) != 0 {
		return fine
	}
	if buf[i] == '\r' && (i+1 >= len(buf) || buf[i+1] == '\n') {
		return fine
	}
	return badAfterValue
}

// delimiter returns the index of the first byte at or after i that ends a value without quotes.
func delimiter(buf []byte, i int) int {
	for i < len(buf) && class[buf[i]]&(clsSpace|clsComma|clsLF) == 0 && buf[i] != '\r' {
		i++
	}
	return i
}

// stringEnd returns the index behind the closing quote of the string whose opening quote is at i.
func stringEnd(buf []byte, i int) (end int, why reason) {
	for i++; ; {
		q := bytes.IndexByte(buf[i:], '"')
		if q < 0 {
			return len(buf), badQuotes
		}
		if q == 0 || buf[i+q-1] != '\\' || backslashes(buf[i:i+q])%2 == 0 {
			return i + q + 1, fine
		}
		i += q + 1
	}
}

// scanBool reads a boolean at i.
func scanBool(buf []byte, i int) (v bool, end int, why reason) {
	end = delimiter(buf, i)
	switch string(buf[i:end]) {
	case "t", "T", "true", "True", "TRUE":
		return true, end, fine
	case "f", "F", "false", "False", "FALSE":
		return false, end, fine
	}
	return false, end, badBoolean
}

// exactDigits is how many decimal digits a float64 holds exactly.
const exactDigits = 15

var pow10 = [exactDigits + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// scanNumber reads a number at i, which holds a digit, a minus sign or a point.
func scanNumber(buf []byte, i int) (n number, end int, why reason) {
	start := i
	neg := buf[i] == '-'
	if neg {
		i++
	}
	first, mant := i, uint64(0)
	for ; i < len(buf); i++ {
		d := buf[i] - '0'
		if d > 9 {
			break
		}
		mant = mant*10 + uint64(d)
	}
	whole := i - first
	if i < len(buf) && (buf[i] == 'i' || buf[i] == 'u') {
		return scanInteger(buf, span{start, i}, mant, whole)
	}
	frac := 0
	if i < len(buf) && buf[i] == '.' {
		dot := i + 1
		for i = dot; i < len(buf); i++ {
			d := buf[i] - '0'
			if d > 9 {
				break
			}
			mant = mant*10 + uint64(d)
		}
		frac = i - dot
	}
	n.kind = logical.KindFloat64
	if whole+frac == 0 {
		return n, delimiter(buf, i), badNumber
	}
	if i < len(buf) && buf[i]|0x20 == 'e' {
		return scanExponent(buf, start, i, whole)
	}
	if i < len(buf) && checkDelimiter(buf, i) != fine {
		return n, delimiter(buf, i), badNumber
	}
	if whole+frac > exactDigits {
		if whole > 300 && !finite(buf[start:i]) {
			return n, i, badFloat
		}
		return n, i, fine
	}
	// Both are exact, so that the quotient is rounded once, as it must be.
	f := float64(mant) / pow10[frac]
	if neg {
		f = -f
	}
	n.bits, n.exact = math.Float64bits(f), true
	return n, i, fine
}

// scanExponent reads the exponent at i of the float that begins at start.
func scanExponent(buf []byte, start, i, whole int) (n number, end int, why reason) {
	n.kind = logical.KindFloat64
	if i++; i < len(buf) && (buf[i] == '+' || buf[i] == '-') {
		i++
	}
	first := i
	for i < len(buf) && buf[i]-'0' <= 9 {
		i++
	}
	if i == first || checkDelimiter(buf, i) != fine {
		return n, delimiter(buf, i), badNumber
	}
	if (i-first > 2 || whole > 200) && !finite(buf[start:i]) {
		return n, i, badFloat
	}
	return n, i, fine
}

// scanInteger checks the integer whose digits, with a minus sign perhaps, are at text and are
// followed by an i or u. mant holds its digits if there are at most 19.
func scanInteger(buf []byte, text span, mant uint64, digits int) (n number, end int, why reason) {
	end = text.end + 1
	neg := buf[text.start] == '-'
	signed := buf[text.end] == 'i'
	n.kind = logical.KindUint64
	if signed {
		n.kind = logical.KindInt64
	}
	if digits == 0 || (neg && !signed) || checkDelimiter(buf, end) != fine {
		return n, delimiter(buf, end), badNumber
	}
	switch {
	case digits <= 18:
		n.bits = mant
		if neg {
			n.bits = -mant
		}
	case signed:
		v, err := strconv.ParseInt(str(buf[text.start:text.end]), 10, 64)
		if err != nil {
			return n, end, badInteger
		}
		n.bits = uint64(v)
	default:
		v, err := strconv.ParseUint(str(buf[text.start:text.end]), 10, 64)
		if err != nil {
			return n, end, badUnsigned
		}
		n.bits = v
	}
	return n, end, fine
}

// finite reports whether the text of a float is within the range of a float64.
func finite(text []byte) bool {
	_, err := strconv.ParseFloat(str(text), 64)
	return err == nil
}

// str returns b as a string that shares its memory, for calls that do not keep it.
func str(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
