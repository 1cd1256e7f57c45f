package disk

import (
	"io"
	"io/fs"
)

// FS is a file system. Its methods may be called by several goroutines at once.
// Errors are those of package os, so errors.Is(err, fs.ErrNotExist) works.
type FS interface {
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and writing.
	OpenWrite(name string) (File, error)
	// Create makes a new file, and fails with fs.ErrExist where there is one.
	Create(name string) (File, error)
	// Rename replaces newName by oldName in one step.
	Rename(oldName, newName string) error
	// Remove removes one file or one empty directory.
	Remove(name string) error
	// Mkdir makes one directory, and fails with fs.ErrExist where there is one and
	// with fs.ErrNotExist where its parent is missing. Its name is durable with the
	// next SyncDir of the parent, see [MkdirAll].
	Mkdir(name string) error
	// List returns the entries of a directory, sorted by name.
	List(dir string) ([]Entry, error)
	// SyncDir makes the names in a directory durable. A no-op where the system
	// has no such thing.
	SyncDir(dir string) error
	// Free returns the bytes that an ordinary user may still write on the device
	// that holds dir.
	Free(dir string) (int64, error)
	// Lock takes a lock on the named file, creating it if need be, without
	// waiting. It fails with ErrLocked while another holds it in a way that does
	// not go together with this one. The lock ends with the process.
	Lock(name string, shared bool) (io.Closer, error)
}

// File is an open file. ReadAt may be called by several goroutines at once, and
// beside one goroutine that writes.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes the content durable (fdatasync, where there is such a thing).
	Sync() error
	// Truncate cuts the file to size, and gives back what was preallocated.
	Truncate(size int64) error
	// Preallocate asks for size bytes on the device without changing the file's
	// size. It does nothing where the system cannot do it.
	Preallocate(size int64) error
	// Size returns the file's size.
	Size() (int64, error)
}

// Entry is a name in a directory.
type Entry struct {
	Name string
	Size int64
	Mode fs.FileMode
}
