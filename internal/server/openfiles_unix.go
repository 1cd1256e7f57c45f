//go:build unix

package server

import "syscall"

// openFiles returns how many files the process may have open.
func openFiles() (n int, known bool) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0, false
	}
	return int(min(uint64(limit.Cur), 1<<30)), true //nolint:unconvert // it is signed on FreeBSD
}
