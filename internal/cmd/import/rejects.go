package importcmd

import (
	"os"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
)

// rejects is the reject file. It never takes the place of anything: it is new, or was empty, or is no
// regular file.
type rejects struct {
	path  string
	file  *os.File // opened with the first line
	lines int
}

// check refuses a path that cannot be the reject file of an import of files, so that this is known before
// anything is sent.
func (r *rejects) check(files []string) error {
	info, err := os.Stat(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return exit.Usage(errors.Wrap(err, "--rejectFile"))
	}
	for _, file := range files {
		// Even an empty one: it would grow while it is read.
		if input, err := os.Stat(file); file != "-" && err == nil && os.SameFile(info, input) {
			return exit.Usage(errors.Errorf("--rejectFile: %s is one of the files to import; give another path", r.path))
		}
	}
	return r.refuse(info)
}

func (r *rejects) refuse(info os.FileInfo) error {
	switch {
	case info.IsDir():
		return exit.Usage(errors.Errorf("--rejectFile: %s is a directory; give the path of a file", r.path))
	case info.Mode().IsRegular() && info.Size() > 0:
		return exit.Usage(errors.Errorf("--rejectFile: %s exists and is not empty; move it away, or give another path", r.path))
	}
	return nil
}

// add writes a line.
func (r *rejects) add(line []byte) error {
	if r.file == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	r.lines++
	_, err := r.file.Write(line)
	return errors.Wrap(err, "the reject file cannot be written")
}

// open asks again, since another import may have begun to write there.
func (r *rejects) open() error {
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return errors.Wrap(err, "the reject file cannot be made")
	}
	info, err := f.Stat()
	if err == nil {
		err = r.refuse(info)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return err
	}
	r.file = f
	return nil
}

func (r *rejects) close() error {
	if r.file == nil {
		return nil
	}
	return errors.Wrap(r.file.Close(), "the reject file cannot be written")
}
