package fan

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

func memoOf(point logical.Stamp, skip int) logical.MemoState {
	return logical.MemoState{Point: fmt.Append(nil, point, "+", skip)}
}

func rekey(from, to int64, balance any) logical.Mutation {
	m := mut(logical.OpRekey, accounts, to, balance)
	m.OldKey = []logical.Value{logical.Int64(from)}
	return m
}

func wantMemo(t *testing.T, target *memory.Target, want string) {
	t.Helper()
	if got := string(target.Snapshot().Memos["l"].Point); got != want {
		t.Errorf("the memo is %q, want %q", got, want)
	}
}

// TestPrefixMemoBesideBarrier: a memo that is on its way to the target when a barrier comes must not
// overwrite the one that is stored with the barrier.
func TestPrefixMemoBesideBarrier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := memory.Open(memory.Config{Hook: hookOn(memory.SiteSaveMemo, memory.Fault{Stall: time.Minute})})
		f := fanOn(t, target, Config{Memo: memoOf})
		send(t, f, 1, set(1, 1))
		must(t, f.Drain(t.Context()))
		saved := make(chan error, 1)
		go func() { saved <- f.SaveMemo(t.Context()) }()
		synctest.Wait()
		must(t, f.Begin(t.Context(), num(2)))
		must(t, f.Data(t.Context(), []logical.Mutation{set(2, 2), rekey(1, 3, nil), set(1, 10)}))
		must(t, f.Drain(t.Context()))
		must(t, <-saved)
		wantMemo(t, target, "1+2")
		must(t, f.SaveMemo(t.Context()))
		wantMemo(t, target, "1+2")
		must(t, f.Commit())
		must(t, f.SaveMemo(t.Context()))
		wantMemo(t, target, "2+0")
	})
}

// TestConvergeKeyChangeIsNotRepeated crashes when the old key of a key change has come to belong to
// another row.
func TestConvergeKeyChangeIsNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := memory.Open(memory.Config{})
		tx := []logical.Mutation{mail(1, 100), rekey(1, 2, 7), mail(1, 200)}
		f := fanOn(t, target, Config{Memo: memoOf})
		must(t, f.Begin(t.Context(), num(1)))
		must(t, f.Data(t.Context(), tx))
		must(t, f.Drain(t.Context()))
		wantMemo(t, target, "<nil>+2")
		target.Crash("l")

		f = fanOn(t, target, Config{Memo: memoOf, Skip: 2})
		send(t, f, 1, tx...)
		must(t, f.Drain(t.Context()))
		wantColumn(t, target, "mail", map[int64]int64{1: 200, 2: 100})
		wantPoint(t, f, 1)

		// The same without a crash: the fan itself knows how far it was.
		tx = []logical.Mutation{rekey(1, 3, 7), mail(1, 300)}
		must(t, f.Begin(t.Context(), num(2)))
		must(t, f.Data(t.Context(), tx))
		must(t, f.Drain(t.Context()))
		must(t, f.Abort(t.Context()))
		send(t, f, 2, tx...)
		must(t, f.Drain(t.Context()))
		wantColumn(t, target, "mail", map[int64]int64{1: 300, 2: 100, 3: 200})

		// A source that gives less than it gave before is found out.
		must(t, f.Begin(t.Context(), num(3)))
		must(t, f.Data(t.Context(), []logical.Mutation{mail(2, 400), rekey(1, 4, 7)}))
		must(t, f.Abort(t.Context()))
		must(t, f.Begin(t.Context(), num(3)))
		must(t, f.Data(t.Context(), []logical.Mutation{mail(2, 400)}))
		if f.Commit() == nil {
			t.Error("a transaction that has shrunk went through")
		}
		must(t, f.Abort(t.Context()))

		// One that has lost it says so with a transaction without data, and nothing of the next one is skipped.
		send(t, f, 3)
		send(t, f, 4, mail(5, 500), mail(6, 600))
		must(t, f.Drain(t.Context()))
		wantColumn(t, target, "mail", map[int64]int64{2: 400, 3: 200, 4: 300, 5: 500, 6: 600})
	})
}

// TestPrefixAbortTakesBackTheMemo: the fan does not know whether the barrier landed, applies what
// precedes it once more, and crashes in the middle of that. The barrier's memo must not be there.
func TestPrefixAbortTakesBackTheMemo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unknown := &logical.Error{Err: errors.New("connection lost"), Class: logical.ClassUnknownCommit}
		target := memory.Open(memory.Config{Hook: hookOn(memory.SiteCommit,
			memory.Fault{}, memory.Fault{Err: unknown, Late: time.Minute})})
		f := fanOn(t, target, Config{Memo: memoOf})
		must(t, f.Begin(t.Context(), num(1)))
		go func() { _ = f.Data(t.Context(), []logical.Mutation{mail(1, 100), rekey(1, 2, 7)}) }()
		synctest.Wait()
		must(t, f.Abort(t.Context()))
		wantColumn(t, target, "mail", map[int64]int64{2: 100})
		wantMemo(t, target, "<nil>+0")
		must(t, target.Close())
	})
}

// TestPrefixLateMemoIsFenced: a memo whose SaveMemo failed arrives when newer ones have been stored.
func TestPrefixLateMemoIsFenced(t *testing.T) {
	t.Parallel()
	late := memory.Fault{Err: classed(logical.ClassRetry), Late: time.Minute}
	down := memory.Fault{Err: classed(logical.ClassRetry)}
	for name, next := range map[string]func(t *testing.T, f *Fan, target *memory.Target){
		"another memo": func(t *testing.T, f *Fan, target *memory.Target) {
			send(t, f, 2, set(1, 2))
			must(t, f.Drain(t.Context()))
			must(t, f.SaveMemo(t.Context()))
			wantMemo(t, target, "2+0")
		},
		"a memo without a drain": func(t *testing.T, f *Fan, _ *memory.Target) {
			send(t, f, 2, set(1, 2))
			synctest.Wait()
			must(t, f.SaveMemo(t.Context()))
		},
		"a barrier": func(t *testing.T, f *Fan, target *memory.Target) {
			must(t, f.Begin(t.Context(), num(2)))
			must(t, f.Data(t.Context(), []logical.Mutation{set(2, 2), rekey(1, 3, nil)}))
			synctest.Wait()
			wantMemo(t, target, "1+2")
			must(t, f.Commit())
			must(t, f.SaveMemo(t.Context()))
		},
		"the owner after a drain": func(t *testing.T, f *Fan, _ *memory.Target) {
			must(t, f.Drain(t.Context()))
			tx, err := f.cfg.Session.Begin(t.Context())
			must(t, err)
			must(t, tx.SetMemo(t.Context(), memoOf(num(2), 0)))
			must(t, tx.Commit(t.Context()))
		},
	} {
		for times, fences := range map[string][]memory.Fault{"": nil, " fenced at the second try": {down}} {
			t.Run(name+times, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					memos, fence := hookOn(memory.SiteSaveMemo, late), hookOn(memory.SiteFence, fences...)
					target := memory.Open(memory.Config{Hook: func(loop string, at memory.Site, n uint64) memory.Fault {
						if at == memory.SiteFence {
							return fence(loop, at, n)
						}
						return memos(loop, at, n)
					}})
					f := fanOn(t, target, Config{Memo: memoOf})
					send(t, f, 1, set(1, 1))
					must(t, f.Drain(t.Context()))
					if f.SaveMemo(t.Context()) == nil {
						t.Error("the memo that is late has not failed")
					}
					next(t, f, target)
					must(t, target.Close()) // which waits for what is late
					wantMemo(t, target, "2+0")
				})
			})
		}
	}
}
