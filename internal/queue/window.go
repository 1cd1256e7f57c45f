package queue

import (
	"io"

	"github.com/pkg/errors"
)

// window reads a file forwards through one buffer. Reading ahead is left to the
// kernel: a goroutine that read the next piece meanwhile was slower, since the
// pieces then go through more memory than the processor's cache holds.
type window struct {
	file  io.ReaderAt
	mem   []byte // whose beginning buf is
	buf   []byte
	start int64 // file offset of buf[0]
	chunk int   // how much is read at once
}

// bytes returns n bytes at off, none of them at or after limit, which are valid
// until the next call. It fails with io.ErrUnexpectedEOF where the file is shorter.
func (w *window) bytes(off int64, n int, limit int64) ([]byte, error) {
	if off >= w.start && off+int64(n) <= w.start+int64(len(w.buf)) {
		return w.buf[off-w.start:][:n], nil
	}
	if off+int64(n) > limit {
		return nil, io.ErrUnexpectedEOF
	}
	kept := 0
	if end := w.start + int64(len(w.buf)); off >= w.start && off < end {
		kept = int(end - off)
	}
	w.buf = w.buf[len(w.buf)-kept:]
	if err := w.fill(off, n, limit); err != nil {
		return nil, err
	}
	return w.buf[:n], nil
}

// fill reads on until the buffer, whose content begins at off, has at least n
// bytes.
func (w *window) fill(off int64, n int, limit int64) error {
	kept := len(w.buf)
	want := int(min(int64(max(n, w.chunk)), limit-off))
	mem := w.mem
	if cap(mem) < want {
		mem = make([]byte, max(want, min(2*cap(mem), MaxPayload)))
	}
	mem = mem[:cap(mem)]
	copy(mem, w.buf)
	w.mem, w.buf, w.start = mem, mem[:want], off
	got, err := w.file.ReadAt(w.buf[kept:], off+int64(kept))
	w.buf = w.buf[:kept+got]
	switch {
	case len(w.buf) >= n:
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// has reports whether n bytes at off are in the buffer.
func (w *window) has(off int64, n int) bool {
	return off >= w.start && off+int64(n) <= w.start+int64(len(w.buf))
}

// drop forgets what was read, for a file that is about to be another one.
func (w *window) drop() {
	w.buf, w.start = w.mem[:0], 0
}

// free gives the memory back.
func (w *window) free() {
	w.drop()
	w.mem, w.buf = nil, nil
}
