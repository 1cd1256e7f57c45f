package logicaltest

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A Source is what a dialect under test reads. It changes only when Add is called.
type Source struct {
	// Transactions is how many transactions a dialect commits that reads the source from its beginning,
	// those of a backfill included. Give at least five, and some with several mutations.
	Transactions int
	// Open makes a dialect that reads the source, as another process would that is started after the one
	// before has ended. If it is an io.Closer, the suite closes it.
	Open func(t testing.TB) logical.Dialect
	// Add adds one transaction to the source while it is read. It may be nil if that cannot be done.
	Add func(t testing.TB)
}

// RunDialect runs the suite: what [logical.Dialect] and the interfaces beside it promise, as far as the
// dialect implements them. Each test makes a source of its own.
func RunDialect(t *testing.T, source func(t testing.TB) Source) {
	t.Helper()
	for _, law := range dialectLaws {
		t.Run(law.name, func(t *testing.T) {
			t.Parallel()
			law.check(&reading{TB: t, source: source(t)})
		})
	}
}

// A law is one thing that dialects promise.
type law struct {
	name  string
	check func(r *reading)
}

var dialectLaws = []law{
	{"StampsGrowAndSurviveBeingStored", (*reading).stamps},
	{"StoredRubbishIsAnError", (*reading).rubbish},
	{"MutationsAreWellFormed", (*reading).wellFormed},
	{"WhatWasHandedOverIsNotChanged", (*reading).ownership},
	{"ReadingResumesAfterAnyStamp", (*reading).resumes},
	{"RollbackAnywhereLosesAndRepeatsNothing", (*reading).rollbacks},
	{"ErrorsOfEventsAreReturned", (*reading).eventErrors},
	{"EndsWithItsContext", (*reading).ends},
	{"FollowsItsSource", (*reading).follows},
	{"StalenesserKnowsWhatWaits", (*reading).staleness},
	{"AcknowledgingLosesNothing", (*reading).acknowledges},
	{"BackfillEndsAndResumes", (*reading).backfills},
	{"LeaseIsHeldByOne", (*reading).leases},
}

// A reading is one test of the suite.
type reading struct {
	testing.TB
	source Source
}

// patience is how long is waited for what should happen at once.
func (r *reading) patience() time.Duration {
	if impatient, ok := r.TB.(interface{ patience() time.Duration }); ok {
		return impatient.patience()
	}
	return 30 * time.Second
}

// context ends a test that hangs.
func (r *reading) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 4*r.patience())
	r.Cleanup(cancel)
	return ctx
}

// open opens a dialect until the end of the test, or until the returned function is called.
func (r *reading) open() (logical.Dialect, func()) {
	r.Helper()
	d := r.source.Open(r)
	closed := false
	end := func() {
		if closer, ok := d.(io.Closer); ok && !closed {
			closed = true
			if err := closer.Close(); err != nil {
				r.Errorf("closing the dialect: %v", err)
			}
		}
	}
	r.Cleanup(end)
	return d, end
}

// whole reads the source from its beginning with a dialect of its own.
func (r *reading) whole() history {
	r.Helper()
	if r.source.Transactions < 5 {
		r.Fatalf("the source has %d transactions; give at least 5", r.source.Transactions)
	}
	d, end := r.open()
	defer end()
	p := r.play(d, d.ZeroStamp())
	p.until(r.source.Transactions)
	return p.txs
}
