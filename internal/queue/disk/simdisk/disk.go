package simdisk

import (
	"io"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// Op is one operation.
type Op struct {
	// Kind is open, openwrite, create, rename, remove, mkdir, list, syncdir, free,
	// lock, read, write, sync, truncate, preallocate or size.
	Kind string
	Path string
	Off  int64
	Len  int // bytes to read or write
}

// Fault is how an operation fails.
type Fault struct {
	Err error
	// After lets the operation take effect before it fails.
	After bool
	// Part is how many bytes a write writes before it fails.
	Part int
}

// Disk is a file system. The zero value is not usable, see New.
type Disk struct {
	// OnChange is called before each operation that changes something, without a
	// lock held. Set it before use.
	OnChange func(Op)
	// OnFault may make an operation fail. It is called with a lock held. Set it
	// before use.
	OnFault func(Op) *Fault

	mu       sync.Mutex
	names    map[string]*inode // as programs see them
	durable  map[string]*inode // as they are on the device
	dirs     map[string]bool   // as programs see them
	kept     map[string]bool   // directories as they are on the device
	locks    map[string]int    // -1 exclusive, else the number of sharers
	handles  int
	capacity int64 // 0 is endless
	seed     uint64
}

var _ disk.FS = (*Disk)(nil)

// New returns an empty disk. The seed decides what a failed sync forgets.
func New(seed uint64) *Disk {
	return &Disk{
		names: make(map[string]*inode), durable: make(map[string]*inode),
		dirs: make(map[string]bool), kept: make(map[string]bool), locks: make(map[string]int), seed: seed,
	}
}

// SetCapacity limits the bytes of all files together; writes beyond fail with
// ENOSPC. Zero takes the limit away.
func (d *Disk) SetCapacity(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.capacity = n
}

// Handles returns the number of files that are open, locks left out.
func (d *Disk) Handles() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.handles
}

// changing tells the hook that something is about to change.
func (d *Disk) changing(op Op) {
	if d.OnChange != nil {
		d.OnChange(op)
	}
}

func (d *Disk) fault(op Op) *Fault {
	if d.OnFault == nil {
		return nil
	}
	return d.OnFault(op)
}

// do runs an operation, with its faults.
func (d *Disk) do(op Op, change bool, run func() error) error {
	if change {
		d.changing(op)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.fault(op)
	if f != nil && !f.After {
		return pathError(op, f.Err)
	}
	if err := run(); err != nil {
		return pathError(op, err)
	}
	if f != nil {
		return pathError(op, f.Err)
	}
	return nil
}

func pathError(op Op, err error) error { return &fs.PathError{Op: op.Kind, Path: op.Path, Err: err} }

// Open opens a file for reading.
func (d *Disk) Open(name string) (disk.File, error) { return d.open("open", name, false) }

// OpenWrite opens a file for reading and writing.
func (d *Disk) OpenWrite(name string) (disk.File, error) { return d.open("openwrite", name, true) }

func (d *Disk) open(kind, name string, write bool) (disk.File, error) {
	var f *file
	err := d.do(Op{Kind: kind, Path: name}, false, func() error {
		n, ok := d.names[name]
		if !ok {
			return fs.ErrNotExist
		}
		f = &file{d: d, node: n, name: name, write: write}
		d.handles++
		return nil
	})
	if err != nil {
		if f != nil {
			d.handles--
		}
		return nil, err
	}
	return f, nil
}

// Create makes a file.
func (d *Disk) Create(name string) (disk.File, error) {
	var f *file
	err := d.do(Op{Kind: "create", Path: name}, true, func() error {
		if d.names[name] != nil {
			return fs.ErrExist
		}
		if !d.dirs[filepath.Dir(name)] {
			return fs.ErrNotExist
		}
		if d.capacity > 0 && d.usedLocked() >= d.capacity {
			return syscall.ENOSPC
		}
		d.names[name] = &inode{}
		f = &file{d: d, node: d.names[name], name: name, write: true}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.handles++
	d.mu.Unlock()
	return f, nil
}

// Rename replaces newName by oldName.
func (d *Disk) Rename(oldName, newName string) error {
	return d.do(Op{Kind: "rename", Path: newName}, true, func() error {
		n, ok := d.names[oldName]
		if !ok {
			return fs.ErrNotExist
		}
		delete(d.names, oldName)
		d.names[newName] = n
		return nil
	})
}

// Remove removes a file.
func (d *Disk) Remove(name string) error {
	return d.do(Op{Kind: "remove", Path: name}, true, func() error {
		if d.dirs[name] {
			delete(d.dirs, name)
			return nil
		}
		if _, ok := d.names[name]; !ok {
			return fs.ErrNotExist
		}
		delete(d.names, name)
		return nil
	})
}

// Mkdir makes a directory. A power cut may take it away, with all that is in it,
// until its parent is synced.
func (d *Disk) Mkdir(name string) error {
	return d.do(Op{Kind: "mkdir", Path: name}, true, func() error {
		switch parent := filepath.Dir(name); {
		case isRoot(name) || d.dirs[name]:
			return fs.ErrExist
		case d.names[name] != nil:
			return syscall.ENOTDIR
		case !isRoot(parent) && !d.dirs[parent]:
			return fs.ErrNotExist
		}
		d.dirs[name] = true
		return nil
	})
}

// isRoot reports whether a directory is there from the beginning.
func isRoot(dir string) bool { return dir == "." || dir == string(filepath.Separator) }

// List returns the entries of a directory.
func (d *Disk) List(dir string) ([]disk.Entry, error) {
	var list []disk.Entry
	err := d.do(Op{Kind: "list", Path: dir}, false, func() error {
		if !d.dirs[dir] {
			return fs.ErrNotExist
		}
		for name, n := range d.names {
			if filepath.Dir(name) == dir {
				list = append(list, disk.Entry{Name: filepath.Base(name), Size: int64(len(n.data))})
			}
		}
		for name := range d.dirs {
			if filepath.Dir(name) == dir {
				list = append(list, disk.Entry{Name: filepath.Base(name), Mode: fs.ModeDir})
			}
		}
		return nil
	})
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, err
}

// SyncDir makes the names in a directory durable.
func (d *Disk) SyncDir(dir string) error {
	return d.do(Op{Kind: "syncdir", Path: dir}, true, func() error {
		inDir := func(name string) bool { return filepath.Dir(name) == dir }
		for name := range d.durable {
			if inDir(name) && d.names[name] == nil {
				delete(d.durable, name)
			}
		}
		for name, n := range d.names {
			if inDir(name) {
				d.durable[name] = n
			}
		}
		for name := range d.kept {
			if inDir(name) && !d.dirs[name] {
				delete(d.kept, name)
			}
		}
		for name := range d.dirs {
			if inDir(name) {
				d.kept[name] = true
			}
		}
		return nil
	})
}

// Free returns what is left of the capacity.
func (d *Disk) Free(dir string) (int64, error) {
	free := int64(1) << 40
	err := d.do(Op{Kind: "free", Path: dir}, false, func() error {
		if d.capacity > 0 {
			free = max(d.capacity-d.usedLocked(), 0)
		}
		return nil
	})
	return free, err
}

func (d *Disk) usedLocked() int64 {
	var sum int64
	for name, n := range d.names {
		if !strings.HasSuffix(name, "/lock") {
			sum += int64(len(n.data))
		}
	}
	return sum
}

// Lock takes a lock.
func (d *Disk) Lock(name string, shared bool) (io.Closer, error) {
	err := d.do(Op{Kind: "lock", Path: name}, false, func() error {
		held := d.locks[name]
		if held != 0 && (!shared || held < 0) {
			return disk.ErrLocked
		}
		if d.names[name] == nil {
			d.names[name] = &inode{}
		}
		if shared {
			d.locks[name]++
		} else {
			d.locks[name] = -1
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &unlock{d: d, name: name}, nil
}

type unlock struct {
	d    *Disk
	name string
	once sync.Once
}

func (u *unlock) Close() error {
	u.once.Do(func() {
		u.d.mu.Lock()
		defer u.d.mu.Unlock()
		if u.d.locks[u.name] > 0 {
			u.d.locks[u.name]--
		} else {
			u.d.locks[u.name] = 0
		}
	})
	return nil
}
