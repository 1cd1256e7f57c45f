package queue

import (
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// The names in a queue's directory, beside the segments.
const (
	cursorName = "cursor"
	lossesName = "losses"
	lockName   = "lock"
	asideName  = "aside"
	tmpSuffix  = ".tmp"
)

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// readAll reads a small file. A larger one than limit is cut there.
func readAll(fsys disk.FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(size, limit))
	n, err := f.ReadAt(b, 0)
	if err != nil && !isEOF(err) {
		return nil, err
	}
	return b[:n], nil
}

// sizeOf returns the size of a file.
func sizeOf(fsys disk.FS, name string) (int64, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	return f.Size()
}

// replaceFile puts a file in the place of another in one step, durably: whatever
// happens, the old content is there or the new one.
func replaceFile(fsys disk.FS, dir, name string, content []byte) error {
	path := filepath.Join(dir, name)
	tmp := path + tmpSuffix
	// A file whose sync failed must not be synced again, so each try has its own.
	if err := fsys.Remove(tmp); err != nil && !isNotExist(err) {
		return err
	}
	if err := writeNew(fsys, tmp, content); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// writeNew creates a file with this content and makes the content durable.
func writeNew(fsys disk.FS, path string, content []byte) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = fsys.Remove(path) // a leftover is swept at the next opening
	}
	return err
}

// sweep removes what an interrupted replaceFile left behind.
func sweep(fsys disk.FS, dir string, entries []disk.Entry) error {
	for _, e := range entries {
		if e.Mode.IsRegular() && strings.HasSuffix(e.Name, tmpSuffix) {
			if err := fsys.Remove(filepath.Join(dir, e.Name)); err != nil && !isNotExist(err) {
				return err
			}
		}
	}
	return nil
}
