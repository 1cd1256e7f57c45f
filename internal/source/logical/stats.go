package logical

import (
	"maps"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/mode"
)

// Stats is a loop's status, and what it has counted since it was made.
type Stats struct {
	Status
	// InMode is the time that was spent in each mode.
	InMode map[mode.Mode]time.Duration
	// Switches of the mode, by reason.
	Switches map[mode.Reason]int64
	// SerialTooSlow says that serial mode cannot keep up with the source.
	SerialTooSlow bool
	// Transactions of the source that have landed.
	Transactions int64
	// LeasesLost is how often the lease was lost.
	LeasesLost int64
	// BytesInFlight is what was read and has not landed, and BudgetWaits how often reading had to wait for it.
	BytesInFlight, BudgetWaits int64
}

// counts are what a loop counts, under its lock.
type counts struct {
	inMode        map[mode.Mode]time.Duration
	modeSince     time.Time // zero before the first mode
	switches      map[mode.Reason]int64
	serialTooSlow bool
	txs           int64
	leasesLost    int64
}

func newCounts() counts {
	c := counts{inMode: map[mode.Mode]time.Duration{}, switches: map[mode.Reason]int64{mode.Stale: 0, mode.CaughtUp: 0}}
	for _, m := range mode.All() {
		c.inMode[m] = 0 // a series that is there from the start can be told from one that is missing
	}
	return c
}

// Stats returns what the loop has counted. Counters begin at zero when a loop is made.
func (l *Loop) Stats() Stats {
	status := l.Status()
	used, _, waits := l.budget.Usage()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Stats{
		Status: status, BytesInFlight: used, BudgetWaits: waits,
		InMode: maps.Clone(l.counts.inMode), Switches: maps.Clone(l.counts.switches),
		SerialTooSlow: l.counts.serialTooSlow, Transactions: l.counts.txs, LeasesLost: l.counts.leasesLost,
	}
	if !l.counts.modeSince.IsZero() {
		s.InMode[l.status.Mode] += time.Since(l.counts.modeSince)
	}
	return s
}

// count changes what is counted.
func (l *Loop) count(f func(*counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.counts)
}

// spend books the time that was spent in a mode, and begins with the next one. Callers hold mu.
func (c *counts) spend(in mode.Mode, now time.Time) {
	if !c.modeSince.IsZero() {
		c.inMode[in] += max(0, now.Sub(c.modeSince))
	}
	c.modeSince = now
}
