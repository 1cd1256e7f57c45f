package disk

import (
	"os"

	"golang.org/x/sys/windows"
)

// syncDir does nothing: NTFS journals names, and a directory cannot be flushed.
func syncDir(string) error { return nil }

func free(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var mine, total, all uint64
	if err := windows.GetDiskFreeSpaceEx(name, &mine, &total, &all); err != nil {
		return 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return int64(mine), nil
}
