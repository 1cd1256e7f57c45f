package queue

import (
	"sync/atomic"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// slowFS is a file system of which some reads take long.
type slowFS struct {
	disk.FS
	every, reads atomic.Int64
}

func (s *slowFS) Open(name string) (disk.File, error) {
	f, err := s.FS.Open(name)
	return slowFile{f, s}, err
}

type slowFile struct {
	disk.File
	fs *slowFS
}

func (f slowFile) ReadAt(p []byte, off int64) (int, error) {
	if n := f.fs.every.Load(); n > 0 && f.fs.reads.Add(1)%n == 0 {
		time.Sleep(4 * ringLate)
	}
	return f.File.ReadAt(p, off)
}
