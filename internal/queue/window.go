package queue

import (
	"io"

	"github.com/pkg/errors"
)

// window reads a file forwards. It reads through one buffer, or, if a long way is
// before it and it may, through a ring that is filled ahead of it.
type window struct {
	file  io.ReaderAt
	mem   []byte // whose beginning buf is, if there is no ring
	buf   []byte
	start int64 // file offset of buf[0]
	chunk int   // how much is read at once

	rings  *rings // where to get a ring; nil if the file is not to be read ahead
	alone  bool   // see ring.alone
	ring   *ring  // it has one
	ahead  bool   // and it is in use
	passed int64  // bytes that were read without one
}

// bytes returns n bytes at off, none of them at or after limit, which are valid
// until the next call. It fails with io.ErrUnexpectedEOF where the file is shorter.
func (w *window) bytes(off int64, n int, limit int64) ([]byte, error) {
	if w.has(off, n) {
		return w.buf[off-w.start:][:n], nil
	}
	if off+int64(n) > limit {
		return nil, io.ErrUnexpectedEOF
	}
	if w.ahead || w.goAhead(off, limit) {
		if w.follow(off, n) {
			return w.buf[off-w.start:][:n], nil
		}
		// Whatever it is, it shows again where the file is read plainly.
		w.rest()
		w.passed = -ringPause
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
	w.passed += int64(got)
	switch {
	case len(w.buf) >= n:
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// goAhead begins to read ahead if that pays, and if there is a ring. What is in
// the buffer is read again.
func (w *window) goAhead(off, limit int64) bool {
	if w.rings == nil || w.passed < int64(ringAfter*w.chunk) || limit-off < int64(2*w.chunk) {
		return false
	}
	if w.ring == nil {
		w.ring = w.rings.get(w.chunk)
		if w.ring == nil {
			w.passed = 0 // so that it is asked again only after a while
			return false
		}
		w.ring.alone = w.alone
	}
	w.ring.start(w.file, off, limit)
	w.ahead, w.mem, w.buf, w.start = true, nil, nil, w.ring.base
	return true
}

// follow takes chunks of the ring until there are n bytes at off.
func (w *window) follow(off int64, n int) bool {
	for !w.has(off, n) {
		if off < w.start || n > w.ring.room {
			return false // back, to what is gone; or too large
		}
		w.forget(off)
		if w.ring.wraps() {
			to := w.ring.mem[w.ring.room-len(w.buf) : w.ring.room]
			copy(to, w.buf)
			w.buf = to
			w.ring.free(w.start + int64(len(to)))
		}
		if !w.extend() {
			return false
		}
	}
	return true
}

// reach makes n bytes at off readable without moving what lies from keep on.
func (w *window) reach(keep, off int64, n int) bool {
	for !w.has(off, n) {
		if !w.ahead || off < w.start || w.ring.wraps() {
			return false
		}
		w.forget(keep)
		if !w.extend() {
			return false
		}
	}
	return true
}

// forget lets go of what lies before off.
func (w *window) forget(off int64) {
	n := min(max(off-w.start, 0), int64(len(w.buf)))
	w.buf, w.start = w.buf[n:], w.start+n
	w.ring.free(w.start)
}

// extend adds the next chunk, which lies behind the buffer in memory.
func (w *window) extend() bool {
	chunk, ok := w.ring.next()
	if !ok {
		return false
	}
	if len(w.buf) == 0 {
		w.buf = chunk
	} else {
		w.buf = w.buf[:len(w.buf)+len(chunk)]
	}
	return true
}

// has reports whether n bytes at off are in the buffer.
func (w *window) has(off int64, n int) bool {
	return off >= w.start && off+int64(n) <= w.start+int64(len(w.buf))
}

// drop forgets what was read, for a file that is about to be another one.
func (w *window) drop() {
	if w.ahead {
		w.ring.stop()
		w.ahead = false
	}
	w.buf, w.start = w.mem[:0], 0
}

// rest gives back the ring, for a reader that has caught up.
func (w *window) rest() {
	w.passed = 0
	if w.ahead {
		w.drop()
	}
	if w.ring != nil {
		w.ring.put()
		w.ring = nil
	}
}

// free gives the memory back.
func (w *window) free() {
	w.drop()
	w.rest()
	w.mem, w.buf = nil, nil
}
