package lineprotocol

import "bytes"

// Classes of bytes that mean something outside of strings, as bits.
const (
	clsBackslash uint8 = 1 << iota
	clsSpace
	clsComma
	clsEquals
	clsLF
)

// class gives the class of a byte, 0 for all that are ordinary.
var class = [256]uint8{'\\': clsBackslash, ' ': clsSpace, ',': clsComma, '=': clsEquals, '\n': clsLF}

// A span is a part of a buffer.
type span struct{ start, end int }

// A scanner takes one line at a time apart, in place. Its fields describe the line scanned last, as
// offsets into the buffer given.
//
// The end of the buffer counts as the end of a line. Whoever has only a part of the input must look
// at where the scan ended: a result, good or bad, that depends on what follows the buffer has its
// position at the buffer's end.
type scanner struct {
	start   int  // of the measurement
	keyEnd  int  // the key (measurement and tags) is buf[start:keyEnd]
	measEnd int  // end of the measurement
	fields  span // all fields
	longest int  // length of the longest field key
	time    span // the digits of the timestamp, empty if there is none
	ts      int64
	next    int    // where the next line starts
	tags    []span // the keys of the tags
	sorted  bool   // whether the tags' raw keys were in ascending order
	vals    []span // the values of the tags
	order   sortByKey
}

// skipBlank returns the index of the first byte at or after i that is not white space within a
// line. InfluxDB takes tabs and zero bytes for white space too, where white space may be repeated.
func skipBlank(buf []byte, i int) int {
	for i < len(buf) && (buf[i] == ' ' || buf[i] == '\t' || buf[i] == 0) {
		i++
	}
	return i
}

// atEOL reports whether a line ends at i, and where the next one starts. At the end of the buffer,
// next is its length. A carriage return counts only directly before a line feed, or at the end.
func atEOL(buf []byte, i int) (next int, ok bool) {
	switch {
	case i >= len(buf):
		return len(buf), true
	case buf[i] == '\n':
		return i + 1, true
	case buf[i] != '\r':
		return i, false
	case i+1 == len(buf):
		return i + 1, true
	}
	return i + 2, buf[i+1] == '\n'
}

// nameEnd returns the index of the first byte at or after i that is of a class in stop and is not
// escaped, or the buffer's length. A backslash escapes the byte after it if that is in stop, also
// when it is itself preceded by a backslash; otherwise it is an ordinary byte. A line feed is
// escaped by an odd number of backslashes.
func nameEnd(buf []byte, i int, stop uint8) int {
	from := i
	stop |= clsLF
	for i < len(buf) {
		c := class[buf[i]]
		if c&(stop|clsBackslash) == 0 {
			i++
			continue
		}
		switch {
		case c == clsBackslash:
			if i++; i < len(buf) && class[buf[i]]&stop&^clsLF != 0 {
				i++
			}
		case c == clsLF && backslashes(buf[from:i])%2 == 1:
			i++
		default:
			return i
		}
	}
	return len(buf)
}

// backslashes counts the backslashes at the end of b.
func backslashes(b []byte) int {
	n := 0
	for n < len(b) && b[len(b)-1-n] == '\\' {
		n++
	}
	return n
}

// line scans the line whose first byte that is not blank is at i; it is neither empty nor a comment.
// On failure at is where.
func (s *scanner) line(buf []byte, i int, p Precision) (at int, why reason) {
	if at, why = s.key(buf, i); why != fine {
		return at, why
	}
	i = skipBlank(buf, s.keyEnd)
	s.fields.start = i
	s.longest = 0
	for {
		var key span
		if key, i, why = fieldKey(buf, i); why != fine {
			return i, why
		}
		s.longest = max(s.longest, key.end-key.start)
		if i, why = checkValue(buf, i); why != fine {
			return i, why
		}
		if i >= len(buf) || buf[i] != ',' {
			break
		}
		i++
	}
	if s.keyEnd-s.start+keySeparatorLen+s.longest > maxKeyLen {
		return s.keyEnd, badKeyLength
	}
	s.fields.end = i
	return s.end(buf, i, p)
}

// The limit of InfluxDB for a key, and what it adds between the series and the field.
const (
	maxKeyLen       = 65535
	keySeparatorLen = 4
)

// key scans measurement and tags.
func (s *scanner) key(buf []byte, i int) (at int, why reason) {
	s.start, s.tags, s.vals, s.sorted = i, s.tags[:0], s.vals[:0], true
	if buf[i] == ',' {
		return i, badMeasurement
	}
	i = nameEnd(buf, i, clsComma|clsSpace)
	s.measEnd = i
	for {
		switch {
		case i >= len(buf) || buf[i] == '\n':
			return i, badNoFields
		case buf[i] == ' ':
			s.keyEnd = i
			return i, s.checkTags(buf)
		}
		if i, why = s.tag(buf, i+1); why != fine {
			return i, why
		}
	}
}

// tag scans the tag at i, behind the comma, and returns the index of what ends its value.
func (s *scanner) tag(buf []byte, i int) (at int, why reason) {
	key := span{i, i}
	if i >= len(buf) || class[buf[i]]&(clsSpace|clsComma|clsEquals|clsLF) != 0 {
		return i, badTagKey
	}
	i = nameEnd(buf, i, clsSpace|clsComma|clsEquals)
	if i >= len(buf) || buf[i] != '=' {
		return i, badTagValue
	}
	key.end = i
	i++
	val := span{i, i}
	if i >= len(buf) || class[buf[i]]&(clsSpace|clsComma|clsLF) != 0 {
		return i, badTagValue
	}
	if buf[i] == '=' {
		i++ // InfluxDB lets a value begin with an equals sign that is not escaped.
	}
	i = nameEnd(buf, i, clsSpace|clsComma|clsEquals)
	if i < len(buf) && buf[i] == '=' {
		return i, badTagFormat
	}
	val.end = i
	s.tags = append(s.tags, key)
	s.vals = append(s.vals, val)
	return i, fine
}

// end scans what follows the fields: blanks, a timestamp, blanks, and the end of the line.
func (s *scanner) end(buf []byte, i int, p Precision) (at int, why reason) {
	s.time = span{i, i}
	if i < len(buf) && buf[i] == ' ' {
		i = skipBlank(buf, i)
	}
	var ok bool
	if s.next, ok = atEOL(buf, i); ok {
		return s.next, fine
	}
	s.time.start = i
	var fits, found bool
	if s.ts, i, fits, found = timestamp(buf, i); !found {
		return i, badTimestamp
	}
	s.time.end = i
	for i < len(buf) && buf[i] == ' ' {
		i++
	}
	if s.next, ok = atEOL(buf, i); !ok {
		if i == s.time.end {
			return i, badTimestamp
		}
		return i, badAfterTime
	}
	if fits {
		s.ts, fits = p.nanos(s.ts)
	}
	if !fits {
		return i, badTimeRange
	}
	return s.next, fine
}

// timestamp reads an integer at i.
func timestamp(buf []byte, i int) (ts int64, end int, fits, found bool) {
	neg := i < len(buf) && buf[i] == '-'
	if neg {
		i++
	}
	first, n := i, uint64(0)
	fits = true
	for ; i < len(buf); i++ {
		d := uint64(buf[i] - '0')
		if d > 9 {
			break
		}
		if n > (1<<63-1-d)/10 {
			fits = false // MinInt64 alone is lost, which is outside the range anyway.
			continue
		}
		n = n*10 + d
	}
	if neg {
		return -int64(n), i, fits, i > first
	}
	return int64(n), i, fits, i > first
}

// lineEnd returns the index of the line feed that ends the normalised line at the start of buf, whose
// fields follow the space at i.
func (s *scanner) lineEnd(buf []byte, i int) (end int, why reason) {
	if end = bytes.IndexByte(buf[i:], '\n'); end < 0 {
		return len(buf), badTimestamp
	}
	end += i
	if bytes.IndexByte(buf[i:end], '"') < 0 && !hasBackslash(buf[i:end]) {
		return end, fine
	}
	at, why := s.line(buf, 0, Nanosecond)
	if why == fine && buf[at-1] != '\n' {
		why = badTimestamp
	}
	return at - 1, why
}
