package testenv

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// A SmallDisk is a file system of a few megabytes that part of is taken.
type SmallDisk struct {
	// Dir is where it is mounted. It belongs to the user that servers run as.
	Dir     string
	ballast string
}

// NewSmallDisk mounts a file system in memory, of which free megabytes are free until Free is
// called. With -short it skips the test where mounting is not allowed, except in CI, where nothing is left out.
func NewSmallDisk(t testing.TB, free, ballast int) *SmallDisk {
	t.Helper()
	dir, err := os.MkdirTemp("", "tailrace-disk-")
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+strconv.Itoa(free+ballast)+"m"); err != nil {
		_ = os.Remove(dir)
		if testing.Short() && os.Getenv("CI") == "" && os.Getenv("TAILRACE_CI") == "" {
			t.Skipf("a small file system cannot be mounted: %v", err)
		}
		t.Fatalf("a small file system cannot be mounted: %v; run as root, or with -short", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("testenv: %v", err)
		}
		_ = os.Remove(dir)
	})
	d := &SmallDisk{Dir: dir, ballast: filepath.Join(dir, "ballast")}
	if err := os.WriteFile(d.ballast, make([]byte, ballast<<20), 0o600); err != nil {
		t.Fatalf("testenv: %v", err)
	}
	if err := handOver(dir); err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return d
}

// Free gives the rest of the space free.
func (d *SmallDisk) Free(t testing.TB) {
	t.Helper()
	if err := os.Remove(d.ballast); err != nil {
		t.Fatalf("testenv: %v", err)
	}
}
