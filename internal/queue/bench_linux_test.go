package queue

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// dropCache makes the kernel forget the segments, so that they come from the device.
func dropCache(b *testing.B, dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
		_ = f.Close()
		if err != nil {
			b.Fatal(err)
		}
	}
}
