package remote

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/errors"
)

// Limits say which addresses may come over the API.
type Limits struct {
	// Hosts that remotes may name: names, addresses, networks such as 10.0.0.0/8, and names with a
	// leading *. for all below. Empty: every host.
	Hosts []string
	// SQLiteDir is the directory that database files have to lie in.
	SQLiteDir string
	// DataDir is the installation's directory, in which Reserved are names that no remote may use.
	// Relative paths are relative to it.
	DataDir  string
	Reserved []string
}

// Check says why an address may not be used, if it may not.
func (l Limits) Check(a Address) error {
	if a.Kind == SQLite {
		return l.checkFile(a.Path)
	}
	if len(l.Hosts) == 0 {
		return nil
	}
	for _, host := range a.Hosts {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.ToLower(strings.Trim(host, "[]"))
		if !slices.ContainsFunc(l.Hosts, func(allowed string) bool { return covers(strings.ToLower(allowed), host) }) {
			return errors.Errorf("the operator of this server does not allow remotes at host %q (--allowRemoteHosts)", host)
		}
	}
	return nil
}

func covers(allowed, host string) bool {
	if below, ok := strings.CutPrefix(allowed, "*."); ok {
		return strings.HasSuffix(host, "."+below)
	}
	if _, network, err := net.ParseCIDR(allowed); err == nil {
		ip := net.ParseIP(host)
		return ip != nil && network.Contains(ip)
	}
	return allowed == host
}

// Resolve returns the path of a database file.
func (l Limits) Resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.DataDir, path)
}

// checkFile insists on a file below the directory, also after symbolic links.
func (l Limits) checkFile(path string) error {
	full := l.Resolve(path)
	parent, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil {
		return errors.New("the directory of the database file does not exist")
	}
	full = filepath.Join(parent, filepath.Base(full))
	if _, ok := below(l.SQLiteDir, full); !ok {
		return errors.New("database files that come over the API have to lie in the data directory, or in the one that the operator allows (--sqliteDir)")
	}
	if inside, ok := below(l.DataDir, full); ok {
		first, _, _ := strings.Cut(strings.ToLower(filepath.ToSlash(inside)), "/")
		for _, name := range l.Reserved {
			if first == name || strings.HasPrefix(first, name+"-") {
				return errors.Errorf("%s belongs to the installation itself; give another name", first)
			}
		}
	}
	if info, err := os.Lstat(full); err == nil && !info.Mode().IsRegular() {
		return errors.New("the path is there and is no regular file")
	}
	return nil
}

// below returns the path of a file within a directory, if it is there.
func below(dir, file string) (inside string, ok bool) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", false
	}
	inside, err = filepath.Rel(dir, file)
	return inside, err == nil && filepath.IsLocal(inside) && inside != "."
}
