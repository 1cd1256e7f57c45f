package backup

import (
	"io"
	"os"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/installation"
)

// Partial is what the name of a file ends with that is still being written.
const Partial = ".partial"

// Save has a backup written to a new file of mode 0600, checks it, and only then gives it its name: a file of
// that name is whole, whatever happens. A file that exists is not touched.
func Save(path string, write func(w io.Writer) error) (m Manifest, err error) {
	if _, err := os.Lstat(path); err == nil {
		return m, errors.Errorf("%s exists already; name a new file", path)
	}
	part := path + Partial
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return m, errors.Wrap(err, "backup")
	}
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return m, errors.Wrap(err, "backup")
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part) // the first error says more
		}
	}()
	err = write(f)
	if err == nil {
		err = errors.WithStack(f.Sync())
	}
	if closed := f.Close(); err == nil {
		err = errors.WithStack(closed)
	}
	if err != nil {
		return m, err
	}
	if m, err = Verify(part); err != nil {
		return m, err
	}
	if err := os.Rename(part, path); err != nil {
		return m, errors.Wrap(err, "backup")
	}
	return m, errors.Wrap(installation.SyncDir(filepath.Dir(path)), "backup")
}
