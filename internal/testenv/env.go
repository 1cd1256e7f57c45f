package testenv

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// An Env holds the servers that the tests of one binary share. Its zero value is ready.
type Env struct {
	mu       sync.Mutex
	postgres *Postgres
	failed   error
}

// Main runs the tests, stops the shared servers, and looks for goroutines that were left behind. It
// returns the status to exit with.
func (e *Env) Main(m *testing.M) int {
	status := m.Run()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.postgres != nil {
		if err := e.postgres.shutdown(); err != nil {
			fmt.Fprintln(os.Stderr, "testenv:", err)
			status = max(status, 1)
		}
	}
	if status == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	return status
}

// Soak reports whether tests should run at full counts: TAILRACE_SOAK is set.
func Soak() bool { return os.Getenv("TAILRACE_SOAK") != "" }

// Count returns full in a soak, and otherwise reduced.
func Count(reduced, full int) int {
	if Soak() {
		return full
	}
	return reduced
}
