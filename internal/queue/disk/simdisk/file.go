package simdisk

import (
	"io"
	"io/fs"
	"syscall"
)

const sector = 512

// inode is a file's content. durable is what a sync has put on the device, and
// pending what has changed since.
type inode struct {
	data    []byte
	durable []byte
	pending []change
}

// change is a write, or, with data nil, a new size.
type change struct {
	off  int64
	data []byte
}

func apply(b []byte, c change) []byte {
	if c.data == nil {
		return resize(b, c.off)
	}
	if end := c.off + int64(len(c.data)); end > int64(len(b)) {
		b = resize(b, end)
	}
	copy(b[c.off:], c.data)
	return b
}

func resize(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

type file struct {
	d      *Disk
	node   *inode
	name   string
	write  bool
	closed bool
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	err := f.d.do(Op{Kind: "read", Path: f.name, Off: off, Len: len(p)}, false, func() error {
		if f.closed {
			return fs.ErrClosed
		}
		if off < int64(len(f.node.data)) {
			n = copy(p, f.node.data[off:])
		}
		return nil
	})
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	op := Op{Kind: "write", Path: f.name, Off: off, Len: len(p)}
	f.d.changing(op)
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed || !f.write {
		return 0, pathError(op, fs.ErrClosed)
	}
	n := len(p)
	var failure error
	if fault := f.d.fault(op); fault != nil {
		failure = fault.Err
		if !fault.After {
			n = min(fault.Part, n)
		}
	}
	if grown := off + int64(n) - int64(len(f.node.data)); f.d.capacity > 0 && grown > 0 {
		if room := f.d.capacity - f.d.usedLocked(); grown > room {
			n = int(max(int64(n)-(grown-room), 0))
			failure = syscall.ENOSPC
		}
	}
	if n > 0 {
		c := change{off: off, data: append([]byte(nil), p[:n]...)}
		f.node.data = apply(f.node.data, c)
		f.node.pending = append(f.node.pending, c)
	}
	if failure != nil {
		return n, pathError(op, failure)
	}
	return n, nil
}

func (f *file) Sync() error {
	op := Op{Kind: "sync", Path: f.name}
	f.d.changing(op)
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return pathError(op, fs.ErrClosed)
	}
	n := f.node
	fault := f.d.fault(op)
	if fault == nil || fault.After {
		for _, c := range n.pending {
			n.durable = apply(n.durable, c)
		}
	} else {
		// Some pages reached the device, the others are forgotten for good.
		f.d.seed++
		n.durable = newChance(f.d.seed).tear(n.durable, n.pending)
	}
	n.pending = nil
	if fault != nil {
		return pathError(op, fault.Err)
	}
	return nil
}

func (f *file) Truncate(size int64) error {
	return f.d.do(Op{Kind: "truncate", Path: f.name}, true, func() error {
		c := change{off: size}
		f.node.data = apply(f.node.data, c)
		f.node.pending = append(f.node.pending, c)
		return nil
	})
}

func (f *file) Preallocate(size int64) error {
	return f.d.do(Op{Kind: "preallocate", Path: f.name}, false, func() error {
		if f.d.capacity > 0 && size-int64(len(f.node.data)) > f.d.capacity-f.d.usedLocked() {
			return syscall.ENOSPC
		}
		return nil
	})
}

func (f *file) Size() (int64, error) {
	var size int64
	err := f.d.do(Op{Kind: "size", Path: f.name}, false, func() error {
		size = int64(len(f.node.data))
		return nil
	})
	return size, err
}

func (f *file) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	f.d.handles--
	return nil
}
