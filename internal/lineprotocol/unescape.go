package lineprotocol

import "bytes"

// The bytes before which a backslash is removed. InfluxDB's own clients escape quotes in field keys
// too; everywhere else a quote and the backslash before it are what was meant.
const (
	escapedInName = clsComma | clsSpace | clsEquals
	backslashByte = '\\'
)

// appendName appends a measurement, a tag key or a tag value to dst, unescaped.
func appendName(dst, raw []byte) []byte {
	return appendUnescaped(dst, raw, func(c byte) bool { return class[c]&escapedInName != 0 })
}

// appendFieldKey appends a field's key to dst, unescaped.
func appendFieldKey(dst, raw []byte) []byte {
	return appendUnescaped(dst, raw, func(c byte) bool { return class[c]&escapedInName != 0 || c == '"' })
}

// appendString appends what stands between the quotes of a string to dst, unescaped: a backslash
// escapes a quote or a backslash, and before anything else it is a backslash.
func appendString(dst, raw []byte) []byte {
	return appendUnescaped(dst, raw, func(c byte) bool { return c == '"' || c == backslashByte })
}

func appendUnescaped(dst, raw []byte, special func(byte) bool) []byte {
	for {
		i := bytes.IndexByte(raw, backslashByte)
		if i < 0 || i+1 == len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		if !special(raw[i+1]) {
			dst, raw = append(dst, backslashByte), raw[i+1:]
			continue
		}
		dst, raw = append(dst, raw[i+1]), raw[i+2:]
	}
}
