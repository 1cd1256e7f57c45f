package lineprotocol

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// An AddedTag is a tag that a Normalizer gives to lines which have none of its key, so that their origin
// can be told later. The rest of a line stays byte for byte as it came, and so does a line that has the
// tag already, whatever its value. It is immutable.
type AddedTag struct {
	key  []byte // escaped
	text []byte // the whole tag with the comma before it, escaped
}

// NewAddedTag returns a tag that can be written and is read back by every InfluxDB: key and value are
// not empty, hold no control characters, do not end in a backslash, and the key is not a reserved one.
func NewAddedTag(key, value string) (*AddedTag, error) {
	for _, text := range []string{key, value} {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			return nil, errors.Errorf("lineprotocol: a tag cannot be made of %s: it is no UTF-8, or holds a control character", quoteShort(text))
		}
	}
	escaped, err := appendEscaped(nil, key, escapedInName)
	if err != nil {
		return nil, errors.Wrap(err, "lineprotocol: the key of a tag")
	}
	if reservedTag(escaped) {
		return nil, errors.Errorf("lineprotocol: the key of a tag: %s", badReservedTag)
	}
	text := append(append([]byte{','}, escaped...), '=')
	if text, err = appendEscaped(text, value, escapedInName); err != nil {
		return nil, errors.Wrap(err, "lineprotocol: the value of a tag")
	}
	if len(text) > maxKeyLen/2 {
		return nil, errors.Errorf("lineprotocol: a tag of %d bytes is too long", len(text))
	}
	return &AddedTag{key: escaped, text: text}, nil
}

// missing returns what is to be inserted into the key that was scanned last, and where: before the first
// tag whose key is greater, so that tags that are sorted stay so. It returns nothing if the line has the
// tag.
func (t *AddedTag) missing(buf []byte, s *scanner) (text []byte, at int) {
	if t == nil {
		return nil, 0
	}
	at = s.keyEnd
	for i := len(s.tags) - 1; i >= 0; i-- {
		switch c := bytes.Compare(buf[s.tags[i].start:s.tags[i].end], t.key); {
		case c == 0:
			return nil, 0
		case c > 0:
			at = s.tags[i].start - len(",")
		}
	}
	return t.text, at
}
