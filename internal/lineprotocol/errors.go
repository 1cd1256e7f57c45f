package lineprotocol

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// ErrTooLarge is returned for a body that is longer than Options.MaxBytes.
var ErrTooLarge = errors.New("lineprotocol: body too large")

// MaxLineErrors is how many bad lines of a request are reported; the others are only counted.
const MaxLineErrors = 100

// A LineError says what is wrong with one line.
type LineError struct {
	// Line is the number of the line on which the point begins, from 1.
	Line int
	// Column is the byte at which the mistake was noticed, counted from 1 at the point's first byte.
	Column int
	// Reason says what is wrong.
	Reason string
	// Text is the beginning of the line as it came.
	Text string
}

// Error implements error.
func (e LineError) Error() string {
	return fmt.Sprintf("line %d, column %d: unable to parse '%s': %s", e.Line, e.Column, e.Text, e.Reason)
}

// A ParseError says which lines of a request are bad.
type ParseError struct {
	// Lines are the first MaxLineErrors bad lines, in order; there is at least one.
	Lines []LineError
	// Refused counts the bad lines.
	Refused int
	// Stopped says that reading ended there, in strict mode: there may be more.
	Stopped bool
}

// Error implements error: one line of text for each bad line that is known.
func (e *ParseError) Error() string {
	var b strings.Builder
	for i, l := range e.Lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l.Error())
	}
	if e.Stopped {
		b.WriteString("\nand perhaps more: reading stopped there")
	}
	if more := e.Refused - len(e.Lines); more > 0 {
		fmt.Fprintf(&b, "\nand %d more", more)
	}
	return b.String()
}

// excerptLen is how much of a bad line is reported.
const excerptLen = 128

// excerpt returns the beginning of line for a message.
func excerpt(line []byte) string {
	if len(line) <= excerptLen {
		return strings.TrimRight(string(line), "\r\n")
	}
	cut := excerptLen
	for back := 0; back < utf8.UTFMax-1 && !utf8.RuneStart(line[cut]); back++ {
		cut--
	}
	return string(line[:cut]) + "..."
}
