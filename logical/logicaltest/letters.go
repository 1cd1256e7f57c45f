package logicaltest

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

func (s *suite) deadLetters(t *testing.T) {
	target := s.open(t)
	ctx := testContext(t)
	session := s.take(t, target, "letters")
	store, ok := target.(logical.DeadLetters)
	if !ok {
		t.Skip("the target keeps no dead letters")
	}
	letters := []logical.DeadLetter{
		{
			Stamp: json.RawMessage(`{"seq":1}`), Position: 3, Table: "s.cpu", Key: []byte{0, 1, 255}, Op: logical.OpPatch,
			Payload: []byte("cpu v=1i 1\x00"), Reason: "no\x01 \xff fit", Time: time.Unix(5, 6000).UTC(),
		},
		{Table: "mem", Op: logical.OpUpsert, Reason: "too wide"},
	}
	for i, commit := range []bool{false, true, true} {
		tx, err := session.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for k := range letters {
			letters[k].Payload = append(letters[k].Payload, byte(i))
		}
		if err := tx.SetAside(ctx, letters); err != nil {
			t.Fatal(err)
		}
		if commit {
			err = tx.Commit(ctx)
		} else {
			err = tx.Rollback(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, size, err := store.CountDeadLetters(ctx, "letters"); err != nil || n != int64(2*i) || (size > 0) != (i > 0) {
			t.Fatalf("%d letters of %d bytes after %d commits, error %v", n, size, i, err)
		}
	}
	list, err := store.ListDeadLetters(ctx, "letters", 0, 3)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d letters, error %v", len(list), err)
	}
	got := list[0]
	if got.Loop != "letters" || string(got.Stamp) != `{"seq":1}` || got.Position != 3 || got.Table != "s.cpu" || !bytes.Equal(got.Key, letters[0].Key) ||
		got.Op != logical.OpPatch || string(got.Payload) != "cpu v=1i 1\x00\x00\x01" || got.Reason == "" || !got.Time.Equal(letters[0].Time) {
		t.Errorf("got %+v", got)
	}
	if list[1].Time.IsZero() || list[2].ID <= list[1].ID {
		t.Errorf("got %+v", list)
	}
	more, err := store.ListDeadLetters(ctx, "letters", list[2].ID, 10)
	if err != nil || len(more) != 1 {
		t.Errorf("%d letters after the third, error %v", len(more), err)
	}
	if err := store.DiscardDeadLetters(ctx, "letters", []int64{list[0].ID, list[2].ID}); err != nil {
		t.Fatal(err)
	}
	if n, _, err := store.CountDeadLetters(ctx, "letters"); err != nil || n != 2 {
		t.Errorf("%d letters are left, error %v", n, err)
	}
	if n, _, err := store.CountDeadLetters(ctx, "nobody"); err != nil || n != 0 {
		t.Errorf("an unknown loop has %d letters, error %v", n, err)
	}
}

// lettersOnce: what is set aside again, as after a commit whose outcome was not known, is kept once.
func (s *suite) lettersOnce(t *testing.T) {
	target := s.open(t)
	ctx := testContext(t)
	store, ok := target.(logical.DeadLetters)
	if !ok {
		t.Skip("the target keeps no dead letters")
	}
	session, other := s.take(t, target, "once"), s.take(t, target, "other")
	letter := logical.DeadLetter{
		Stamp: json.RawMessage(`{"seq":1}`), Table: "cpu", Key: []byte{1}, Op: logical.OpPatch, Payload: []byte("v=1"), Reason: "no",
	}
	again := letter
	again.Reason, again.Time = "still no", time.Unix(9, 0)
	letters := []logical.DeadLetter{letter, letter, {Reason: "nothing else"}, {Reason: "the same"}}
	for i := range 6 { // each differs from the first in one place
		l := letter
		switch i {
		case 0:
			l.Stamp = json.RawMessage(`{"seq":2}`)
		case 1:
			l.Table = "mem"
		case 2:
			l.Key = nil
		case 3:
			l.Key, l.Payload = []byte{1, 'v'}, []byte("=1")
		case 4: // a row that goes from one state to another and back, in one transaction
			l.Position = 1
		case 5:
			l.Position = 2
		}
		letters = append(letters, l)
	}
	const distinct = 8
	for _, list := range [][]logical.DeadLetter{letters, {again}, letters} {
		s.setAside(t, session, list...)
		if n, _, err := store.CountDeadLetters(ctx, "once"); err != nil || n != distinct {
			t.Fatalf("%d letters are kept, want %d, error %v", n, distinct, err)
		}
	}
	s.setAside(t, other, letter)
	if n, _, err := store.CountDeadLetters(ctx, "other"); err != nil || n != 1 {
		t.Errorf("%d letters of another loop are kept, error %v", n, err)
	}
	// What was discarded may come back.
	list, err := store.ListDeadLetters(ctx, "once", 0, 1)
	if err != nil || len(list) != 1 || list[0].Reason != "no" {
		t.Fatalf("the first letter is %+v, error %v", list, err)
	}
	if err := store.DiscardDeadLetters(ctx, "once", []int64{list[0].ID}); err != nil {
		t.Fatal(err)
	}
	s.setAside(t, session, again)
	if n, _, err := store.CountDeadLetters(ctx, "once"); err != nil || n != distinct {
		t.Errorf("%d letters are kept, want %d, error %v", n, distinct, err)
	}
}

func (s *suite) setAside(t testing.TB, session logical.Session, letters ...logical.DeadLetter) {
	t.Helper()
	ctx := testContext(t)
	tx, err := session.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.SetAside(ctx, letters); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}

// takeBack: letters go with the transaction that applies their mutations, or stay.
func (s *suite) takeBack(t *testing.T) {
	target := s.open(t)
	ctx := testContext(t)
	store, ok := target.(logical.DeadLetters)
	if !ok {
		t.Skip("the target keeps no dead letters")
	}
	session, other := s.take(t, target, "back"), s.take(t, target, "other")
	var letters []logical.DeadLetter
	for i := range 5 {
		letters = append(letters, logical.DeadLetter{Table: "count", Op: logical.OpPatch, Payload: []byte{byte(i)}, Reason: "no"})
	}
	s.setAside(t, session, letters...)
	s.setAside(t, other, letters...)
	list, err := store.ListDeadLetters(ctx, "back", 0, 10)
	if err != nil || len(list) != 5 {
		t.Fatalf("%d letters, error %v", len(list), err)
	}
	rel := count()
	if err := session.Prepare(ctx, []*logical.Relation{rel}); err != nil {
		t.Fatal(err)
	}
	for _, commit := range []bool{false, true} {
		tx, err := session.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		late := Point(rel, 1, 1, logical.Int64(1))
		late.Op = logical.OpFill
		if err := tx.Apply(ctx, []logical.Mutation{late}); err != nil {
			t.Fatal(err)
		}
		if err := tx.TakeBack(ctx, []int64{list[1].ID, list[3].ID, 1 << 40}); err != nil {
			t.Fatal(err)
		}
		if err := tx.TakeBack(ctx, nil); err != nil {
			t.Fatal(err)
		}
		want := 5
		if commit {
			err, want = tx.Commit(ctx), 3
		} else {
			err = tx.Rollback(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		left, err := store.ListDeadLetters(ctx, "back", 0, 10)
		if err != nil || len(left) != want || len(s.opts.Read(t, target, rel)) != (5-want)/2 {
			t.Fatalf("committed %v: %d letters are left, error %v", commit, len(left), err)
		}
		if commit && (left[0].ID != list[0].ID || left[1].ID != list[2].ID || left[2].ID != list[4].ID) {
			t.Errorf("others are left: %+v", left)
		}
	}
	// Nobody takes the letters of another loop.
	tx, err := session.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := store.ListDeadLetters(ctx, "other", 0, 1)
	if err != nil || len(theirs) != 1 {
		t.Fatal(len(theirs), err)
	}
	if err := tx.TakeBack(ctx, []int64{theirs[0].ID}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if n, _, err := store.CountDeadLetters(ctx, "other"); err != nil || n != 5 {
		t.Errorf("%d letters of another loop are left, want 5, error %v", n, err)
	}
}

// lettersRenewed: one that is rejected once more is taken back and set aside in one transaction, and stays, with its
// new reason.
func (s *suite) lettersRenewed(t *testing.T) {
	target := s.open(t)
	ctx := testContext(t)
	store, ok := target.(logical.DeadLetters)
	if !ok {
		t.Skip("the target keeps no dead letters")
	}
	session := s.take(t, target, "renewed")
	first := logical.DeadLetter{Table: "count", Op: logical.OpPatch, Payload: []byte("a"), Reason: "no"}
	second := first
	second.Payload = []byte("b")
	s.setAside(t, session, first, second)
	list, err := store.ListDeadLetters(ctx, "renewed", 0, 10)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d letters, error %v", len(list), err)
	}
	renewed := first
	renewed.Reason = "still no"
	for _, commit := range []bool{false, true} {
		tx, err := session.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.TakeBack(ctx, []int64{list[0].ID}); err != nil {
			t.Fatal(err)
		}
		if err := tx.SetAside(ctx, []logical.DeadLetter{renewed}); err != nil {
			t.Fatal(err)
		}
		if commit {
			err = tx.Commit(ctx)
		} else {
			err = tx.Rollback(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		left, err := store.ListDeadLetters(ctx, "renewed", 0, 10)
		if err != nil || len(left) != 2 {
			t.Fatalf("committed %v: %d letters are left, want 2, error %v", commit, len(left), err)
		}
		anew := slices.ContainsFunc(left, func(l logical.DeadLetter) bool {
			return bytes.Equal(l.Payload, renewed.Payload) && l.Reason == renewed.Reason
		})
		if anew != commit {
			t.Errorf("committed %v: the letters are %+v", commit, left)
		}
	}
}
