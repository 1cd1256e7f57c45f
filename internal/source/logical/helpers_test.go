package logical

import (
	"testing"
	"time"
)

// seeds calls f with many seeds, or with the one that was given.
func seeds(t *testing.T, reduced, full int, f func(t *testing.T, seed uint64)) {
	t.Helper()
	for _, seed := range seedList(reduced, full) {
		f(t, seed)
		if t.Failed() {
			t.Fatalf("replay with -seed %d", seed)
		}
	}
}

// until waits until the loop's status satisfies holds, for at most so long.
func until(l *Loop, within time.Duration, holds func(Status) bool) {
	limit := time.NewTimer(within)
	defer limit.Stop()
	for {
		changed := l.Changed()
		if holds(l.Status()) {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			return
		}
	}
}
