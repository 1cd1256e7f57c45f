package installation

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// makeDirs makes an absolute directory and those of its parents that are missing, and makes the name of
// each durable with sync (ACKED: what lies in a directory that a power cut takes away is gone too).
func makeDirs(dir string, sync func(dir string) error) error {
	parent := filepath.Dir(dir)
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return &os.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	case err == nil:
		// A process that died before it came to sync left a name that is not durable. A parent that
		// cannot be synced is none that we would have made something in.
		if err := sync(parent); !foreign(err) {
			return err
		}
		return nil
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	if err := makeDirs(parent, sync); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return sync(parent)
}

// foreign reports whether a directory cannot be synced because it is not ours, or of a kind that knows no
// sync.
func foreign(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}
