package sqlite

import (
	"io/fs"
	"os"
)

// makeFile makes the file for its owner alone, if there is none: the driver would let everybody read it. Why it
// cannot be made, the driver says.
func makeFile(path string) {
	if f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_ = f.Close() // It is empty.
	}
}

// hide gives what SQLite keeps beside the file no more rights than the file has: the same points are in it. It
// does so before a point is written. Files of somebody else stay as that one made them.
func hide(path string, mode fs.FileMode) {
	for _, beside := range []string{path + "-wal", path + "-shm"} {
		if info, err := os.Stat(beside); err == nil && info.Mode().Perm()&^mode.Perm() != 0 {
			_ = os.Chmod(beside, mode.Perm())
		}
	}
}
