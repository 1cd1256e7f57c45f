package influx

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/tailrace-cdc/tailrace/logical"
)

// worthPacking is the least body that is compressed: below it the headers outweigh the gain.
const worthPacking = 512

// A body is the lines of some mutations, read where they are: nothing is copied.
type body struct {
	muts []logical.Mutation
	size int // bytes of the lines with their line ends
	gzip bool
	// packed is the body compressed, if it is; it comes from buffers.
	packed *bytes.Buffer
}

var (
	buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	packers = sync.Pool{New: func() any {
		w, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is one that exists
		return w
	}}
)

// newBody returns the body of the mutations' lines. It is freed by free.
func newBody(muts []logical.Mutation, compress bool) (*body, error) {
	b := &body{muts: muts, size: sizeOf(muts)}
	if !compress || b.size < worthPacking {
		return b, nil
	}
	b.gzip, b.packed = true, buffers.Get().(*bytes.Buffer)
	b.packed.Reset()
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	w.Reset(b.packed)
	var err error
	for i := range muts {
		if _, err = w.Write(muts[i].Raw); err == nil {
			_, err = w.Write(lineEnd)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = w.Close()
	}
	return b, err
}

var lineEnd = []byte{'\n'}

// length returns how many bytes travel.
func (b *body) length() int {
	if b.packed != nil {
		return b.packed.Len()
	}
	return b.size
}

// free gives the memory back. Every reader has been closed by detach.
func (b *body) free() {
	if b.packed != nil {
		buffers.Put(b.packed)
		b.packed = nil
	}
}

// reader returns a reader of the whole body.
func (b *body) reader() *reader {
	r := &reader{muts: b.muts}
	if b.packed != nil {
		r.muts, r.rest = nil, b.packed.Bytes()
	}
	return r
}

// A reader reads a body once. A transport may go on reading for a while after it has returned an answer;
// after detach it gets nothing any more.
type reader struct {
	mu   sync.Mutex
	muts []logical.Mutation
	rest []byte // of the present line, or of the compressed body
	end  bool   // the present line's end is still to be read
	gone bool
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return 0, io.ErrClosedPipe
	}
	for n < len(p) {
		switch {
		case len(r.rest) > 0:
			m := copy(p[n:], r.rest)
			r.rest = r.rest[m:]
			n += m
		case r.end:
			p[n] = '\n'
			r.end = false
			n++
		case len(r.muts) > 0:
			r.rest, r.end = r.muts[0].Raw, true
			r.muts = r.muts[1:]
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
	return n, nil
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.detach()
	return nil
}

// detach lets go of the memory.
func (r *reader) detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone, r.muts, r.rest = true, nil, nil
}

func sizeOf(muts []logical.Mutation) (n int) {
	for i := range muts {
		n += len(muts[i].Raw) + 1
	}
	return n
}
