package fan

import "time"

// A tuner chooses how many rows a batch may have. It doubles the number while that makes the target
// faster, goes back when it made it slower, and looks again now and then, because a target changes.
// It is a pure state machine.
type tuner struct {
	limit int     // rows of the next batch
	rate  float64 // rows per second at the last limit that was worth it; 0 if there was none
	full  int     // full batches since the limit was changed
	probe bool    // the limit was doubled, and it is not known yet whether that was right
}

const (
	firstRows = 512              // the limit that a shard starts with: twice that is where PostgreSQL's COPY pays
	leastRows = 16               // and that it never goes below
	gain      = 1.05             // a doubling is kept if the rate grew by this factor
	slowBatch = 2 * time.Second  // batches that take longer are made smaller
	steady    = 64               // full batches after which a larger limit is tried again
	measured  = time.Microsecond // shorter batches cannot be measured
)

// rows returns how many rows the next batch may have, given the most that is allowed.
func (t *tuner) rows(most int) int {
	if t.limit == 0 {
		t.limit = firstRows
	}
	return min(t.limit, most)
}

// observe takes how long a batch of n rows took. Batches that were not full say nothing about
// whether larger ones would be faster.
func (t *tuner) observe(n int, took time.Duration, most int) {
	switch {
	case took > slowBatch && n > leastRows:
		t.set(max(leastRows, n/2), 0)
		return
	case n < t.rows(most):
		return
	}
	rate := float64(n) / max(took, measured).Seconds()
	t.full++
	t.limit = min(t.limit, most)
	switch larger := min(2*t.limit, most); {
	case t.probe && rate < t.rate*gain:
		t.set(max(leastRows, t.limit/2), t.rate)
	case t.rate != 0 && !t.probe && t.full < steady:
	case larger > t.limit:
		t.set(larger, rate)
		t.probe = true
	default:
		t.set(t.limit, rate)
	}
}

func (t *tuner) set(limit int, rate float64) {
	t.limit, t.rate, t.full, t.probe = limit, rate, 0, false
}
