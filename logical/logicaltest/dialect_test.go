package logicaltest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A shelf is a source: transactions of up to three rows each, a message for each row.
type shelf struct {
	over  chan struct{}
	fault string // what its dialects do wrong; see TestBrokenDialectsAreFound

	mu       sync.Mutex
	changed  chan struct{}
	n        int // transactions
	lent     bool
	snapshot int // how many of them are in the snapshot
}

func newShelf(fault string) *shelf {
	return &shelf{over: make(chan struct{}), fault: fault, n: 12, snapshot: 6, changed: make(chan struct{})}
}

func (s *shelf) source() Source {
	return Source{Transactions: s.n, Open: func(testing.TB) logical.Dialect { return &reader{shelf: s} }, Add: s.add}
}

func (s *shelf) add(testing.TB) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.tell()
}

func (s *shelf) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// rows is how many a transaction has.
func rows(n int) int { return n % 4 }

type spot struct {
	N  int       `json:"n"`
	At time.Time `json:"at,omitzero"`
}

func (s spot) Compare(other logical.Stamp) int { return cmp.Compare(s.N, other.(spot).N) }
func (s spot) Time() time.Time                 { return s.At }

type reader struct {
	*shelf
	rel     *logical.Relation
	scratch []byte
}

// page is a part of a transaction: its row, or its end.
type page struct{ n, row int }

func (r *reader) wrong(fault string) bool { return r.fault == fault }

func (r *reader) ZeroStamp() logical.Stamp { return spot{} }

func (r *reader) DecodeStamp(stored []byte) (logical.Stamp, error) {
	var s spot
	err := json.Unmarshal(stored, &s)
	switch {
	case r.wrong("reads rubbish as a stamp"):
		err = nil
	case r.wrong("forgets the position when it is stored"):
		s.N = 0
	case r.wrong("forgets the time when it is stored"):
		s.At = time.Time{}
	}
	return s, err
}

func (r *reader) stamp(n int) spot { return spot{n, time.Unix(int64(1000+n), 0).UTC()} }

func (r *reader) BackfillInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	if r.wrong("begins the backfill anew") {
		from = spot{}
	}
	if err := r.send(ctx, from.(spot).N+1, r.snapshot, out); err != nil {
		return err
	}
	if r.wrong("never ends the backfill") {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return nil
}

func (r *reader) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	n := from.(spot).N + 1
	switch {
	case r.wrong("skips one when it resumes") && n > 1:
		n++
	case r.wrong("repeats one when it resumes") && n > 1:
		n--
	case r.wrong("leaves a goroutine behind"):
		go func() { <-r.over }()
	}
	for ; ; n++ {
		r.mu.Lock()
		all, changed := r.n, r.changed
		r.mu.Unlock()
		if n <= all {
			if err := r.send(ctx, n, n, out); err != nil {
				return err
			}
			continue
		}
		n--
		if r.wrong("returns at the end") {
			return nil
		}
		if r.wrong("does not look for more") {
			changed = nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *reader) send(ctx context.Context, from, to int, out logical.Outbox) error {
	for n := from; n <= to; n++ {
		for row := 0; row <= rows(n); row++ {
			if err := out.Send(ctx, logical.Message{Body: page{n, row}, Size: 16}); err != nil {
				return err
			}
			runtime.Gosched()
		}
	}
	return nil
}

func (r *reader) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	open := false
	for {
		msg, err := in.Receive(ctx)
		switch {
		case err != nil:
		case msg.Rollback && r.wrong("ignores a rollback"):
		case msg.Rollback:
			open = open && r.wrong("remembers what was rolled back")
			err = events.OnRollback(ctx)
		default:
			p := msg.Body.(page)
			if !open {
				open = true
				if err = events.OnBegin(ctx, r.position(p.n)); err != nil {
					break
				}
			}
			if p.row < rows(p.n) {
				err = events.OnData(ctx, []logical.Mutation{r.mutation(p)})
				break
			}
			open = false
			err = events.OnCommit(ctx)
		}
		if err != nil && r.wrong("hides errors") {
			return errors.New("something went wrong")
		}
		if err != nil {
			return err
		}
	}
}

func (r *reader) position(n int) logical.Stamp {
	if r.wrong("counts in circles") {
		return r.stamp(n % 5)
	}
	return r.stamp(n)
}

func (r *reader) mutation(p page) logical.Mutation {
	if r.rel == nil || r.wrong("makes a relation for each row") {
		r.rel = &logical.Relation{Name: "pages", Columns: []logical.Column{{Name: "id", Kind: logical.KindInt64, Key: true}, {Name: "v", Kind: logical.KindText}}}
	}
	text := fmt.Appendf(nil, "%03d/%d", p.n, p.row)
	if r.wrong("uses its memory again") {
		r.scratch = append(r.scratch[:0], text...)
		text = r.scratch
	}
	m := logical.Mutation{Op: logical.OpUpsert, Relation: r.rel, Values: []logical.Value{logical.Int64(int64(p.row)), logical.TextBytes(text)}}
	switch {
	case r.wrong("sends rows without a key"):
		m.Values[0] = logical.Null()
	case r.wrong("sends another kind than it declares"):
		m.Values[1] = logical.Int64(1)
	}
	return m
}

func (r *reader) OldestPending(after logical.Stamp) (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := after.(spot).N
	if n >= r.n || r.wrong("says that nothing waits") {
		return time.Time{}, true
	}
	return r.stamp(n + 1).At, true
}

func (r *reader) Newest() (logical.Stamp, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stamp(r.n), true
}

func (r *reader) Acknowledge(_ context.Context, stamp logical.Stamp) error {
	if r.wrong("forgets more than was acknowledged") {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.fault = "skips one when it resumes"
	}
	return nil
}

func (r *reader) Acquire(ctx context.Context, _ string) (logical.Lease, error) {
	for {
		r.mu.Lock()
		changed, free := r.changed, !r.lent || r.wrong("lends to two")
		if free {
			r.lent = true
			r.mu.Unlock()
			return lent{r.shelf}, nil
		}
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

type lent struct{ *shelf }

func (lent) Lost() <-chan struct{} { return nil }

func (l lent) Release(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lent = false
	l.tell()
	return nil
}

func TestDialectSuitePasses(t *testing.T) {
	t.Parallel()
	RunDialect(t, func(testing.TB) Source { return newShelf("").source() })
}

// TestBrokenDialectsAreFound shows that each law can be broken, and that this is seen.
func TestBrokenDialectsAreFound(t *testing.T) {
	t.Parallel()
	for fault, law := range map[string]string{
		"reads rubbish as a stamp":               "StoredRubbishIsAnError",
		"forgets the position when it is stored": "StampsGrowAndSurviveBeingStored",
		"forgets the time when it is stored":     "StampsGrowAndSurviveBeingStored",
		"counts in circles":                      "StampsGrowAndSurviveBeingStored",
		"skips one when it resumes":              "ReadingResumesAfterAnyStamp",
		"repeats one when it resumes":            "ReadingResumesAfterAnyStamp",
		"ignores a rollback":                     "RollbackAnywhereLosesAndRepeatsNothing",
		"remembers what was rolled back":         "RollbackAnywhereLosesAndRepeatsNothing",
		"returns at the end":                     "EndsWithItsContext",
		"leaves a goroutine behind":              "EndsWithItsContext",
		"does not look for more":                 "FollowsItsSource",
		"hides errors":                           "ErrorsOfEventsAreReturned",
		"makes a relation for each row":          "MutationsAreWellFormed",
		"sends rows without a key":               "MutationsAreWellFormed",
		"sends another kind than it declares":    "MutationsAreWellFormed",
		"uses its memory again":                  "WhatWasHandedOverIsNotChanged",
		"says that nothing waits":                "StalenesserKnowsWhatWaits",
		"forgets more than was acknowledged":     "AcknowledgingLosesNothing",
		"begins the backfill anew":               "BackfillEndsAndResumes",
		"never ends the backfill":                "BackfillEndsAndResumes",
		"lends to two":                           "LeaseIsHeldByOne",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			for _, l := range dialectLaws {
				if l.name == law && !breaks(t, l, newShelf(fault)) {
					t.Errorf("%s does not see it", law)
				}
			}
		})
	}
}

// breaks reports whether the law finds a fault in the dialects of a source.
func breaks(t *testing.T, l law, s *shelf) bool {
	quiet := &mute{TB: t, limit: patienceWithBroken}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer quiet.cleanup()
		l.check(&reading{TB: quiet, source: s.source()})
	}()
	<-done
	close(s.over)
	return quiet.Failed()
}

// patienceWithBroken is short, because what is waited for never comes.
const patienceWithBroken = 500 * time.Millisecond

// mute is a test that may fail. Its patience is short.
type mute struct {
	testing.TB
	limit time.Duration

	mu       sync.Mutex
	failed   bool
	cleanups []func()
}

func (m *mute) fail() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = true
}

func (m *mute) Failed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

func (m *mute) Cleanup(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanups = append(m.cleanups, f)
}

func (m *mute) cleanup() {
	for _, f := range m.cleanups {
		f()
	}
}

func (m *mute) Error(...any)            { m.fail() }
func (m *mute) Errorf(string, ...any)   { m.fail() }
func (m *mute) Log(...any)              {}
func (m *mute) Logf(string, ...any)     {}
func (m *mute) Fatal(...any)            { m.fail(); runtime.Goexit() }
func (m *mute) Fatalf(string, ...any)   { m.fail(); runtime.Goexit() }
func (m *mute) patience() time.Duration { return m.limit }
