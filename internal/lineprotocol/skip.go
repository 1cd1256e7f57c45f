package lineprotocol

import "bytes"

// A skipper finds the end of a line that is bad, or too long to be held. It is as InfluxDB splits
// its input: a line feed within quotes, where a field's value can be, does not end the line. Without
// that, what stands in a string could become lines of its own because something before it is wrong.
//
// It keeps its state between calls, so that the line need not be in memory. It starts at the line's
// first byte that is not blank.
type skipper struct {
	escaped        bool
	fields, quoted bool
	equals, commas int
}

// skip consumes b up to the end of the line and returns the index behind it, and whether the end was
// found.
func (s *skipper) skip(b []byte) (next int, found bool) {
	for i := 0; i < len(b); i++ {
		if s.escaped {
			s.escaped = false
			continue
		}
		switch c := b[i]; {
		case c == '\\':
			s.escaped = true
		case s.quoted:
			if c == '"' {
				s.quoted = false
			}
		case c == '\n':
			return i + 1, true
		case c == ' ':
			s.fields = true
		case !s.fields:
		case c == '=':
			s.equals++
		case c == ',':
			s.commas++
		case c == '"' && s.equals > s.commas:
			s.quoted = true
		}
	}
	return len(b), false
}

// skipComment consumes b up to the next line feed, whatever stands in between.
func skipComment(b []byte) (next int, found bool) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return i + 1, true
	}
	return len(b), false
}
