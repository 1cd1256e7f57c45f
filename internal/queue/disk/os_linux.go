package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData leaves out the modification time, which nobody needs after a crash.
func syncData(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var syncErr error
	err = conn.Control(func(fd uintptr) {
		for {
			// EINTR is the one failure after which a second call is right: the
			// kernel has not begun, or has not given up a page.
			if syncErr = unix.Fdatasync(int(fd)); syncErr != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return wrapSync(f, syncErr)
}

// preallocate keeps the size, so that the size stays the end of what was written.
func preallocate(f *os.File, size int64) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var allocErr error
	err = conn.Control(func(fd uintptr) {
		for {
			allocErr = unix.Fallocate(int(fd), unix.FALLOC_FL_KEEP_SIZE, 0, size)
			if allocErr != unix.EINTR {
				return
			}
		}
	})
	switch {
	case err != nil:
		return err
	case allocErr == unix.EOPNOTSUPP, allocErr == unix.ENOSYS:
		return nil
	case allocErr != nil:
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: allocErr}
	}
	return nil
}

func wrapSync(f *os.File, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
}

// sequential tells the kernel to read further ahead. It is a hint, so it cannot fail.
func sequential(f *os.File) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.Fadvise(int(fd), 0, 0, unix.FADV_SEQUENTIAL) })
	}
}
