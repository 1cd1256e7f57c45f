package lineprotocol

import (
	"bytes"
	"sort"
)

// checkTags refuses tags that are reserved or come twice. The raw bytes of two keys are equal if and
// only if the keys are.
func (s *scanner) checkTags(buf []byte) reason {
	if s.keyEnd-s.start > maxKeyLen {
		return badKeyLength
	}
	for i, t := range s.tags {
		switch key := buf[t.start:t.end]; len(key) {
		case len("time"), len("_field"), len("_measurement"):
			if reservedTag(key) {
				return badReservedTag
			}
		}
		if i > 0 && s.sorted {
			prev := s.tags[i-1]
			switch c := bytes.Compare(buf[prev.start:prev.end], buf[t.start:t.end]); {
			case c == 0:
				return badDuplicateTag
			case c > 0:
				s.sorted = false
			}
		}
	}
	if !s.sorted && s.duplicates(buf) {
		return badDuplicateTag
	}
	return fine
}

func reservedTag(key []byte) bool {
	switch string(key) {
	case "time", "_field", "_measurement":
		return true
	}
	return false
}

// duplicates looks for tag keys that come twice among keys that are not sorted. Many tags are
// sorted first, so that a hostile line with thousands of them costs no quadratic time.
func (s *scanner) duplicates(buf []byte) bool {
	if len(s.tags) <= 16 {
		for i, a := range s.tags {
			for _, b := range s.tags[:i] {
				if a.end-a.start == b.end-b.start && string(buf[a.start:a.end]) == string(buf[b.start:b.end]) {
					return true
				}
			}
		}
		return false
	}
	s.order.buf, s.order.keys = buf, append(s.order.keys[:0], s.tags...)
	sort.Sort(&s.order)
	found := false
	for i := 1; i < len(s.order.keys) && !found; i++ {
		found = bytes.Equal(s.order.key(i-1), s.order.key(i))
	}
	s.order.buf = nil
	return found
}

// sortByKey sorts spans by the bytes that they refer to.
type sortByKey struct {
	buf  []byte
	keys []span
}

func (o *sortByKey) key(i int) []byte   { return o.buf[o.keys[i].start:o.keys[i].end] }
func (o *sortByKey) Len() int           { return len(o.keys) }
func (o *sortByKey) Swap(i, j int)      { o.keys[i], o.keys[j] = o.keys[j], o.keys[i] }
func (o *sortByKey) Less(i, j int) bool { return bytes.Compare(o.key(i), o.key(j)) < 0 }
