package logicaltest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// forget removes what is stored about one loop, and nothing of another one.
func (s *suite) forget(t *testing.T) {
	target := s.open(t)
	ctx := testContext(t)
	forgetter, ok := target.(logical.Forgetter)
	if !ok {
		t.Skip("the target stores nothing about loops")
	}
	claim := logical.Claim{Loop: "gone", Holder: "me", TTL: time.Minute}
	if err := forgetter.Forget(ctx, claim, false); err != nil {
		t.Fatalf("forgetting what is not known: %v", err)
	}
	memo := logical.MemoState{Point: json.RawMessage(`{"n":1}`), Mode: "serial"}
	old, err := target.Take(ctx, claim)
	if err != nil {
		t.Fatal(err)
	}
	kept := s.take(t, target, "kept")
	for _, session := range []logical.Session{old, kept} {
		tx, err := session.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.SetMemo(ctx, memo); err != nil {
			t.Fatal(err)
		}
		if err := tx.SetAside(ctx, []logical.DeadLetter{{Table: "m", Op: logical.OpUpsert, Payload: []byte("m v=1"), Reason: "no"}}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(ctx); err != nil {
			t.Fatal(err)
		}
	}
	late, err := old.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	later, err := old.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := forgetter.Forget(ctx, claim, true); err != nil {
		t.Fatal(err)
	}
	if store, ok := target.(logical.DeadLetters); ok {
		if n, _, err := store.CountDeadLetters(ctx, "gone"); err != nil || n != 1 {
			t.Errorf("%d letters, %v; want the one that is to be kept", n, err)
		}
	}
	if err := forgetter.Forget(ctx, claim, false); err != nil {
		t.Fatal(err)
	}
	if err = late.SetMemo(ctx, memo); err == nil {
		err = late.Commit(ctx)
	}
	_ = late.Rollback(ctx) // after an error
	wantFenced(t, "a transaction of a loop that was forgotten", err)

	for name, want := range map[string]int64{"gone": 0, "kept": 1} {
		if store, ok := target.(logical.DeadLetters); ok {
			if n, _, err := store.CountDeadLetters(ctx, name); err != nil || n != want {
				t.Errorf("%d letters of loop %s, %v; want %d", n, name, err, want)
			}
		}
	}
	s.sameMemo(t, kept, memo)
	again := s.take(t, target, "gone")
	if state, err := again.LoadMemo(ctx); err != nil || state.Point != nil {
		t.Errorf("the memo of the loop that was forgotten is %+v, %v", state, err)
	}
	// If epochs began anew with each loop of the name, that of the first session would come back with one of these.
	for range 3 {
		if err = later.SetMemo(ctx, memo); err == nil {
			err = later.Commit(ctx)
		}
		_ = later.Rollback(ctx) // after an error
		wantFenced(t, "a transaction of a loop that was forgotten, and is there again", err)
		if later, err = old.Begin(ctx); err != nil {
			break // which it may say at once
		}
		again = s.take(t, target, "gone")
	}
	if err == nil {
		_ = later.Rollback(ctx) // it has done nothing
	}
	if state, err := again.LoadMemo(ctx); err != nil || state.Point != nil {
		t.Errorf("late transactions left the memo %+v, %v", state, err)
	}
}
