package fan

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// num is a stamp that is a number.
type num int

func (n num) Compare(other logical.Stamp) int { return int(n) - int(other.(num)) }

var (
	accounts = shape("accounts", false, "balance", "mail")
	points   = shape("cpu", true, "a", "b")
)

func set(id int64, balance int) logical.Mutation {
	return mut(logical.OpUpsert, accounts, id, balance, nil)
}

func mail(id int64, mail int) logical.Mutation { return mut(logical.OpUpsert, accounts, id, 0, mail) }

// take returns a session of a loop on the target.
func take(t testing.TB, target logical.Target) logical.Session {
	t.Helper()
	s, err := target.Take(t.Context(), logical.Claim{Loop: "l", Holder: "me", TTL: time.Minute})
	must(t, err)
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%+v", err)
	}
}

// fanOn returns a fan on the target that is closed when the test is over.
func fanOn(t testing.TB, target logical.Target, cfg Config) *Fan {
	t.Helper()
	cfg.Session = take(t, target)
	f := New(cfg)
	t.Cleanup(func() { _ = f.Close(context.Background()) })
	return f
}

// send hands out one transaction.
func send(t testing.TB, f *Fan, stamp int, muts ...logical.Mutation) {
	t.Helper()
	must(t, f.Begin(t.Context(), num(stamp)))
	must(t, f.Data(t.Context(), muts))
	must(t, f.Commit())
}

func wantPoint(t testing.TB, f *Fan, want int) {
	t.Helper()
	if p, _ := f.Point(); p != logical.Stamp(num(want)) && (want != 0 || p != nil) {
		t.Fatalf("consistent point %v, want %d", p, want)
	}
}

// column returns a column of a table by id.
func column(target *memory.Target, table, name string) map[int64]int64 {
	found := map[int64]int64{}
	tab := target.Snapshot().Tables[table]
	for _, row := range tab.Rows {
		if v := tab.Value(row, name); !v.IsNull() {
			found[row[0].Int64()] = v.Int64()
		}
	}
	return found
}

func wantColumn(t testing.TB, target *memory.Target, name string, want map[int64]int64) {
	t.Helper()
	if got := column(target, "accounts", name); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s is %v, want %v", name, got, want)
	}
}

func TestPrefixAdvancesAsTransactionsLand(t *testing.T) {
	t.Parallel()
	target := memory.Open(memory.Config{})
	var told []logical.Stamp
	f := fanOn(t, target, Config{OnPoint: func(p logical.Stamp, _ int) { told = append(told, p) }})
	wantPoint(t, f, 0)
	send(t, f, 1, set(1, 10), set(2, 20))
	send(t, f, 2) // empty
	send(t, f, 3, set(1, 11), mut(logical.OpDelete, accounts, 2), set(3, 30))
	must(t, f.Drain(t.Context()))
	wantPoint(t, f, 3)
	wantColumn(t, target, "balance", map[int64]int64{1: 11, 3: 30})
	if len(told) == 0 || told[len(told)-1] != logical.Stamp(num(3)) {
		t.Errorf("OnPoint was told %v", told)
	}
	if n, bytes := f.InFlight(); n != 0 || bytes != 0 {
		t.Errorf("%d mutations and %d bytes in flight after a drain", n, bytes)
	}
}

func TestPrefixOpenTransactionHoldsThePoint(t *testing.T) {
	t.Parallel()
	f := fanOn(t, memory.Open(memory.Config{}), Config{})
	send(t, f, 1, set(1, 1))
	must(t, f.Begin(t.Context(), num(2)))
	must(t, f.Data(t.Context(), []logical.Mutation{set(1, 2)}))
	must(t, f.Drain(t.Context()))
	wantPoint(t, f, 1)
	must(t, f.Commit())
	wantPoint(t, f, 2)
}

func TestMisuseIsAnError(t *testing.T) {
	t.Parallel()
	f := fanOn(t, memory.Open(memory.Config{}), Config{Point: num(5)})
	ctx := t.Context()
	if f.Begin(ctx, num(5)) == nil || f.Commit() == nil || f.Data(ctx, []logical.Mutation{set(1, 1)}) == nil {
		t.Error("a stamp that is not new, a commit or data without a transaction went through")
	}
	must(t, f.Begin(ctx, num(6)))
	if f.Begin(ctx, num(7)) == nil {
		t.Error("a transaction within a transaction went through")
	}
	must(t, f.Close(ctx))
	must(t, f.Close(ctx))
	for _, err := range []error{f.Begin(ctx, num(8)), f.Commit(), f.Drain(ctx), f.Abort(ctx)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

func TestIdleFanCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fanOn(t, memory.Open(memory.Config{}), Config{Shards: 8})
		send(t, f, 1, set(1, 1), set(2, 2), set(3, 3))
		must(t, f.Drain(t.Context()))
		synctest.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.workers != 0 {
			t.Errorf("%d workers", f.workers)
		}
		for i := range f.shards {
			if f.shards[i].head != nil {
				t.Error("an empty queue takes memory")
			}
		}
	})
}
