package ident

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Quote returns name as a quoted SQL identifier.
func Quote(name string) string {
	return string(AppendQuoted(make([]byte, 0, len(name)+2), name))
}

// AppendQuoted appends name as a quoted SQL identifier to dst.
func AppendQuoted(dst []byte, name string) []byte {
	dst = append(dst, '"')
	for {
		i := strings.IndexByte(name, '"')
		if i < 0 {
			break
		}
		dst = append(dst, name[:i]...)
		dst = append(dst, '"', '"')
		name = name[i+1:]
	}
	dst = append(dst, name...)
	return append(dst, '"')
}

// Rules say which names a database can hold.
type Rules struct {
	// MaxBytes is the length of the longest name; 0 if there is no limit.
	MaxBytes int
	// FoldCase says that names which differ only by the case of ASCII letters are the same.
	FoldCase bool
	// ReservedPrefixes are beginnings of names that the database, or Tailrace, keeps for itself.
	// They are compared without regard to case, and a name that has one is put behind an "m_".
	ReservedPrefixes []string
}

// A Space is one namespace and the names taken in it. It is not safe for concurrent use.
type Space struct {
	rules    Rules
	taken    map[string]string // folded name → spelling
	reserved map[string]bool   // folded
}

// NewSpace returns a namespace. The reserved names are never given out, in whatever case.
func NewSpace(rules Rules, reserved ...string) *Space {
	s := &Space{rules: rules, taken: map[string]string{}, reserved: map[string]bool{}}
	for _, name := range reserved {
		s.reserved[strings.ToLower(name)] = true
	}
	return s
}

// Take marks a name that is there already.
func (s *Space) Take(name string) { s.taken[s.fold(name)] = name }

// Has reports whether the name is taken.
func (s *Space) Has(name string) bool {
	_, ok := s.taken[s.fold(name)]
	return ok
}

// Assign finds a free name for source, takes it and returns it. The suffix is what tells source from
// another owner of the same name; it may be empty.
func (s *Space) Assign(source, suffix string) string {
	for name := range s.candidates(source, suffix) {
		if !s.Has(name) && !s.reserved[strings.ToLower(name)] {
			s.Take(name)
			return name
		}
	}
	return "" // never: the candidates do not end
}

// candidates yields the names that source may have, the best first, without an end: whoever writes may have
// given others the names that would be next.
func (s *Space) candidates(source, suffix string) iter.Seq[string] {
	clean := s.clean(source)
	fits := clean == source && (s.rules.MaxBytes == 0 || len(source) <= s.rules.MaxBytes)
	return func(yield func(string) bool) {
		if fits && (!yield(source) || suffix != "" && s.collides(source) && !yield(s.cut(source, len(suffix))+suffix)) {
			return
		}
		hashed := suffix + "\x00" + source
		for round := 0; ; round++ {
			if round > 0 {
				hashed = strconv.Itoa(round) + "\x00" + suffix + "\x00" + source
			}
			sum := sha256.Sum256([]byte(hashed))
			digits := hex.EncodeToString(sum[:])
			for _, n := range []int{8, 16, 32} {
				if !yield(s.cut(clean, n+1) + "_" + digits[:n]) {
					return
				}
			}
		}
	}
}

// collides reports whether name is reserved, or taken in its very spelling.
func (s *Space) collides(name string) bool {
	return s.reserved[strings.ToLower(name)] || s.taken[s.fold(name)] == name
}

func (s *Space) fold(name string) string {
	if !s.rules.FoldCase {
		return name
	}
	return foldASCII(name)
}

func foldASCII(name string) string {
	for i := range len(name) {
		if c := name[i]; 'A' <= c && c <= 'Z' {
			b := []byte(name)
			for j := i; j < len(b); j++ {
				if 'A' <= b[j] && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return name
}

// clean returns name without what no database can hold.
func (s *Space) clean(name string) string {
	if name == "" {
		return "_"
	}
	if !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0 {
		name = strings.ReplaceAll(strings.ToValidUTF8(name, "_"), "\x00", "_")
	}
	for _, prefix := range s.rules.ReservedPrefixes {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return "m_" + name
		}
	}
	return name
}

// cut shortens name so that room bytes fit behind it.
func (s *Space) cut(name string, room int) string {
	if s.rules.MaxBytes == 0 || len(name)+room <= s.rules.MaxBytes {
		return name
	}
	end := max(0, s.rules.MaxBytes-room)
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end]
}
