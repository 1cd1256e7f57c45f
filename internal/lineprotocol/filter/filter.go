package filter

import (
	"errors"
	"strings"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

// A Filter is a compiled Config. It is immutable, and may be used concurrently.
type Filter struct {
	include, exclude patterns // of measurements
	tags             map[string]*tagRule
	rules            []*tagRule
}

// A tagRule is what is said about one tag key.
type tagRule struct {
	index            int // in Filter.rules
	include, exclude patterns
}

// Compile compiles a configuration. It returns nil, which lets all points pass, for the zero Config, and an
// *Error for one that cannot work.
func Compile(c Config) (*Filter, error) {
	if c.IsZero() {
		return nil, nil
	}
	f := &Filter{tags: map[string]*tagRule{}}
	name := func(list *patterns) func(string) error {
		return func(text string) error {
			if text == "" {
				return errors.New("no measurement has an empty name")
			}
			return list.add(text)
		}
	}
	tag := func(list func(*tagRule) *patterns) func(string) error {
		return func(text string) error {
			key, value, err := cutTag(text)
			if err != nil {
				return err
			}
			return list(f.rule(key)).add(value)
		}
	}
	for _, err := range []error{
		each("measurements.include", c.Measurements.Include, name(&f.include)),
		each("measurements.exclude", c.Measurements.Exclude, name(&f.exclude)),
		each("tags.include", c.Tags.Include, tag(func(r *tagRule) *patterns { return &r.include })),
		each("tags.exclude", c.Tags.Exclude, tag(func(r *tagRule) *patterns { return &r.exclude })),
	} {
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// rule returns what is said about a key.
func (f *Filter) rule(key string) *tagRule {
	r, ok := f.tags[key]
	if !ok {
		r = &tagRule{index: len(f.rules)}
		f.tags[key] = r
		f.rules = append(f.rules, r)
	}
	return r
}

// cutTag takes key=glob apart.
func cutTag(text string) (key, value string, err error) {
	var plain strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '=':
			if plain.Len() == 0 {
				return "", "", errors.New("no tag has an empty key; write key=value")
			}
			return plain.String(), text[i+1:], nil
		case '*', '?':
			return "", "", errors.New("the key of a tag is no glob; escape * and ? in it with a backslash")
		case '\\':
			if i++; i == len(text) {
				return "", "", errBackslash
			}
			fallthrough
		default:
			plain.WriteByte(text[i])
		}
	}
	return "", "", errors.New("there is no equals sign; write key=value, such as host=test-*")
}

// A Sieve applies filters to blocks of normalised lines. Its buffers are used again: in the steady state a
// line costs no allocation. The zero value is ready. It must not be used concurrently.
type Sieve struct {
	key     lineprotocol.KeyReader
	present []bool // by tagRule.index
	out     []byte
}

// Block returns the lines of a block that pass, as they are and in their order. If all do, that is the
// block itself; otherwise its memory is the Sieve's and is valid until the next call. A block that is not
// what a Normalizer makes is an error.
func (s *Sieve) Block(f *Filter, block lineprotocol.Block) (lineprotocol.Block, error) {
	if f == nil {
		return block, nil
	}
	s.out = s.out[:0]
	points, left := 0, 0
	from := 0 // start of the lines that pass and are not yet in s.out
	for at := 0; at < len(block.Data); {
		length, err := s.key.Read(block.Data[at:])
		if err != nil {
			return lineprotocol.Block{}, err
		}
		if s.passes(f) {
			points++
		} else {
			s.out = append(s.out, block.Data[from:at]...)
			from = at + length
			left++
		}
		at += length
	}
	if left == 0 {
		return block, nil
	}
	s.out = append(s.out, block.Data[from:]...)
	return lineprotocol.Block{Data: s.out, Points: points}, nil
}

// passes judges the line that was read last.
func (s *Sieve) passes(f *Filter) bool {
	if !f.measurement(s.key.Measurement()) {
		return false
	}
	if len(f.rules) == 0 {
		return true
	}
	s.present = append(s.present[:0], make([]bool, len(f.rules))...)
	for i := range s.key.Tags() {
		key, value := s.key.Tag(i)
		r := f.tags[string(key)]
		if r == nil {
			continue
		}
		s.present[r.index] = true
		if r.exclude.match(value) || !r.include.empty() && !r.include.match(value) {
			return false
		}
	}
	for i, r := range f.rules {
		if !s.present[i] && (r.exclude.absent() || !r.include.empty() && !r.include.absent()) {
			return false
		}
	}
	return true
}

func (f *Filter) measurement(name []byte) bool {
	return (f.include.empty() || f.include.match(name)) && !f.exclude.match(name)
}
