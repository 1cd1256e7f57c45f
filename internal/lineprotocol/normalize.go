package lineprotocol

import (
	"bytes"
	"io"
	"strconv"
	"time"

	"github.com/pkg/errors"
)

const (
	// Sizes of the buffer that a body is read into: the first one, that for a long body, and the
	// most, which only a long line needs.
	minBuffer  = 16 << 10
	bulkBuffer = 256 << 10
	maxBuffer  = 2 * MaxLineBytes
)

// Mode says what becomes of a request in which some lines are bad.
type Mode uint8

// The modes.
const (
	// Strict refuses the whole request, as /api/v2/write does.
	Strict Mode = iota
	// Partial keeps the good lines, as /write does.
	Partial
)

// Options of one request.
type Options struct {
	// Precision of the timestamps in the body; 0 means nanoseconds.
	Precision Precision
	// Mode for bad lines.
	Mode Mode
	// Now is the time of points that carry none; it is truncated to the precision.
	Now time.Time
	// AddTag is given to every line that has no tag of its key; nil means none.
	AddTag *AddedTag
	// MaxBytes is the limit for the body; 0 means no limit.
	MaxBytes int64
	// Reserve, if not nil, is called with the number of bytes of every buffer before it is used for
	// this body, so that the memory of many bodies can be bounded together. It may wait. If it
	// returns an error, Normalize does.
	Reserve func(bytes int) error
}

// A Result is what a body was turned into.
type Result struct {
	// Blocks hold the points in the order in which they came. They belong to the Normalizer, and
	// are valid until its next call.
	Blocks []Block
	// Points is how many there are in Blocks, and Bytes how many bytes.
	Points int
	Bytes  int64
	// BytesRead is the length of the body.
	BytesRead int64
	// Refused says which lines are not in Blocks; nil if all are. It is set in Partial mode only.
	Refused *ParseError
}

// A Normalizer turns request bodies into blocks of normalised lines, one body after the other. Its
// buffers are reused, so that in the steady state a body costs no allocation. The zero value is
// ready. It must not be used concurrently.
type Normalizer struct {
	opt   Options
	now   []byte // the timestamp for points without one, as text
	in    []byte // what was read and not yet consumed is in[pos:]
	pos   int
	read  int64 // length of the body so far
	eof   bool
	line  int // number of the line that contains in[mark]
	mark  int
	scan  scanner
	skip  skipper
	state skipping

	small bool // for tests: the buffer grows only when a line needs it to, from what it is

	blocks []Block
	used   int
	points int
	bad    *ParseError
	err    error // of Options.Reserve
}

// skipping says whether the normaliser is within something whose end it has not seen.
type skipping uint8

const (
	skipNothing skipping = iota
	skipLine
	skipRemark
)

// Normalize reads a body to its end. The body must be decompressed already.
//
// It returns a *ParseError if a line is bad and the mode is Strict, an error whose cause is
// ErrTooLarge if the body is too long, and the error of r, wrapped, if reading fails. After an error
// nothing of the body is kept.
func (n *Normalizer) Normalize(r io.Reader, opt Options) (Result, error) {
	if n.reset(opt); !n.reserve(cap(n.in)) {
		return Result{}, n.err
	}
	for !n.eof {
		if err := n.fill(r); err != nil {
			return Result{}, err
		}
		if n.consume(); n.err != nil {
			return Result{}, n.err
		}
		if n.bad != nil && n.bad.Stopped {
			break
		}
	}
	if n.bad != nil && opt.Mode == Strict {
		return Result{}, n.bad
	}
	res := Result{Blocks: n.blocks[:n.used], Points: n.points, BytesRead: n.read, Refused: n.bad}
	for _, b := range res.Blocks {
		res.Bytes += int64(len(b.Data))
	}
	return res, nil
}

// Shrink lets go of buffers until at most limit bytes are held, for a Normalizer that is kept in a
// pool. Blocks returned before are no longer valid.
func (n *Normalizer) Shrink(limit int) {
	if limit -= cap(n.in); limit < 0 {
		n.in, limit = nil, 0
	}
	for i := range n.blocks {
		if limit -= cap(n.blocks[i].Data); limit < 0 {
			n.blocks[i].Data, limit = nil, 0
		}
	}
}

func (n *Normalizer) reset(opt Options) {
	if opt.Precision == 0 {
		opt.Precision = Nanosecond
	}
	n.opt = opt
	n.now = strconv.AppendInt(n.now[:0], opt.Precision.Truncate(opt.Now), 10)
	n.in, n.pos, n.read, n.eof = n.in[:0], 0, 0, false
	n.line, n.mark, n.skip, n.state = 1, 0, skipper{}, skipNothing
	for i := range n.used {
		n.blocks[i] = Block{Data: n.blocks[i].Data[:0]}
	}
	n.used, n.points, n.bad, n.err = 0, 0, nil, nil
}

// fill moves what is left to the front of the buffer and reads until it is full. (Scanning begins
// again at the start of a line that was cut off, so that it must not happen for every packet.)
func (n *Normalizer) fill(r io.Reader) error {
	n.count(n.pos)
	rest := copy(n.in, n.in[n.pos:])
	n.in, n.pos, n.mark = n.in[:rest], 0, 0
	bulk := n.read >= int64(cap(n.in)) && cap(n.in) < bulkBuffer && !n.small
	if rest > cap(n.in)/2 || bulk {
		size := 2 * cap(n.in)
		if !n.small {
			size = max(size, minBuffer)
		}
		if size = min(size, maxBuffer); size > cap(n.in) {
			if !n.reserve(size - cap(n.in)) {
				return n.err
			}
			n.in = append(make([]byte, 0, size), n.in...)
		}
	}
	for idle := 0; len(n.in) < cap(n.in); {
		got, err := r.Read(n.in[len(n.in):cap(n.in)])
		n.in = n.in[:len(n.in)+got]
		n.read += int64(got)
		if n.opt.MaxBytes > 0 && n.read > n.opt.MaxBytes {
			return errors.Wrapf(ErrTooLarge, "more than %d bytes", n.opt.MaxBytes)
		}
		if errors.Is(err, io.EOF) {
			n.eof = true
			return nil
		}
		if err != nil {
			return errors.Wrap(err, "lineprotocol: read body")
		}
		if idle++; got > 0 {
			idle = 0
		} else if idle >= 100 {
			return errors.WithStack(io.ErrNoProgress)
		}
	}
	return nil
}

// consume takes all lines out of the buffer that are there as a whole.
func (n *Normalizer) consume() {
	for n.pos < len(n.in) && n.err == nil && (n.bad == nil || !n.bad.Stopped) {
		if n.state != skipNothing {
			n.finishSkip()
			continue
		}
		if n.pos = skipBlank(n.in, n.pos); n.pos >= len(n.in) {
			return
		}
		switch n.in[n.pos] {
		case '\n':
			n.pos++
			continue
		case '#':
			n.state = skipRemark
			continue
		case '\r':
			if n.pos+1 >= len(n.in) && !n.eof {
				return
			}
			if next, ok := atEOL(n.in, n.pos); ok {
				n.pos = next
				continue
			}
		}
		if !n.point() {
			return
		}
	}
}

// point takes the line at the current position. It returns false if its end is not there yet.
func (n *Normalizer) point() bool {
	at, why := n.scan.line(n.in, n.pos, n.opt.Precision)
	if at >= len(n.in) && !n.eof {
		// What follows the buffer may change the verdict, unless a line feed stands at its end.
		if whole := why == fine && n.in[len(n.in)-1] == '\n'; !whole {
			if len(n.in)-n.pos <= MaxLineBytes {
				return false
			}
			at, why = n.pos+MaxLineBytes, badTooLong
		}
	}
	if why == fine {
		at, why = n.emit()
	}
	if why != fine {
		if !n.eof && n.pos+excerptLen >= len(n.in) && !n.endsWithin() {
			return false // More of it is needed for the message.
		}
		n.refuse(at, why)
		n.skip, n.state = skipper{}, skipLine
		return true
	}
	n.pos = n.scan.next
	return true
}

// endsWithin reports whether the end of the bad line at the current position is in the buffer.
func (n *Normalizer) endsWithin() bool {
	var s skipper
	_, found := s.skip(n.in[n.pos:])
	return found
}

// finishSkip goes on with what is being skipped.
func (n *Normalizer) finishSkip() {
	step, found := 0, false
	if n.state == skipRemark {
		step, found = skipComment(n.in[n.pos:])
	} else {
		step, found = n.skip.skip(n.in[n.pos:])
	}
	n.pos += step
	if found {
		n.state = skipNothing
	}
}

// refuse records that the line at the current position is bad.
func (n *Normalizer) refuse(at int, why reason) {
	if n.bad == nil {
		n.bad = &ParseError{}
	}
	n.bad.Refused++
	if len(n.bad.Lines) >= MaxLineErrors {
		return
	}
	n.count(n.pos)
	line := n.in[n.pos:]
	var s skipper
	if end, found := s.skip(line[:min(len(line), 2*excerptLen)]); found {
		line = line[:end]
	}
	text := why.String()
	if why == badTooLong {
		text += ": more than " + strconv.Itoa(MaxLineBytes) + " bytes"
	}
	n.bad.Lines = append(n.bad.Lines, LineError{
		Line: n.line, Column: at - n.pos + 1, Reason: text, Text: excerpt(line),
	})
	n.bad.Stopped = n.opt.Mode == Strict && n.bad.Refused >= MaxLineErrors
}

// count moves the mark, whose line number is known, to pos.
func (n *Normalizer) count(pos int) {
	n.line += bytes.Count(n.in[n.mark:pos], []byte{'\n'})
	n.mark = pos
}
