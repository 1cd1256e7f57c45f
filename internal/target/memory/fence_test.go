package memory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestFencedSessionCannotWrite(t *testing.T) {
	t.Parallel()
	target := Open(Config{})
	old := take(t, target, "me")
	idle := begin(t, old)
	must(t, idle.Apply(t.Context(), []logical.Mutation{upsert(1, "late", "x")}))
	fresh := take(t, target, "me") // the same holder takes over at once
	select {
	case <-old.Lost():
	default:
		t.Error("the old session does not know that it was succeeded")
	}
	wantClass(t, idle.Commit(t.Context()), logical.ClassFenced)
	_, err := old.Begin(t.Context())
	wantClass(t, err, logical.ClassFenced)
	wantClass(t, old.Fence(t.Context()), logical.ClassFenced)
	wantClass(t, old.SaveMemo(t.Context(), logical.MemoState{}), logical.ClassFenced)
	run(t, fresh, upsert(1, "fresh", "x"))
	wantNames(t, target, map[int64]string{1: "fresh"})
}

// TestFencedLateCommit is the late-commit case: the client has gone, its commit is still on its way,
// and its successor must not write before that has come to its end.
func TestFencedLateCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := Fault{Err: classed(logical.ClassUnknownCommit, errors.New("connection lost")), Late: time.Minute}
		target := Open(Config{Hook: func(_ string, at Site, n uint64) Fault {
			if at == SiteCommit && n%2 == 1 { // not the one that comes after it
				return late
			}
			return Fault{}
		}})
		for i, succeed := range []func(logical.Session) logical.Session{
			func(s logical.Session) logical.Session { must(t, s.Fence(t.Context())); return s },
			func(logical.Session) logical.Session { target.Crash("l"); return take(t, target, "me") },
		} {
			s := take(t, target, "me")
			x := begin(t, s)
			must(t, x.Apply(t.Context(), []logical.Mutation{upsert(1, "late", "x")}))
			wantClass(t, x.Commit(t.Context()), logical.ClassUnknownCommit)
			start := time.Now()
			s = succeed(s)
			if waited := time.Since(start); waited != time.Minute {
				t.Errorf("%d: fencing waited %s for the late commit", i, waited)
			}
			wantNames(t, target, map[int64]string{1: "late"})
			run(t, s, upsert(1, "newer", "x"))
			wantNames(t, target, map[int64]string{1: "newer"})
		}
		must(t, target.Close())
	})
}

func TestFenceWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := Open(Config{})
		s := take(t, target, "me")
		x := begin(t, s)
		must(t, x.Apply(t.Context(), []logical.Mutation{upsert(1, "a", "x")}))
		fence := make(chan error, 1)
		go func() { fence <- s.Fence(t.Context()) }()
		begun := make(chan error, 1)
		synctest.Wait()
		go func() {
			y, err := s.Begin(t.Context())
			if err == nil {
				err = y.Rollback(t.Context())
			}
			begun <- err
		}()
		synctest.Wait()
		if len(fence) > 0 || len(begun) > 0 {
			t.Fatal("fence did not wait for the open transaction, or begin not for the fence")
		}
		must(t, x.Commit(t.Context()))
		must(t, <-fence)
		must(t, <-begun)
		wantNames(t, target, map[int64]string{1: "a"})
	})
}

func TestLeaseKeepsAnotherHolderWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := Open(Config{})
		first := take(t, target, "first")
		time.AfterFunc(time.Hour, func() { _ = first.Release(t.Context()) })
		start := time.Now()
		take(t, target, "second")
		if waited := time.Since(start); waited != time.Hour {
			t.Errorf("took over after %s", waited)
		}
		target.Crash("l")
		start = time.Now()
		take(t, target, "third")
		if waited := time.Since(start); waited != 30*time.Second {
			t.Errorf("took over from a crashed process after %s", waited)
		}
	})
}

func TestChaosIsSeeded(t *testing.T) {
	t.Parallel()
	one, again, other := Chaos(1, 0.2, time.Second), Chaos(1, 0.2, time.Second), Chaos(2, 0.2, time.Second)
	faults, differ := 0, 0
	ways := map[string]int{}
	for n := range uint64(10_000) {
		a, b, c := one("l", SiteCommit, n), again("l", SiteCommit, n), other("l", SiteCommit, n)
		if (a.Err == nil) != (b.Err == nil) || a.Stall != b.Stall || a.Late != b.Late || a.After != b.After {
			t.Fatalf("call %d: the same seed decides %v and %v", n, a, b)
		}
		if a != (Fault{}) {
			faults++
			ways[fmtWay(a)]++
		}
		if (a == Fault{}) != (c == Fault{}) {
			differ++
		}
	}
	if faults < 1800 || faults > 2200 || differ < 2000 {
		t.Errorf("%d of 10000 calls went wrong, and %d differ with another seed", faults, differ)
	}
	for _, way := range []string{"stall", "unknown commit", "unknown commit after", "unknown commit late", "conflict", "retry"} {
		if ways[way] == 0 {
			t.Errorf("%s never happened: %v", way, ways)
		}
	}
}

func fmtWay(f Fault) string {
	switch class := logical.ClassOf(f.Err).String(); {
	case f.Err == nil:
		return "stall"
	case f.Late > 0:
		return class + " late"
	case f.After:
		return class + " after"
	default:
		return class
	}
}

// TestLateMemo: a memo that is late takes the place of a newer one, unless a fence came before it.
func TestLateMemo(t *testing.T) {
	t.Parallel()
	for fenced, want := range map[bool]string{false: "1", true: "2"} {
		synctest.Test(t, func(t *testing.T) {
			target := Open(Config{Hook: func(_ string, at Site, n uint64) Fault {
				if at == SiteSaveMemo && n == 1 {
					return Fault{Err: classed(logical.ClassUnknownCommit, errors.New("connection lost")), Late: time.Minute}
				}
				return Fault{}
			}})
			s := take(t, target, "me")
			wantClass(t, s.SaveMemo(t.Context(), logical.MemoState{Point: []byte("1")}), logical.ClassUnknownCommit)
			if fenced {
				must(t, s.Fence(t.Context()))
			}
			must(t, s.SaveMemo(t.Context(), logical.MemoState{Point: []byte("2")}))
			must(t, target.Close())
			if got := string(target.Snapshot().Memos["l"].Point); got != want {
				t.Errorf("fenced %v: the memo is %s, want %s", fenced, got, want)
			}
		})
	}
}
