// Package confine keeps the names of files that come over the network below a directory.
package confine

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"
)

// An OutsideError says that a name does not stay below its directory, or names no file there.
type OutsideError struct {
	// Name is what was given.
	Name string
	// Reason is what is wrong with it.
	Reason string
	// Away says that its directory is not there now, or cannot be read: it is not the name that is wrong.
	Away bool
}

// Error implements error. It does not tell where the directory is.
func (e *OutsideError) Error() string {
	return "the file name " + quote(e.Name) + " is not allowed: " + e.Reason
}

func quote(name string) string {
	const shown = 100
	if len(name) > shown {
		name = name[:shown] + "…"
	}
	return `"` + strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, name) + `"`
}

// sidecars are what SQLite adds to the name of a database for the files beside it.
var sidecars = []string{"-wal", "-shm", "-journal"}

// Path returns the absolute path of the database file that a name means below dir, without symbolic links in
// it, or an *OutsideError. The name is relative to dir, or an absolute path below it. The directories that it
// names must be there; the file itself need not.
//
// It looks at the file system as it is: who may change dir from this machine is trusted. Only its own
// directory should be given, and never one in which the server keeps files of its own.
func Path(dir, name string) (string, error) {
	if dir == "" {
		return "", &OutsideError{Name: name, Reason: "the operator has named no directory for files (--sqliteDir)"}
	}
	root, err := realDir(dir)
	if err != nil {
		return "", err
	}
	local, reason := relative(dir, root, name)
	if reason != "" {
		return "", &OutsideError{Name: name, Reason: reason}
	}
	path := filepath.Join(root, local)
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &OutsideError{Name: name, Reason: "its directory does not exist", Away: true}
	case err != nil:
		return "", &OutsideError{Name: name, Reason: "its directory cannot be read", Away: true}
	case !below(root, parent):
		return "", &OutsideError{Name: name, Reason: "it leads out of the directory for files"}
	}
	path = filepath.Join(parent, filepath.Base(path))
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil
	case err != nil:
		return "", &OutsideError{Name: name, Reason: "it cannot be read", Away: true}
	case info.Mode()&fs.ModeSymlink != 0:
		return "", &OutsideError{Name: name, Reason: "it is a symbolic link"}
	case !info.Mode().IsRegular():
		return "", &OutsideError{Name: name, Reason: "it is no file"}
	}
	return path, nil
}

func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", errors.WithStack(err)
	}
	root, err := filepath.EvalSymlinks(abs)
	return root, errors.Wrap(err, "the directory for files")
}

// relative returns the name relative to the directory, or why it cannot be one.
func relative(dir, root, name string) (local, reason string) {
	switch {
	case name == "":
		return "", "it is empty"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", "it holds control characters"
	case strings.ContainsAny(name, "?#%"):
		return "", "it holds a character that means something else in a URI (?, # or %)"
	case strings.HasPrefix(name, "file:") || strings.HasPrefix(name, ":"):
		return "", "it is no name of a file"
	}
	if filepath.IsAbs(name) {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", "the directory for files cannot be told"
		}
		for _, base := range []string{abs, root} {
			if rel, err := filepath.Rel(base, name); err == nil && filepath.IsLocal(rel) {
				name = rel
				break
			}
		}
		if filepath.IsAbs(name) {
			return "", "it is not below the directory for files"
		}
	}
	if !filepath.IsLocal(name) || filepath.Clean(name) == "." || strings.HasSuffix(name, "/") {
		return "", "it is not below the directory for files"
	}
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if part == ".." {
			return "", `it holds ".."` // behind a symbolic link, that is another directory than it seems
		}
	}
	for _, end := range sidecars {
		if strings.HasSuffix(strings.ToLower(name), end) {
			return "", "it ends in " + end + ", as the files do that SQLite keeps beside a database"
		}
	}
	return filepath.Clean(name), ""
}

// below reports whether a directory is the root or below it; both are without symbolic links.
func below(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return err == nil && filepath.IsLocal(rel)
}
