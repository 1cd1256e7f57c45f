package meter

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// classes is how many classes of errors there are.
const classes = int(logical.ClassUnknownCommit) + 1

// A Meter counts for one loop.
type Meter struct {
	sourceTxs, sourceRollbacks, reconnects, commits, rollbacks, fences atomic.Int64

	failures   [classes]atomic.Int64
	lastCommit atomic.Int64 // nanoseconds since the Unix epoch
	rows       *histogram
	seconds    *histogram
}

// Figures are what a Meter has counted since it was made.
type Figures struct {
	// SourceTransactions were read to their end, again after a rollback included.
	SourceTransactions int64
	// SourceRollbacks is how often what was read and had not landed was given up.
	SourceRollbacks int64
	// Reconnects is how often reading the source ended.
	Reconnects int64
	// Commits are target transactions that were committed, Rollbacks those that were given up.
	Commits, Rollbacks int64
	// Fences is how often older transactions of the loop were fenced.
	Fences int64
	// Failures of calls at the target, by class.
	Failures map[logical.Class]int64
	// LastCommit is when the target last committed; zero if never.
	LastCommit time.Time
	// Rows is how many mutations target transactions carried that were committed, and Seconds how long
	// they took from begin to commit.
	Rows, Seconds Histogram
}

// New returns a Meter at zero.
func New() *Meter {
	return &Meter{
		rows:    newHistogram(1, 10, 100, 500, 1000, 2000, 4000, 8000, 16_000, 100_000),
		seconds: newHistogram(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 30),
	}
}

// Figures returns what has been counted.
func (m *Meter) Figures() Figures {
	f := Figures{
		SourceTransactions: m.sourceTxs.Load(), SourceRollbacks: m.sourceRollbacks.Load(), Reconnects: m.reconnects.Load(),
		Commits: m.commits.Load(), Rollbacks: m.rollbacks.Load(), Fences: m.fences.Load(),
		Failures: map[logical.Class]int64{}, Rows: m.rows.read(), Seconds: m.seconds.read(),
	}
	if at := m.lastCommit.Load(); at != 0 {
		f.LastCommit = time.Unix(0, at)
	}
	for class := range m.failures {
		f.Failures[logical.Class(class)] = m.failures[class].Load()
	}
	return f
}

// failed counts an error of a call, unless its caller gave it up. A call that took too long is a failure.
func (m *Meter) failed(err, gaveUp error) error {
	if err != nil && !errors.Is(gaveUp, context.Canceled) {
		m.failures[min(int(logical.ClassOf(err)), classes-1)].Add(1)
	}
	return err
}
