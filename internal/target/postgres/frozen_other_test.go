//go:build !linux

package postgres

// Stopping a process is tested on Linux alone.
const childDSN = "TAILRACE_TEST_CHILD_DSN"

func child() int { return 0 }
