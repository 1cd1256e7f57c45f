package fan

import (
	"context"
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
		return Decision{r.verdict, logical.DeadLetter{
			Loop: "l", Table: x.Mutation.Relation.String(),
			Reason: reason, Stamp: fmt.Append(nil, x.Stamp),
			Payload: fmt.Append(nil, x.Mutation.Values[0].Int64(), "=", x.Mutation.Values[1].Int64()),
		}}
	}
	c.OnSettled = func(x Rejected, v Verdict, _ *logical.DeadLetter) {
		r.mu.Lock()
		defer r.mu.Unlock()
		id := x.Mutation.Values[0].Int64()
		r.settled = append(r.settled, fmt.Sprint(x.Stamp, ":", id, " ", v))
		if v == SetAside {
			r.open[id] = true
		}
	}
	c.Joins = r
	return c
}

func (r *rejects) Any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open) > 0
}

func (r *rejects) Joins(_ logical.Stamp, _ int, m *logical.Mutation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return m.Values != nil && r.open[m.Values[0].Int64()]
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
		got = append(got, string(l.Stamp)+": "+string(l.Payload)+" "+l.Reason)
	}
	slices.Sort(got)
	if fmt.Sprint(got) != fmt.Sprint([]string{
		"10: 400=400 400 is not accepted", "13: 500=500 500 is not accepted", "15: 600=600 600 is not accepted",
		"18: 700=700 700 is not accepted", "20: 800=800 800 is not accepted", "21: 100=1 joins", "21: 200=1 joins",
		"3: 100=100 100 is not accepted", "5: 200=200 200 is not accepted", "8: 300=300 300 is not accepted",
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
		send(t, f, 1, set(1, 1), set(2, 3), set(4, 4))
		time.AfterFunc(time.Hour, func() {
			mu.Lock()
			defer mu.Unlock()
			healed = true
		})
		must(t, f.Drain(t.Context()))
		wantColumn(t, target, "balance", map[int64]int64{1: 1, 2: 3, 4: 4})
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
	f := fanOn(t, target, r.config(Config{Shards: 1, FirstRows: 4096, OnLanded: func(Landed) { tries++ }, OnFailure: func(Failure) { tries++ }}))
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

// TestNothingSilentRandomRejects sends random histories with poison in them to a target with faults.
// Of each key, what precedes the first dead letter is in the target, and everything from there on is
// in dead letters, in order. A letter may be there twice where the outcome of a commit was not known.
func TestNothingSilentRandomRejects(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 60, 20_000) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 5))
			target := memory.Open(memory.Config{Reject: poison(17), Hook: memory.Chaos(seed, 0.03, time.Second)})
			r := &rejects{verdict: SetAside}
			session := takeSession(t, target)
			cfg := r.config(Config{
				Session: session, Shards: 1 + rng.IntN(4), MaxRows: 1 + rng.IntN(40),
				Retry: retry.Config{Rand: func() float64 { return 0.5 }},
			})
			f := New(cfg)
			history := map[int64][]int64{}
			n := int64(0)
			for stamp := range 40 {
				var muts []logical.Mutation
				for range rng.IntN(12) {
					n++
					id := int64(rng.IntN(20))
					muts = append(muts, set(id, int(n)))
					history[id] = append(history[id], n)
				}
				send(t, f, stamp+1, muts...)
			}
			must(t, f.Drain(t.Context()))
			must(t, f.Close(t.Context()))
			judgeLetters(t, target, history)
			must(t, target.Close())
		})
		if t.Failed() {
			t.Fatalf("replay with -seed=%d", seed)
		}
	}
}

func judgeLetters(t *testing.T, target *memory.Target, history map[int64][]int64) {
	letters, err := target.ListDeadLetters(t.Context(), "l", 0, 1<<20)
	must(t, err)
	aside := map[int64][]int64{}
	for _, l := range letters {
		var id, n int64
		_, err := fmt.Sscanf(string(l.Payload), "%d=%d", &id, &n)
		must(t, err)
		if !slices.Contains(aside[id], n) {
			aside[id] = append(aside[id], n)
		}
	}
	balance := column(target, "accounts", "balance")
	for id, all := range history {
		kept := len(all) - len(aside[id])
		if !slices.Equal(all[kept:], aside[id]) {
			t.Errorf("key %d went through %v, and %v was set aside", id, all, aside[id])
			continue
		}
		if kept < len(all) && all[kept]%17 != 0 {
			t.Errorf("key %d: the first letter %d is not poison", id, all[kept])
		}
		if got, ok := balance[id]; kept == 0 && ok || kept > 0 && got != all[kept-1] {
			t.Errorf("key %d: the target holds %d, want the last of %v", id, got, all[:kept])
		}
	}
}
