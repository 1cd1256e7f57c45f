package queue

import (
	"io"

	"github.com/pkg/errors"
)

// window reads a file forwards through one buffer. With ahead, the piece after
// the buffer is read meanwhile, so that reading and checking go side by side.
type window struct {
	file  io.ReaderAt
	mem   []byte // whose part buf is
	buf   []byte
	start int64 // file offset of buf[0]
	chunk int   // how much is read at once
	ahead *ahead
}

// ahead is a piece of the file that is read before it is asked for. Its goroutine
// lives for one read; whoever started it waits for it before anything else.
type ahead struct {
	buf  []byte // headroom for what is left of the window's buffer, then the piece
	room int    // size of the headroom
	off  int64  // file offset behind the headroom
	n    int    // bytes that were read
	busy bool
	done chan struct{}
	file io.ReaderAt
	read func()
}

func newAhead() *ahead {
	a := &ahead{done: make(chan struct{}, 1)}
	a.read = func() {
		// What fails here is tried again, and told, when it is needed.
		a.n, _ = a.file.ReadAt(a.buf[a.room:], a.off)
		a.done <- struct{}{}
	}
	return a
}

// begin starts to read n bytes at off.
func (a *ahead) begin(file io.ReaderAt, off int64, room, n int) {
	if cap(a.buf) < room+n {
		a.buf = make([]byte, room+n)
	}
	a.buf, a.room, a.off, a.n, a.file, a.busy = a.buf[:room+n], room, off, 0, file, true
	go a.read()
}

// wait waits until nothing is being read.
func (a *ahead) wait() {
	if a != nil && a.busy {
		<-a.done
		a.busy = false
	}
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
	swapped := w.swap(off, kept)
	if !swapped || len(w.buf) < n {
		if !swapped {
			w.buf = w.buf[len(w.buf)-kept:]
		}
		if err := w.fill(off, n, limit); err != nil {
			return nil, err
		}
	}
	w.readAhead(n, limit)
	return w.buf[:n], nil
}

// swap makes the piece that was read ahead the buffer, behind the last kept bytes
// of the present one. It reports whether that was possible.
func (w *window) swap(off int64, kept int) bool {
	a := w.ahead
	if a == nil || !a.busy {
		return false
	}
	a.wait()
	if a.off != off+int64(kept) || kept > a.room || a.n == 0 {
		return false
	}
	next := a.buf[a.room-kept : a.room+a.n]
	copy(next, w.buf[len(w.buf)-kept:])
	w.mem, a.buf, w.buf = a.buf, w.mem, next
	w.start = off
	return true
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

// readAhead starts to read the next piece, if there is enough for it.
func (w *window) readAhead(n int, limit int64) {
	if w.ahead == nil {
		return
	}
	end := w.start + int64(len(w.buf))
	size := max(w.chunk, n)
	if end+int64(size) <= limit {
		w.ahead.begin(w.file, end, size, size)
	}
}

// has reports whether n bytes at off are in the buffer.
func (w *window) has(off int64, n int) bool {
	return off >= w.start && off+int64(n) <= w.start+int64(len(w.buf))
}

// drop forgets what was read, for a file that is about to be another one.
func (w *window) drop() {
	w.ahead.wait()
	w.buf, w.start = w.mem[:0], 0
}

// free gives the memory back.
func (w *window) free() {
	w.drop()
	w.mem, w.buf = nil, nil
	if w.ahead != nil {
		w.ahead.buf = nil
	}
}
