package fan

import (
	"sync"
	"time"
)

// A tuner chooses how many rows a batch may have. All shards of a fan share one: they write to one target, so what
// one of them finds out is true for all. It measures the rate over several batches, and then looks at twice as many
// rows, which are kept if that is faster, or at half as many, which are kept if that is no slower: small batches
// take less memory, and less is to be done again when one fails. It looks again now and then, because a target
// changes. Its methods may be called concurrently; it has no clock of its own.
type tuner struct {
	mu    sync.Mutex
	limit int // rows of the next batch
	base  tunerRate
	probe probe // what limit is at present
	next  probe // what is looked at next
	rest  int   // full batches until then
	now   tunerRate
}

// A probe is what a limit is in relation to the one that was settled on.
type probe uint8

const (
	current probe = iota // it is that
	larger               // it is twice as large
	smaller              // it is half as large
)

// tunerRate is what some batches achieved.
type tunerRate struct {
	batches, rows int
	took          time.Duration
}

func (r tunerRate) perSecond() float64 {
	return float64(r.rows) / max(r.took, measured*time.Duration(r.batches)).Seconds()
}

const (
	firstRows = 2048             // the limit that a fan starts with
	leastRows = 16               // and that it never goes below
	window    = 4                // batches that are measured together
	gain      = 1.05             // a larger limit is kept if the rate grew by this factor
	loss      = 0.98             // and a smaller one if it did not fall below this
	slowBatch = 2 * time.Second  // batches that take longer are made smaller at once
	steady    = 64               // full batches after which it looks again
	measured  = time.Microsecond // shorter batches cannot be measured
)

// newTuner returns a tuner that begins with a limit, or with the usual one if it is 0.
func newTuner(limit int) *tuner {
	if limit <= 0 {
		limit = firstRows
	}
	return &tuner{limit: limit, next: larger}
}

// rows returns how many rows the next batch may have, given the most that is allowed.
func (t *tuner) rows(most int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(t.limit, most)
}

// settledOn returns the limit that was worth it so far.
func (t *tuner) settledOn() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch t.probe {
	case larger:
		return t.limit / 2
	case smaller:
		return t.limit * 2
	}
	return t.limit
}

// observe takes how long a batch of n rows took. Batches that were not full say nothing about
// whether larger ones would be faster.
func (t *tuner) observe(n int, took time.Duration, most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := min(t.limit, most)
	switch {
	case took > slowBatch && n > leastRows:
		if n/2 < limit {
			t.settle(max(leastRows, n/2), smaller, 0)
		}
		return
	case n != limit: // not full, or begun before the limit changed
		return
	}
	t.now.batches++
	t.now.rows += n
	t.now.took += took
	if t.now.batches < window {
		return
	}
	t.decide(limit, most)
	t.now = tunerRate{}
}

// decide goes by what the last batches achieved.
func (t *tuner) decide(limit, most int) {
	rate := t.now.perSecond()
	switch {
	case t.probe == larger && rate < t.base.perSecond()*gain:
		t.settle(limit/2, smaller, 0)
	case t.probe == smaller && rate < t.base.perSecond()*loss:
		t.settle(min(2*limit, most), larger, steady)
	case t.probe != current: // it was worth it, and more of it may be
		same := t.probe
		t.settle(limit, same, 0)
		t.base = t.now
		t.look(limit, most)
	default:
		if t.base = t.now; t.rest > 0 {
			t.rest -= window
			return
		}
		t.look(limit, most)
	}
}

// look tries what is next.
func (t *tuner) look(limit, most int) {
	switch {
	case t.next == larger && limit < most:
		t.limit, t.probe = min(2*limit, most), larger
	case t.next == smaller && limit > leastRows:
		t.limit, t.probe = max(leastRows, limit/2), smaller
	case t.next == larger:
		t.settle(limit, smaller, 0)
	default:
		t.settle(limit, larger, steady)
	}
}

// settle stays at a limit for a number of full batches.
func (t *tuner) settle(limit int, next probe, rest int) {
	t.limit, t.probe, t.next, t.rest, t.base, t.now = limit, current, next, rest, tunerRate{}, tunerRate{}
}
