//go:build !linux

package testenv

import "testing"

// A SmallDisk is a file system of a few megabytes that part of is taken.
type SmallDisk struct{ Dir string }

// NewSmallDisk skips the test: only Linux can do it.
func NewSmallDisk(t testing.TB, _, _ int) *SmallDisk {
	t.Skip("a small file system can be mounted on Linux only")
	return nil
}

// Free gives the rest of the space free.
func (d *SmallDisk) Free(testing.TB) {}
