package logical

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// TestIsolatedPoisonInAStreamedTransaction: a transaction that is too large to be held frees unique values, gives them
// to other rows, and holds some poison. What is set aside is the poison, and not what needs the parts before it.
func TestIsolatedPoisonInAStreamedTransaction(t *testing.T) {
	t.Parallel()
	const n = 300
	put := func(id int, v string) logical.Mutation {
		return logical.Mutation{Op: logical.OpUpsert, Relation: accounts, Values: []logical.Value{logical.Int64(int64(id)), logical.Text(v)}}
	}
	var before, tx []logical.Mutation
	for i := range n {
		before = append(before, put(i, fmt.Sprint("value ", i)))
	}
	for i := range n {
		tx = append(tx, logical.Mutation{Op: logical.OpDelete, Relation: accounts, Values: []logical.Value{logical.Int64(int64(i)), {}}})
	}
	for i := range n {
		if i%100 == 7 {
			tx = append(tx, put(5000+i, fmt.Sprint("poison ", i)))
		}
		tx = append(tx, put(1000+i, fmt.Sprint("value ", i)))
	}
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		source := &tape{txs: [][]logical.Mutation{before[:n/2], before[n/2:], tx}, batch: 50, reads: func(int) { reads++ }}
		target := memory.Open(memory.Config{Unique: []memory.Unique{{Table: "accounts", Columns: []string{"v"}}}, Reject: func(m *logical.Mutation) error {
			if m.Op == logical.OpDelete {
				return nil
			}
			return isPoison(m)
		}})
		factory := quietFactory(t, FactoryConfig{Target: target})
		loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: source, Config: logical.Config{OnReject: logical.RejectDeadLetter, BytesInFlight: logical.MinBytesInFlight}})
		if err != nil {
			t.Fatal(err)
		}
		until(loop, time.Hour, func(s Status) bool { return s.Point != nil && s.Point.(at).N == 3 })
		list, err := target.ListDeadLetters(t.Context(), "loop", 0, 2*n)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range list {
			if tx[l.Position].Values[1].IsAbsent() || isPoison(&tx[l.Position]) == nil {
				t.Errorf("%s was set aside: %s", l.Payload, l.Reason)
			}
		}
		if rows := len(target.Snapshot().Tables["accounts"].Rows); len(list) != 3 || rows != n {
			t.Errorf("%d letters and %d rows at %v (%v), want 3 and %d", len(list), rows, loop.Status().Point, loop.Status().Err, n)
		}
		if most := 1 + 3*3; reads > most { // with 64 slices, two that narrow it down and one that comes to the next
			t.Errorf("it was read %d times, want at most %d", reads, most)
		}
		factory.Close(t.Context())
	})
}

// TestSearchInAStreamedTransactionEnds: slices cover every mutation once, and each search is of less than the one before.
func TestSearchInAStreamedTransactionEnds(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 63, 64, 65, 5000, 300_000} {
		k, bad, reads := known{}, size*2/3, 0
		for found := false; !found; reads++ {
			for at := 0; at < size; {
				n := k.slice(at, size-at)
				if n < 1 || at+n > size {
					t.Fatalf("%d: a slice of %d at %d", size, n, at)
				}
				if at <= bad && bad < at+n {
					if found = n == 1; !found {
						k.search(at, n)
					}
					break
				}
				at += n
			}
			if reads > 10 {
				t.Fatalf("%d: it has no end", size)
			}
		}
		if want := 5; reads > want {
			t.Errorf("%d: it took %d reads, want at most %d", size, reads, want)
		}
	}
}

// TestNothingSilentACommitThatRefusesAStreamedTransaction: it stops the loop, which says what helps; and it goes on when
// the cause is mended.
func TestNothingSilentACommitThatRefusesAStreamedTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mended atomic.Bool
		target := memory.Open(memory.Config{Hook: func(_ string, at memory.Site, _ uint64) memory.Fault {
			if at == memory.SiteCommit && !mended.Load() {
				return memory.Fault{Err: &logical.Error{Err: errors.New("deferred constraint"), Class: logical.ClassConstraint}}
			}
			return memory.Fault{}
		}})
		txs := poisoned(900)
		factory := quietFactory(t, FactoryConfig{Target: target})
		loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: &tape{txs: txs, batch: 50}, Config: logical.Config{
			OnReject: logical.RejectDeadLetter, BytesInFlight: logical.MinBytesInFlight,
		}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := loop.Status(); s.State != StateRejecting || s.Err == nil || !strings.Contains(logical.HintOf(s.Err), "--bytesInFlight") {
			t.Errorf("it is %s: %v, with the hint %q", s.State, s.Err, logical.HintOf(s.Err))
		}
		mended.Store(true)
		until(loop, time.Hour, func(s Status) bool { return s.Point != nil && s.Point.(at).N == len(txs) })
		if s := loop.Status(); s.Point.(at).N != len(txs) || s.State != StateRunning {
			t.Errorf("mended, it is %s at %v: %v", s.State, s.Point, s.Err)
		}
		factory.Close(t.Context())
	})
}
