package fan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/internal/util/stamp"
	"github.com/tailrace-cdc/tailrace/logical"
)

// poison rejects the mutations that set a balance to a multiple of n.
func poison(n int64) func(m *logical.Mutation) error {
	return func(m *logical.Mutation) error {
		if m.Op == logical.OpUpsert && m.Values[1].Kind() == logical.KindInt64 && m.Values[1].Int64()%n == 0 {
			return fmt.Errorf("%d is not accepted", m.Values[1].Int64())
		}
		return nil
	}
}

// rejects decides about rejected mutations and remembers what was settled.
type rejects struct {
	verdict Verdict
	mu      sync.Mutex
	open    map[int64]bool
	settled []string
}

func (r *rejects) config(c Config) Config {
	r.open = map[int64]bool{}
	c.OnReject = func(_ context.Context, x Rejected) Decision {
		reason := "joins"
		if x.Err != nil {
			reason = x.Err.Error()
		}
		return Decision{r.verdict, logical.DeadLetter{Loop: "l", Table: x.Mutation.Relation.String(),
			Reason: reason, Payload: fmt.Append(nil, x.Stamp, ":", x.Mutation.Values[0].Int64())}}
	}
	c.OnSettled = func(x Rejected, v Verdict) {
		r.mu.Lock()
		defer r.mu.Unlock()
		id := x.Mutation.Values[0].Int64()
		r.settled = append(r.settled, fmt.Sprint(x.Stamp, ":", id, " ", v))
		if v == SetAside {
			r.open[id] = true
		}
	}
	c.Joins = func(m *logical.Mutation) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return m.Values != nil && r.open[m.Values[0].Int64()]
	}
	return c
}

// TestNothingSilentRejectedIsSetAside: exactly the poisonous mutations, and later ones of their keys,
// become dead letters; the rest of their batches lands.
func TestNothingSilentRejectedIsSetAside(t *testing.T) {
	t.Parallel()
	target := memory.Open(memory.Config{Reject: poison(100)})
	r := &rejects{verdict: SetAside}
	f := fanOn(t, target, r.config(Config{Shards: 2}))
	want := map[int64]int64{}
	for tx := range 20 {
		var muts []logical.Mutation
		for i := range 40 {
			n := tx*40 + i + 1
			muts = append(muts, set(int64(n), n))
			if n%100 != 0 {
				want[int64(n)] = int64(n)
			}
		}
		send(t, f, tx+1, muts...)
	}
	send(t, f, 21, set(100, 1), set(200, 1)) // these join the letters of their keys
	must(t, f.Drain(t.Context()))
	wantPoint(t, f, 21)
	wantColumn(t, target, "balance", want)
	letters, err := target.ListDeadLetters(t.Context(), "l", 0, 100)
	must(t, err)
	var got []string
	for _, l := range letters {
		got = append(got, string(l.Payload)+" "+l.Reason)
	}
	slices.Sort(got)
	if fmt.Sprint(got) != fmt.Sprint([]string{
		"10:400 400 is not accepted", "13:500 500 is not accepted", "15:600 600 is not accepted",
		"18:700 700 is not accepted", "20:800 800 is not accepted", "21:100 joins", "21:200 joins",
		"3:100 100 is not accepted", "5:200 200 is not accepted", "8:300 300 is not accepted",
	}) {
		t.Errorf("letters %q", got)
	}
	if len(r.settled) != len(letters) {
		t.Errorf("%d were settled, %d letters written", len(r.settled), len(letters))
	}
}

func TestRejectedIsDiscarded(t *testing.T) {
	t.Parallel()
	target := memory.Open(memory.Config{Reject: poison(3)})
	r := &rejects{verdict: Discard}
	f := fanOn(t, target, r.config(Config{Shards: 1}))
	send(t, f, 1, set(1, 1), set(2, 2), set(3, 3), set(4, 4))
	send(t, f, 2, set(3, 5), set(5, 6))
	must(t, f.Drain(t.Context()))
	wantPoint(t, f, 2)
	wantColumn(t, target, "balance", map[int64]int64{1: 1, 2: 2, 3: 5, 4: 4})
	if fmt.Sprint(r.settled) != "[1:3 discard 2:5 discard]" {
		t.Errorf("settled %v", r.settled)
	}
}

func TestRejectedFailsTheFan(t *testing.T) {
	t.Parallel()
	target := memory.Open(memory.Config{Reject: poison(3)})
	f := fanOn(t, target, Config{Shards: 1})
	send(t, f, 1, set(1, 1))
	must(t, f.Drain(t.Context()))
	send(t, f, 2, set(3, 3))
	if err := f.Drain(t.Context()); logical.ClassOf(err) != logical.ClassReject {
		t.Errorf("got %v", err)
	}
	wantPoint(t, f, 1)
}

// TestRejectedIsTriedAgain: until the verdict changes, or the target.
func TestRejectedIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		healed, asked := false, 0
		target := memory.Open(memory.Config{Reject: func(m *logical.Mutation) error {
			mu.Lock()
			defer mu.Unlock()
			if healed {
				return nil
			}
			return poison(3)(m)
		}})
		f := fanOn(t, target, Config{Shards: 1, OnReject: func(context.Context, Rejected) Decision {
			mu.Lock()
			defer mu.Unlock()
			asked++
			return Decision{Verdict: Again}
		}})
		send(t, f, 1, set(1, 1), set(2, 3), set(2, 4), set(4, 4))
		time.AfterFunc(time.Hour, func() {
			mu.Lock()
			defer mu.Unlock()
			healed = true
		})
		must(t, f.Drain(t.Context()))
		wantColumn(t, target, "balance", map[int64]int64{1: 1, 2: 4, 4: 4})
		if asked == 0 {
			// Merging hid the poison: the row's last value is harmless.
			return
		}
		if asked < 100 || asked > 1000 {
			t.Errorf("asked %d times within an hour", asked)
		}
	})
}

// TestBisectionIsFrugal counts the transactions that it takes to find one among a thousand.
func TestBisectionIsFrugal(t *testing.T) {
	t.Parallel()
	target := memory.Open(memory.Config{Reject: poison(777)})
	r := &rejects{verdict: SetAside}
	tries := 0
	f := fanOn(t, target, r.config(Config{Shards: 1, OnLanded: func(Landed) { tries++ }, OnFailure: func(Failure) { tries++ }}))
	f.shards[0].tune.limit = 4096
	var muts []logical.Mutation
	for i := range 1000 {
		muts = append(muts, set(int64(i), i+1))
	}
	send(t, f, 1, muts...)
	must(t, f.Drain(t.Context()))
	if len(r.settled) != 1 || tries > 60 {
		t.Errorf("%d settled after %d transactions", len(r.settled), tries)
	}
}

func TestCutPrefersTransactionBoundaries(t *testing.T) {
	t.Parallel()
	var items []item
	for tx, n := range []int{1, 5, 1, 9} {
		for range n {
			items = append(items, item{tx: stamp.ID(tx)})
		}
	}
	for _, c := range []struct{ from, to, want int }{{0, 16, 7}, {0, 7, 1}, {0, 6, 1}, {1, 6, 2}, {7, 16, 4}, {0, 2, 1}} {
		if got := cut(items[c.from:c.to]); got != c.want {
			t.Errorf("%d to %d: cut at %d, want %d", c.from, c.to, got, c.want)
		}
	}
}

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

// TestConvergeUniqueValues moves unique values around at random, and never lets two rows have one.
func TestConvergeUniqueValues(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 40, 5000) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			target := memory.Open(memory.Config{Unique: uniqueMail.Unique, Hook: memory.Chaos(seed, 0.02, time.Second)})
			session := takeSession(t, target)
			f := New(Config{Session: session, Shards: 1 + rng.IntN(8), Budget: NewBudget(64 << 10), ConstraintTries: 1 + rng.IntN(4),
				Retry: retry.Config{Rand: func() float64 { return 0.5 }}, OnReject: func(_ context.Context, r Rejected) Decision {
					t.Errorf("rejected %s", describe([]logical.Mutation{*r.Mutation}))
					return Decision{Verdict: Fail}
				}})
			owner := map[int]int64{}   // of each value
			value := map[int64]int64{} // of each row
			for n := range 30 {
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
				send(t, f, n+1, muts...)
			}
			must(t, f.Drain(t.Context()))
			if got := column(target, "accounts", "mail"); fmt.Sprint(got) != fmt.Sprint(value) {
				t.Errorf("got %v, want %v", got, value)
			}
			must(t, f.Close(t.Context()))
			must(t, target.Close())
		})
		if t.Failed() {
			t.Fatalf("replay with -seed=%d", seed)
		}
	}
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
