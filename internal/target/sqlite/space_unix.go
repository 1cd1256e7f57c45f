//go:build linux || darwin || freebsd

package sqlite

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// diskFull reports whether the file system that a file is on has next to nothing left. The cause of
// an I/O error does not always come through.
func diskFull(path string) bool {
	var fs unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &fs); err != nil {
		return false
	}
	return int64(fs.Bavail)*int64(fs.Bsize) < 1<<20 //nolint:unconvert // the types differ between platforms
}
