package lineprotocol

import (
	"io"

	"github.com/pkg/errors"
)

// A Splitter cuts an input into lines as they are, for a program that sends a file in parts: a line
// feed within a string does not end a line. It does not validate. It must not be used concurrently.
type Splitter struct {
	r     io.Reader
	buf   []byte
	pos   int
	eof   bool
	lines int // line feeds that were passed
}

// NewSplitter returns a Splitter of r.
func NewSplitter(r io.Reader) *Splitter { return &Splitter{r: r} }

// A Line is one line of an input, as it came.
type Line struct {
	// Text is the line with its end. It is valid until the next call of Next.
	Text []byte
	// Number is that of the line on which it begins, from 1.
	Number int
}

// Next returns the next line that is neither blank nor a comment. At the end it returns io.EOF. A line
// that is longer than MaxLineBytes is cut: its parts do not validate.
func (s *Splitter) Next() (Line, error) {
	for {
		start, end, err := s.bound()
		if err != nil {
			return Line{}, err
		}
		line := Line{Text: s.buf[start:end], Number: s.lines + 1}
		for _, c := range line.Text {
			if c == '\n' {
				s.lines++
			}
		}
		s.pos = end
		if at := skipBlank(line.Text, 0); at < len(line.Text) && line.Text[at] != '\n' && line.Text[at] != '#' {
			return line, nil
		}
	}
}

// bound finds the next line in the buffer, and reads as much as that takes.
func (s *Splitter) bound() (start, end int, err error) {
	var skip skipper
	for scanned := 0; ; { // of the line, which starts at s.pos
		var step int
		var found bool
		if at := skipBlank(s.buf, s.pos); at < len(s.buf) && s.buf[at] == '#' {
			scanned = 0
			step, found = skipComment(s.buf[s.pos:])
		} else {
			step, found = skip.skip(s.buf[s.pos+scanned:])
		}
		scanned += step
		switch {
		case found, scanned > MaxLineBytes:
			return s.pos, s.pos + scanned, nil
		case s.eof && scanned == 0:
			return 0, 0, io.EOF
		case s.eof:
			return s.pos, s.pos + scanned, nil
		}
		if err := s.fill(); err != nil {
			return 0, 0, err
		}
	}
}

// fill moves what is left to the front, and reads more.
func (s *Splitter) fill() error {
	const step = 256 << 10
	rest := copy(s.buf, s.buf[s.pos:])
	s.buf, s.pos = s.buf[:rest], 0
	if cap(s.buf)-rest < step {
		s.buf = append(make([]byte, 0, 2*cap(s.buf)+step), s.buf...)
	}
	n, err := s.r.Read(s.buf[rest:cap(s.buf)])
	s.buf = s.buf[:rest+n]
	if err == io.EOF {
		s.eof = true
		return nil
	}
	return errors.WithStack(err)
}
