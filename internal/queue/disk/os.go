package disk

import (
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/gofrs/flock"
	"github.com/pkg/errors"
)

// ErrLocked says that another process (or another part of this one) holds a lock.
var ErrLocked = errors.New("disk: locked by another process")

// OS returns the real file system.
func OS() FS { return osFS{} }

// Queue files hold what users measured; nobody else has to read them.
const (
	filePerm = 0o640
	dirPerm  = 0o750
)

type osFS struct{}

func (osFS) Open(name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	sequential(f)
	return osFile{f}, nil
}

func (osFS) OpenWrite(name string) (File, error) { return open(name, os.O_RDWR) }

func (osFS) Create(name string) (File, error) {
	return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (osFS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

func (osFS) Remove(name string) error { return os.Remove(name) }

func (osFS) Mkdir(name string) error {
	err := os.Mkdir(name, dirPerm)
	if err == nil {
		return nil
	}
	// Not every system says of every directory that it exists, and "exists" may be
	// said of a file.
	info, statErr := os.Stat(name)
	switch {
	case statErr != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
	}
	return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
}

func (osFS) SyncDir(dir string) error { return syncDir(dir) }

func (osFS) Free(dir string) (int64, error) { return free(dir) }

func (osFS) List(dir string) ([]Entry, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	list := make([]Entry, 0, len(names))
	for _, d := range names {
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since the directory was read
		}
		if err != nil {
			return nil, err
		}
		list = append(list, Entry{Name: d.Name(), Size: info.Size(), Mode: info.Mode()})
	}
	return list, nil
}

func (osFS) Lock(name string, shared bool) (io.Closer, error) {
	l := flock.New(name, flock.SetPermissions(filePerm))
	try := l.TryLock
	if shared {
		try = l.TryRLock
	}
	ok, err := try()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, ErrLocked
	}
	return l, nil
}

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, filePerm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// osFile embeds the file, so that ReadAt, WriteAt, Truncate and Close are its own.
type osFile struct{ *os.File }

func (f osFile) Sync() error { return syncData(f.File) }

func (f osFile) Preallocate(size int64) error { return preallocate(f.File, size) }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
