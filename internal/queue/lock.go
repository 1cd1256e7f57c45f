package queue

import (
	"io"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// lockQueue locks one queue's directory. If the directory is part of a store, the
// store's own lock has to be free too: a store holds one lock for all its queues,
// so that idle queues hold no file.
func lockQueue(fsys disk.FS, dir string) (io.Closer, error) {
	own, err := lockFile(fsys, filepath.Join(dir, lockName), false)
	if err != nil {
		return nil, err
	}
	above := filepath.Join(filepath.Dir(filepath.Clean(dir)), lockName)
	f, err := fsys.Open(above)
	if isNotExist(err) {
		return own, nil
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		_ = own.Close()
		return nil, errors.WithStack(err)
	}
	store, err := lockFile(fsys, above, true)
	if err != nil {
		_ = own.Close()
		return nil, err
	}
	return locks{own, store}, nil
}

func lockFile(fsys disk.FS, name string, shared bool) (io.Closer, error) {
	l, err := fsys.Lock(name, shared)
	if errors.Is(err, disk.ErrLocked) {
		return nil, errors.WithStack(&LockedError{Path: name, Err: err})
	}
	return l, errors.Wrap(err, "queue: lock")
}

type locks []io.Closer

func (l locks) Close() error {
	var first error
	for _, c := range l {
		if err := c.Close(); first == nil {
			first = err
		}
	}
	return first
}
