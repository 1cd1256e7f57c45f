package logical

import "time"

// repeatEvery is how often an error that stays is said again.
const repeatEvery = 30 * time.Second

// repeatedError keeps a log from being flooded: an error is said at once, and while the same one
// repeats, every 30 seconds with a count.
type repeatedError struct {
	text  string
	since time.Time // when it was last said
	n     int       // since the last success
}

// repeats counts an error and reports whether to say it.
func (r *repeatedError) repeats(text string, now time.Time) (n int, say bool) {
	r.n++
	if say = text != r.text || now.Sub(r.since) >= repeatEvery; say {
		r.text, r.since = text, now
	}
	return r.n, say
}

// reset returns how many errors there were since the last success.
func (r *repeatedError) reset() int {
	n := r.n
	*r = repeatedError{}
	return n
}
