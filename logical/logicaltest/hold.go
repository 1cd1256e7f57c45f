package logicaltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

func contextOf2Minutes() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*time.Minute)
}

// count is a measurement in which every transaction of these tests leaves a point.
func count() *logical.Relation { return Points("count", nil, Field("v", logical.KindInt64)) }

// memo: stored with the data or not at all; none for a loop that nobody knows.
func (s *suite) memo(t *testing.T) {
	target := s.open(t)
	ctx := testContext(t)
	session := s.take(t, target, "memo")
	if state, err := session.LoadMemo(ctx); err != nil || state.Point != nil || !state.PointTime.IsZero() {
		t.Fatalf("an unknown loop has the memo %+v, error %v", state, err)
	}
	rel := count()
	if err := session.Prepare(ctx, []*logical.Relation{rel}); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 891_000, time.UTC)
	for i := range 6 {
		tx, err := session.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		state := logical.MemoState{
			Point: json.RawMessage(fmt.Sprintf(`{"queue": "q", "seq": %d}`, i)), PointTime: at.Add(time.Duration(i) * time.Second),
			Mode: "serial", ConsistentSince: at, Skip: i,
		}
		if err := tx.Apply(ctx, []logical.Mutation{Point(rel, int64(i), 1, logical.Int64(1))}); err != nil {
			t.Fatal(err)
		}
		if err := tx.SetMemo(ctx, state); err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			if err := tx.Rollback(ctx); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		s.sameMemo(t, session, state)
		if rows := s.opts.Read(t, target, rel); len(rows) != i/2+1 {
			t.Fatalf("%d rows after %d transactions", len(rows), i/2+1)
		}
	}
	saved := logical.MemoState{Point: json.RawMessage(`[1,"x"]`), Mode: "backfill"}
	if err := session.SaveMemo(ctx, saved); err != nil {
		t.Fatal(err)
	}
	s.sameMemo(t, session, saved)
	// A successor, from what is stored.
	other := s.opts.Another(t, target)
	defer func() { _ = other.Close() }()
	s.sameMemo(t, s.take(t, other, "memo"), saved)
	if state, err := s.take(t, other, "another").LoadMemo(ctx); err != nil || state.Point != nil {
		t.Errorf("another loop has the memo %+v, error %v", state, err)
	}
}

func (s *suite) sameMemo(t testing.TB, session logical.Session, want logical.MemoState) {
	t.Helper()
	got, err := session.LoadMemo(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	if json.Compact(&a, got.Point) != nil || json.Compact(&b, want.Point) != nil || a.String() != b.String() ||
		!got.PointTime.Equal(want.PointTime) || got.Mode != want.Mode || !got.ConsistentSince.Equal(want.ConsistentSince) || got.Skip != want.Skip {
		t.Fatalf("the memo is %+v (%s), want %+v (%s)", got, got.Point, want, want.Point)
	}
}

// oldSession: after a takeover the predecessor can do nothing, with whatever it had begun.
func (s *suite) oldSession(t *testing.T) {
	target := s.open(t)
	other := s.opts.Another(t, target)
	defer func() { _ = other.Close() }()
	ctx := testContext(t)
	rel := count()
	old := s.take(t, target, "loop")
	apply(t, old, Point(rel, 1, 1, logical.Int64(1)))
	begun, err := old.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = begun.Rollback(ctx) }()
	young := s.take(t, other, "loop") // the same holder waits for nothing
	apply(t, young, Point(rel, 1, 1, logical.Int64(2)))

	late := func(tx logical.Tx) error {
		if err := tx.Apply(ctx, []logical.Mutation{Point(rel, 1, 1, logical.Int64(3))}); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	wantFenced(t, "a transaction begun before", late(begun))
	wantFenced(t, "a transaction begun after", Apply(ctx, old, Point(rel, 1, 1, logical.Int64(3))))
	wantFenced(t, "SaveMemo", old.SaveMemo(ctx, logical.MemoState{Point: json.RawMessage("3")}))
	_, err = old.LoadMemo(ctx)
	wantFenced(t, "LoadMemo", err)
	wantFenced(t, "Fence", old.Fence(ctx))
	select {
	case <-old.Lost():
	case <-ctx.Done():
		t.Error("the old session does not learn that it lost its lease")
	}
	if err := old.Release(ctx); err != nil {
		t.Errorf("release: %v", err)
	}
	select {
	case <-young.Lost():
		t.Error("the new session has lost its lease to the old one's release")
	default:
	}
	apply(t, young, Point(rel, 2, 1, logical.Int64(4)))
	m := model{}
	for _, mut := range []logical.Mutation{Point(rel, 1, 1, logical.Int64(2)), Point(rel, 2, 1, logical.Int64(4))} {
		m.apply(&mut)
	}
	s.check(t, target, m, rel)
	if state, err := young.LoadMemo(ctx); err != nil || state.Point != nil {
		t.Errorf("the memo is %s, error %v", state.Point, err)
	}
}

func wantFenced(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil || logical.ClassOf(err) != logical.ClassFenced {
		t.Errorf("%s: got %v, want an error of class fenced", what, err)
	}
}

// fence: waits for what has written, and keeps out what had not yet.
func (s *suite) fence(t *testing.T) {
	target := s.open(t)
	ctx := testContext(t)
	rel := count()
	session := s.take(t, target, "loop")
	if err := session.Prepare(ctx, []*logical.Relation{rel}); err != nil {
		t.Fatal(err)
	}
	early, err := session.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = early.Rollback(ctx) }()
	written, err := session.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := written.Apply(ctx, []logical.Mutation{Point(rel, 1, 1, logical.Int64(1))}); err != nil {
		t.Fatal(err)
	}
	fenced := make(chan error, 1)
	go func() { fenced <- session.Fence(ctx) }()
	commitErr := written.Commit(ctx) // whole, or, if the fence was faster, not at all
	if err := <-fenced; err != nil {
		t.Fatalf("fence: %v", err)
	}
	if rows := s.opts.Read(t, target, rel); (len(rows) == 1) != (commitErr == nil) {
		t.Errorf("commit returned %v, and there are %d rows", commitErr, len(rows))
	}
	err = early.Apply(ctx, []logical.Mutation{Point(rel, 2, 1, logical.Int64(2))})
	if err == nil {
		err = early.Commit(ctx)
	}
	wantFenced(t, "a transaction begun before the fence", err)
	apply(t, session, Point(rel, 3, 1, logical.Int64(3)))
	if err := session.SaveMemo(ctx, logical.MemoState{Point: json.RawMessage("3")}); err != nil {
		t.Errorf("the session is not usable after its own fence: %v", err)
	}
}

func (s *suite) lease(t *testing.T) {
	target := s.open(t)
	other := s.opts.Another(t, target)
	defer func() { _ = other.Close() }()
	ctx := testContext(t)
	first, err := target.Take(ctx, logical.Claim{Loop: "loop", Holder: "one", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	claim := logical.Claim{Loop: "loop", Holder: "two", TTL: time.Minute}
	if _, err := other.Take(short, claim); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("another holder got the lease, or: %v", err)
	}
	apply(t, first, Point(count(), 1, 1, logical.Int64(1)))
	if err := first.Release(ctx); err != nil {
		t.Fatal(err)
	}
	second, err := other.Take(ctx, claim)
	if err != nil {
		t.Fatal(err)
	}
	wantFenced(t, "the first holder", Apply(ctx, first, Point(count(), 1, 1, logical.Int64(1))))
	if err := second.Release(ctx); err != nil {
		t.Fatal(err)
	}
}

// vanished: a holder that closed its connections without a word is replaced, and not before its
// lease has run out.
func (s *suite) vanished(t *testing.T) {
	target := s.open(t)
	other := s.opts.Another(t, target)
	ctx := testContext(t)
	const ttl = 600 * time.Millisecond
	start := time.Now()
	if _, err := other.Take(ctx, logical.Claim{Loop: "loop", Holder: "one", TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	session, err := target.Take(ctx, logical.Claim{Loop: "loop", Holder: "two", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(start); waited < ttl*9/10 {
		t.Errorf("the lease of %s was taken over after %s", ttl, waited)
	}
	// A lease that is kept alive outlives its TTL.
	timer := time.NewTimer(2 * ttl)
	defer timer.Stop()
	select {
	case <-session.Lost():
		t.Error("the lease was lost although its session lives")
	case <-timer.C:
	}
	apply(t, session, Point(count(), 1, 1, logical.Int64(1)))
	if err := session.Release(ctx); err != nil {
		t.Fatal(err)
	}
}

// manyLoops: each with its own memo, all writing at once, some transactions open for long.
func (s *suite) manyLoops(t *testing.T) {
	target := s.open(t)
	ctx := testContext(t)
	const loops, transactions = 8, 10
	errs := make(chan error)
	for i := range loops {
		session := s.take(t, target, fmt.Sprintf("loop %d", i))
		go func() { errs <- s.loop(ctx, session, byte(i), transactions) }()
	}
	for range loops {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	m := model{}
	for i := range loops {
		for n := range transactions {
			for k := range 3 {
				mut := Point(count(), int64(3*n+k), byte(i), logical.Int64(int64(n)))
				m.apply(&mut)
			}
		}
	}
	s.check(t, target, m, count())
}

func (s *suite) loop(ctx context.Context, session logical.Session, series byte, transactions int) error {
	rel := count()
	if err := session.Prepare(ctx, []*logical.Relation{rel}); err != nil {
		return err
	}
	for n := range transactions {
		tx, err := session.Begin(ctx)
		if err != nil {
			return err
		}
		for k := range 3 {
			if err := tx.Apply(ctx, []logical.Mutation{Point(rel, int64(3*n+k), series, logical.Int64(int64(n)))}); err != nil {
				return err
			}
		}
		if err := tx.SetMemo(ctx, logical.MemoState{Point: json.RawMessage(fmt.Sprint(n))}); err != nil {
			return err
		}
		if err := tx.Commit(ctx); err != nil {
			return err
		}
		state, err := session.LoadMemo(ctx)
		if err != nil || string(state.Point) != fmt.Sprint(n) {
			return fmt.Errorf("the memo is %s, want %d, error %w", state.Point, n, err)
		}
	}
	return nil
}

func (s *suite) cancelled(t *testing.T) {
	target := s.open(t)
	ctx := testContext(t)
	rel := count()
	session := s.take(t, target, "loop")
	if err := session.Prepare(ctx, []*logical.Relation{rel}); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	tx, err := session.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Apply(ctx, []logical.Mutation{Point(rel, 1, 1, logical.Int64(1))}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Apply(gone, []logical.Mutation{Point(rel, 2, 1, logical.Int64(1))}); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply returned %v", err)
	}
	if err := tx.Commit(ctx); err == nil {
		t.Error("a transaction whose Apply failed was committed")
	}
	if err := tx.Rollback(gone); err != nil {
		t.Errorf("Rollback with a context that is done returned %v", err)
	}
	if _, err := session.LoadMemo(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("LoadMemo returned %v", err)
	}
	if _, err := target.Take(gone, logical.Claim{Loop: "x", Holder: "me"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Take returned %v", err)
	}
	apply(t, session, Point(rel, 3, 1, logical.Int64(3)))
	m := model{}
	mut := Point(rel, 3, 1, logical.Int64(3))
	m.apply(&mut)
	s.check(t, target, m, rel)
}

func (s *suite) closed(t *testing.T) {
	target := s.open(t)
	ctx := testContext(t)
	session := s.take(t, target, "loop")
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Errorf("the second Close returned %v", err)
	}
	if err := Apply(ctx, session, Point(count(), 1, 1, logical.Int64(1))); err == nil {
		t.Error("a closed target takes mutations")
	}
	if _, err := target.Take(ctx, logical.Claim{Loop: "x", Holder: "me"}); err == nil {
		t.Error("a closed target takes loops over")
	}
	if err := session.SaveMemo(ctx, logical.MemoState{}); err == nil {
		t.Error("a closed target stores memos")
	}
	_ = session.Release(ctx) // It may fail, and must return.
}
