package memory

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"
	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	users = &logical.Relation{Schema: "public", Name: "users", Columns: []logical.Column{
		{Name: "id", Kind: logical.KindInt64, Key: true},
		{Name: "name", Kind: logical.KindText},
		{Name: "mail", Kind: logical.KindText},
	}}
	cpu = &logical.Relation{Name: "cpu", Points: true, Columns: []logical.Column{
		{Name: "time", Kind: logical.KindTime, Key: true, Role: logical.RoleTime},
		{Name: "usage", Kind: logical.KindFloat64, Role: logical.RoleField},
	}}
)

func user(op logical.Op, id int64, rest ...logical.Value) logical.Mutation {
	values := append([]logical.Value{logical.Int64(id)}, rest...)
	for len(values) < len(users.Columns) {
		values = append(values, logical.Value{})
	}
	return logical.Mutation{Op: op, Relation: users, Values: values}
}

func upsert(id int64, name, mail string) logical.Mutation {
	return user(logical.OpUpsert, id, logical.Text(name), logical.Text(mail))
}

func take(t *testing.T, target *Target, holder string) logical.Session {
	t.Helper()
	s, err := target.Take(t.Context(), logical.Claim{Loop: "l", Holder: holder, TTL: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Prepare(t.Context(), []*logical.Relation{users, cpu}); err != nil {
		t.Fatal(err)
	}
	return s
}

func begin(t *testing.T, s logical.Session) logical.Tx {
	t.Helper()
	x, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantClass(t *testing.T, err error, class logical.Class) {
	t.Helper()
	if err == nil || logical.ClassOf(err) != class {
		t.Fatalf("got %v, want an error of class %s", err, class)
	}
}

// run applies mutations in one transaction.
func run(t *testing.T, s logical.Session, muts ...logical.Mutation) {
	t.Helper()
	x := begin(t, s)
	must(t, x.Apply(t.Context(), muts))
	must(t, x.Commit(t.Context()))
}

// names returns the names of the users by id, with "-" for a null.
func names(target *Target) map[int64]string {
	found := map[int64]string{}
	tab := target.Snapshot().Tables["public.users"]
	for _, row := range tab.Rows {
		name := "-"
		if v := tab.Value(row, "name"); !v.IsNull() {
			name = v.Text()
		}
		found[row[0].Int64()] = name
	}
	return found
}

func wantNames(t *testing.T, target *Target, want map[int64]string) {
	t.Helper()
	got := names(target)
	if len(got) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for id, name := range want {
		if got[id] != name {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	target := Open(Config{})
	s := take(t, target, "me")
	run(t, s, upsert(1, "a", "x"), upsert(2, "b", "y"))
	wantNames(t, target, map[int64]string{1: "a", 2: "b"})

	run(t, s, user(logical.OpPatch, 1, logical.Text("A")), user(logical.OpPatch, 9, logical.Text("nobody")))
	wantNames(t, target, map[int64]string{1: "A", 2: "b"})
	tab := target.Snapshot().Tables["public.users"]
	for _, row := range tab.Rows {
		if row[0].Int64() == 1 && tab.Value(row, "mail").Text() != "x" {
			t.Error("a patch changed what it does not carry")
		}
	}

	run(t, s, user(logical.OpDelete, 2), user(logical.OpReplace, 1, logical.Value{}, logical.Text("z")))
	wantNames(t, target, map[int64]string{1: "-"})

	rekey := user(logical.OpRekey, 7, logical.Text("seven"))
	rekey.OldKey = []logical.Value{logical.Int64(1)}
	run(t, s, rekey)
	wantNames(t, target, map[int64]string{7: "seven"})
	run(t, s, rekey) // again, as after a crash
	wantNames(t, target, map[int64]string{7: "seven"})

	run(t, s, logical.Mutation{Op: logical.OpTruncate, Relation: users}, upsert(3, "c", "w"))
	wantNames(t, target, map[int64]string{3: "c"})

	point := logical.Mutation{Op: logical.OpPatch, Relation: cpu, Values: []logical.Value{logical.UnixNano(1), logical.Float64(2)}}
	run(t, s, point)
	if n := len(target.Snapshot().Tables["cpu"].Rows); n != 1 {
		t.Errorf("a patch of a point made %d rows", n)
	}
}

func TestAtomicCommit(t *testing.T) {
	t.Parallel()
	target := Open(Config{})
	s := take(t, target, "me")
	x := begin(t, s)
	must(t, x.Apply(t.Context(), []logical.Mutation{upsert(1, "a", "x")}))
	must(t, x.SetMemo(t.Context(), logical.MemoState{Point: []byte("1")}))
	must(t, x.SetAside(t.Context(), []logical.DeadLetter{{Loop: "l", Reason: "no"}}))
	wantNames(t, target, nil)
	must(t, x.Rollback(t.Context()))
	wantNames(t, target, nil)

	x = begin(t, s)
	must(t, x.Apply(t.Context(), []logical.Mutation{upsert(1, "a", "x")}))
	must(t, x.SetMemo(t.Context(), logical.MemoState{Point: []byte("2")}))
	must(t, x.SetAside(t.Context(), []logical.DeadLetter{{Loop: "l", Reason: "no"}}))
	must(t, x.Commit(t.Context()))
	must(t, x.Rollback(t.Context()))
	wantNames(t, target, map[int64]string{1: "a"})
	memo, err := s.LoadMemo(t.Context())
	must(t, err)
	letters, err := target.ListDeadLetters(t.Context(), "l", 0, 10)
	must(t, err)
	if string(memo.Point) != "2" || len(letters) != 1 || letters[0].ID != 1 {
		t.Errorf("memo %s, letters %v", memo.Point, letters)
	}
	must(t, target.DiscardDeadLetters(t.Context(), "l", []int64{1}))
	if n, _, _ := target.CountDeadLetters(t.Context(), "l"); n != 0 {
		t.Errorf("%d letters after they were discarded", n)
	}
	if target.Open() != 0 {
		t.Error("a transaction is still open")
	}
}

func TestRowsAreSerialised(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := Open(Config{Record: true})
		s := take(t, target, "me")
		first, second := begin(t, s), begin(t, s)
		must(t, first.Apply(t.Context(), []logical.Mutation{upsert(1, "first", "x")}))
		done := make(chan error, 1)
		go func() {
			if err := second.Apply(t.Context(), []logical.Mutation{upsert(1, "second", "y")}); err != nil {
				done <- err
				return
			}
			done <- second.Commit(t.Context())
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("two transactions changed one row at once: %v", err)
		default:
		}
		must(t, first.Commit(t.Context()))
		must(t, <-done)
		wantNames(t, target, map[int64]string{1: "second"})
		m := upsert(1, "", "")
		if h := target.History(&m); len(h) != 2 || h[0].Values[1].Text() != "first" {
			t.Errorf("history %v", h)
		}
	})
}

func TestDeadlockIsAConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := Open(Config{})
		s := take(t, target, "me")
		first, second := begin(t, s), begin(t, s)
		must(t, first.Apply(t.Context(), []logical.Mutation{upsert(1, "a", "x")}))
		must(t, second.Apply(t.Context(), []logical.Mutation{upsert(2, "b", "y")}))
		done := make(chan error, 1)
		go func() { done <- first.Apply(t.Context(), []logical.Mutation{upsert(2, "c", "z")}) }()
		synctest.Wait()
		wantClass(t, second.Apply(t.Context(), []logical.Mutation{upsert(1, "d", "w")}), logical.ClassConflict)
		must(t, second.Rollback(t.Context()))
		must(t, <-done)
		must(t, first.Commit(t.Context()))
		wantNames(t, target, map[int64]string{1: "a", 2: "c"})
	})
}

func TestUniqueConstraint(t *testing.T) {
	t.Parallel()
	target := Open(Config{Unique: []Unique{{Table: "public.users", Columns: []string{"mail"}}}})
	s := take(t, target, "me")
	run(t, s, upsert(1, "a", "x"), upsert(2, "b", "y"))
	x := begin(t, s)
	wantClass(t, x.Apply(t.Context(), []logical.Mutation{upsert(3, "c", "x")}), logical.ClassConstraint)
	must(t, x.Rollback(t.Context()))
	// The value is free once its row has gone, within the transaction and after it.
	run(t, s, user(logical.OpDelete, 1), upsert(3, "c", "x"))
	run(t, s, upsert(2, "b", "z"))
	run(t, s, upsert(4, "d", "y"), user(logical.OpUpsert, 5, logical.Text("e"), logical.Null()),
		user(logical.OpUpsert, 6, logical.Text("f"), logical.Null()))
	run(t, s, logical.Mutation{Op: logical.OpTruncate, Relation: users}, upsert(7, "g", "x"))
	run(t, s, upsert(8, "h", "y"))
	wantNames(t, target, map[int64]string{7: "g", 8: "h"})
}

func TestUnpreparedAndConflictingColumnsFail(t *testing.T) {
	t.Parallel()
	target := Open(Config{})
	s := take(t, target, "me")
	other := *cpu
	other.Columns = append([]logical.Column{}, cpu.Columns...)
	other.Columns[1].Kind = logical.KindInt64
	wantClass(t, s.Prepare(t.Context(), []*logical.Relation{&other}), logical.ClassReject)
	x := begin(t, s)
	wantClass(t, x.Apply(t.Context(), []logical.Mutation{{
		Op: logical.OpPatch, Relation: &other,
		Values: []logical.Value{logical.UnixNano(1), logical.Int64(2)},
	}}), logical.ClassReject)
	must(t, x.Rollback(t.Context()))
	more := *users
	more.Columns = append(append([]logical.Column{}, users.Columns...), logical.Column{Name: "age"})
	x = begin(t, s)
	wantClass(t, x.Apply(t.Context(), []logical.Mutation{{
		Op: logical.OpUpsert, Relation: &more,
		Values: make([]logical.Value, 4),
	}}), logical.ClassRetry)
	must(t, x.Rollback(t.Context()))
}

func TestRejectKeepsTheClassOfItsError(t *testing.T) {
	t.Parallel()
	target := Open(Config{Reject: func(m *logical.Mutation) error {
		switch m.Values[0].Int64() {
		case 1:
			return errors.New("no")
		case 2:
			return classed(logical.ClassConflict, errors.New("busy"))
		}
		return nil
	}})
	s := take(t, target, "me")
	for id, class := range map[int64]logical.Class{1: logical.ClassReject, 2: logical.ClassConflict} {
		x := begin(t, s)
		wantClass(t, x.Apply(t.Context(), []logical.Mutation{upsert(id, "a", "x")}), class)
		must(t, x.Rollback(t.Context()))
	}
}

func TestValuesAreCopied(t *testing.T) {
	t.Parallel()
	target := Open(Config{})
	s := take(t, target, "me")
	name := []byte("before")
	run(t, s, user(logical.OpUpsert, 1, logical.TextBytes(name), logical.Text("x")))
	copy(name, "after!")
	wantNames(t, target, map[int64]string{1: "before"})
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := Open(Config{})
		s := take(t, target, "me")
		x := begin(t, s)
		must(t, x.Apply(t.Context(), []logical.Mutation{upsert(1, "a", "x")}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		y := begin(t, s)
		if err := y.Apply(ctx, []logical.Mutation{upsert(1, "b", "y")}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := s.Fence(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
