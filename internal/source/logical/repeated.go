package logical

import (
	"strings"
	"time"
)

// repeatEvery is how often a message that stays is said again.
const repeatEvery = 30 * time.Second

// maxRepeated bounds how many different messages are remembered.
const maxRepeated = 32

// repeated keeps a log from being flooded: a message is said at once, and while the same one repeats, every
// 30 seconds with a count. Messages that differ only in numbers (ports, counts, times) are the same.
type repeated struct {
	said map[string]time.Time
	n    int // since the last success, or since it was last said
}

// repeats counts n messages and reports whether to say this one, and how many there were.
func (r *repeated) repeats(text string, n int, now time.Time) (total int, say bool) {
	key := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, text)
	r.n += n
	if at, known := r.said[key]; known && now.Sub(at) < repeatEvery {
		return r.n, false
	}
	if r.said == nil || len(r.said) >= maxRepeated {
		r.said = map[string]time.Time{}
	}
	r.said[key] = now
	return r.n, true
}

// reset forgets everything, and returns how many messages there were.
func (r *repeated) reset() int {
	n := r.n
	*r = repeated{}
	return n
}
