package disk

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
)

// MkdirAll makes a directory and those of its parents that are missing, durably:
// a power cut after it has returned takes none of them away. It is no error if the
// directory exists.
func MkdirAll(fsys FS, dir string) error {
	dir = filepath.Clean(dir)
	parent := filepath.Dir(dir)
	err := fsys.Mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := MkdirAll(fsys, parent); err != nil {
			return err
		}
		err = fsys.Mkdir(dir)
	}
	switch {
	case err == nil:
		return fsys.SyncDir(parent)
	case errors.Is(err, fs.ErrExist):
		// A process that died between the two calls left it without a durable name.
		if err := fsys.SyncDir(parent); !foreign(err) {
			return err
		}
		return nil
	}
	return err
}

// foreign reports whether a directory cannot be synced because it is not ours, or
// of a kind that knows no sync. Then what lies in it was there before us.
func foreign(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}
