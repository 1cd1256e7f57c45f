package logical

import "time"

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
