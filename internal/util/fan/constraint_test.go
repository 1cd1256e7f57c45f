package fan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/logical"
)

var uniqueMail = memory.Config{Unique: []memory.Unique{{Table: "accounts", Columns: []string{"mail"}}}}

// TestConstraintIsRetriedWhileOthersProgress: the row that holds a unique value gives it up in
// another shard, a moment later.
func TestConstraintIsRetriedWhileOthersProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := memory.Open(uniqueMail)
		f := fanOn(t, target, Config{Shards: 8})
		send(t, f, 1, mail(1, 1), mail(2, 2), mail(3, 3))
		must(t, f.Drain(t.Context()))
		send(t, f, 2, mail(1, 10), mail(2, 1), mail(3, 2), mail(4, 3), mail(1, 11))
		send(t, f, 3, mail(5, 10))
		must(t, f.Drain(t.Context()))
		wantPoint(t, f, 3)
		wantColumn(t, target, "mail", map[int64]int64{1: 11, 2: 1, 3: 2, 4: 3, 5: 10})
	})
}

// TestConstraintSwap: two rows change their values by way of a third one. Merged, neither shard can
// go first.
func TestConstraintSwap(t *testing.T) {
	t.Parallel()
	for _, shards := range []int{1, 2, 8} {
		synctest.Test(t, func(t *testing.T) {
			target := memory.Open(uniqueMail)
			f := fanOn(t, target, Config{Shards: shards})
			send(t, f, 1, mail(1, 1), mail(2, 2))
			must(t, f.Drain(t.Context()))
			send(t, f, 2, mail(1, 0), mail(2, 1), mail(1, 2))
			must(t, f.Drain(t.Context()))
			wantPoint(t, f, 2)
			wantColumn(t, target, "mail", map[int64]int64{1: 2, 2: 1})
		})
	}
}

// TestConstraintThatStaysIsRejected: nothing in the source's history explains the violation.
func TestConstraintThatStaysIsRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := memory.Open(uniqueMail)
		r := &rejects{verdict: SetAside}
		f := fanOn(t, target, r.config(Config{Shards: 4}))
		send(t, f, 1, mail(1, 1))
		must(t, f.Drain(t.Context()))
		send(t, f, 2, mail(2, 1), mail(3, 3), mail(4, 4), mail(5, 4))
		must(t, f.Drain(t.Context()))
		wantPoint(t, f, 2)
		wantColumn(t, target, "mail", map[int64]int64{1: 1, 3: 3, 4: 4})
		slices.Sort(r.settled)
		if fmt.Sprint(r.settled) != "[2:2 set aside 2:5 set aside]" {
			t.Errorf("settled %v", r.settled)
		}
	})
}

// TestConstraintWaitsForTheRestOfItsTransaction: the source checks the constraint at its commit, and
// the mutation that makes it right has not come yet.
func TestConstraintWaitsForTheRestOfItsTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := memory.Open(uniqueMail)
		f := fanOn(t, target, Config{Shards: 8})
		send(t, f, 1, mail(1, 1))
		must(t, f.Drain(t.Context()))
		must(t, f.Begin(t.Context(), num(2)))
		must(t, f.Data(t.Context(), []logical.Mutation{mail(2, 1)}))
		time.AfterFunc(time.Hour, func() {
			if err := f.Data(t.Context(), []logical.Mutation{mut(logical.OpDelete, accounts, 1)}); err != nil {
				t.Error(err)
			}
			if err := f.Commit(); err != nil {
				t.Error(err)
			}
		})
		timer := time.NewTimer(2 * time.Hour)
		<-timer.C
		must(t, f.Drain(t.Context()))
		wantPoint(t, f, 2)
		wantColumn(t, target, "mail", map[int64]int64{2: 1})
	})
}

// TestConvergeUniqueValues moves few unique values around between few rows at random. What cannot be
// helped (see the package documentation) happens once in some hundred of these histories.
func TestConvergeUniqueValues(t *testing.T) {
	t.Parallel()
	all := seeds(t, 40, 5000)
	trapped := 0
	for _, seed := range all {
		synctest.Test(t, func(t *testing.T) {
			if moveUniqueValues(t, seed) {
				trapped++
			}
		})
		if t.Failed() {
			t.Fatalf("replay with -seed=%d", seed)
		}
	}
	if trapped > 1+len(all)/50 {
		t.Errorf("%d of %d histories ended in a rejection", trapped, len(all))
	}
}

// moveUniqueValues reports whether something was rejected in the end.
func moveUniqueValues(t *testing.T, seed uint64) bool {
	rng := rand.New(rand.NewPCG(seed, 2))
	target := memory.Open(memory.Config{Unique: uniqueMail.Unique, Hook: memory.Chaos(seed, 0.02, time.Second)})
	f := New(Config{
		Session: takeSession(t, target), Shards: 1 + rng.IntN(8), Budget: budget.New(64 << 10), ConstraintTries: 1 + rng.IntN(4),
		Retry: retry.Config{Rand: func() float64 { return 0.5 }},
	})
	owner := map[int]int64{}   // of each value
	value := map[int64]int64{} // of each row
	var err error
	for n := 0; n < 30 && err == nil; n++ {
		var muts []logical.Mutation
		for range 1 + rng.IntN(6) {
			id, v := int64(rng.IntN(6)), rng.IntN(6)
			if other, taken := owner[v]; taken && other != id {
				muts = append(muts, mail(other, 100+int(other))) // gives way
				value[other] = 100 + other
				delete(owner, v)
			}
			for old, o := range owner {
				if o == id {
					delete(owner, old)
				}
			}
			muts = append(muts, mail(id, v))
			owner[v], value[id] = id, int64(v)
		}
		err = errors.Join(f.Begin(t.Context(), num(n+1)), f.Data(t.Context(), muts), f.Commit())
	}
	err = errors.Join(err, f.Drain(t.Context()))
	if got := column(target, "accounts", "mail"); err == nil && fmt.Sprint(got) != fmt.Sprint(value) {
		t.Errorf("got %v, want %v", got, value)
	}
	if err != nil && logical.ClassOf(f.Err()) != logical.ClassConstraint {
		t.Error(err)
	}
	must(t, f.Close(t.Context()))
	must(t, target.Close())
	return err != nil
}

// takeSession takes the loop over although the target may fail.
func takeSession(t *testing.T, target logical.Target) logical.Session {
	t.Helper()
	for {
		s, err := target.Take(t.Context(), logical.Claim{Loop: "l", Holder: "me", TTL: time.Minute})
		if err == nil {
			return s
		}
		if errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}
