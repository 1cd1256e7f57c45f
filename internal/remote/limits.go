package remote

import (
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/confine"
	"github.com/tailrace-cdc/tailrace/internal/util/outbound"
)

// Limits say which addresses may come over the API.
type Limits struct {
	// Outbound says which hosts may be connected to; nil is the policy without a list.
	Outbound *outbound.Policy
	// SQLiteDir is the directory that database files have to lie in.
	SQLiteDir string
	// DataDir is the installation's directory; relative paths are relative to it.
	DataDir string
	// Reserved are files and directories that no remote may use, nor what lies below them, nor what is
	// called like them and a dash.
	Reserved []string
}

// A RefusedError says that the operator of this server does not allow an address.
type RefusedError struct{ Reason error }

// Error implements error.
func (e *RefusedError) Error() string { return e.Reason.Error() }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }

// IsRefused reports whether an error says that the operator of this server does not allow an address, at
// whatever time that was found.
func IsRefused(err error) bool {
	var named *RefusedError
	var dialled *outbound.RefusedError
	return errors.As(err, &named) || errors.As(err, &dialled)
}

// Limit returns a connection as far as its address may be used: what its target must not connect to is in
// it, and the path of a file is without symbolic links. A *RefusedError says what can be told to be refused
// before anything is opened; any other error may heal, as a directory does that is not mounted.
func (l Limits) Limit(c Connection) (Connection, error) {
	if c.Address.Kind == SQLite {
		path, err := l.file(c.Address.Path)
		if err != nil {
			return c, err
		}
		c.Address.Path = path
		return c, nil
	}
	if c.Outbound = l.Outbound; c.Outbound == nil {
		c.Outbound = new(outbound.Policy)
	}
	for _, host := range c.Address.Hosts {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if err := c.Outbound.CheckHost(host); err != nil {
			return c, &RefusedError{err}
		}
	}
	if name := fileParam(c.Address); name != "" {
		return c, &RefusedError{errors.Errorf("the parameter %s names a file of the server; leave it out", name)}
	}
	return c, nil
}

// fileParams are the parameters of a PostgreSQL address by which the server would use secrets of its own that
// lie in files. (sslrootcert is none: certificates are no secret.)
var fileParams = []string{"passfile", "service", "servicefile", "sslcert", "sslkey"}

func fileParam(a Address) string {
	if a.Kind != Postgres {
		return ""
	}
	for name := range a.URL().Query() {
		if slices.Contains(fileParams, name) {
			return name
		}
	}
	return ""
}

// Resolve returns the path of a database file.
func (l Limits) Resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.DataDir, path)
}

// file returns the path of a database file without symbolic links in it. Its errors do not tell where the
// directories are.
func (l Limits) file(path string) (string, error) {
	file, err := confine.Path(l.SQLiteDir, l.Resolve(path))
	if outside := new(confine.OutsideError); errors.As(err, &outside) {
		err := errors.Errorf("%s; files that come over the API have to lie in the data directory, or in the one that the operator allows (--sqliteDir)",
			(&confine.OutsideError{Name: path, Reason: outside.Reason}).Error())
		if outside.Away {
			return "", err
		}
		return "", &RefusedError{err}
	}
	if err != nil {
		return "", errors.New("the directory for database files (--sqliteDir) cannot be read")
	}
	for _, r := range l.Reserved {
		if belongs(file, l.Resolve(r)) {
			return "", &RefusedError{errors.Errorf("%s belongs to the installation itself; give another name", filepath.Base(r))}
		}
	}
	return file, nil
}

// belongs reports whether a file is another one, lies below it, or is kept beside it. Letters of either case
// are the same, as they are in some file systems.
func belongs(file, to string) bool {
	if parent, err := filepath.EvalSymlinks(filepath.Dir(to)); err == nil {
		to = filepath.Join(parent, filepath.Base(to))
	}
	rest, ok := strings.CutPrefix(strings.ToLower(file), strings.ToLower(to))
	return ok && (rest == "" || rest[0] == '-' || rest[0] == filepath.Separator)
}
