package logical

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// poisoned makes a transaction of n mutations of which every third is poison.
func poisoned(n int) [][]logical.Mutation {
	tx := make([]logical.Mutation, n)
	for i := range tx {
		text := fmt.Sprintf("good %d", i)
		if i%3 == 0 {
			text = fmt.Sprintf("poison %d", i)
		}
		tx[i] = logical.Mutation{Op: logical.OpUpsert, Relation: accounts, Values: []logical.Value{logical.Int64(int64(i)), logical.Text(text)}}
	}
	return [][]logical.Mutation{tx, {{Op: logical.OpUpsert, Relation: accounts, Values: []logical.Value{logical.Int64(-1), logical.Text("good")}}}}
}

func isPoison(m *logical.Mutation) error {
	if strings.HasPrefix(m.Values[1].Text(), "poison") {
		return errors.New("poison")
	}
	return nil
}

// rejecting runs a loop into a target that rejects poison, for an hour, and returns what there is then.
func rejecting(t *testing.T, source *tape, config logical.Config) (st Status, target *memory.Target) {
	t.Helper()
	target = memory.Open(memory.Config{Reject: isPoison})
	factory, err := NewFactory(FactoryConfig{Holder: "one", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: source, Target: target, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	until(loop, time.Hour, func(s Status) bool { return s.Point != nil && s.Point.(at).N == len(source.txs) })
	st = loop.Status()
	grace, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	factory.Close(grace)
	if err := target.Close(); err != nil {
		t.Error(err)
	}
	return st, target
}

func letters(t *testing.T, target *memory.Target) (n, bytes int64) {
	t.Helper()
	n, bytes, err := target.CountDeadLetters(t.Context(), "loop")
	if err != nil {
		t.Fatal(err)
	}
	return n, bytes
}

func TestNothingSilentRejectedAreSetAsideInEveryShape(t *testing.T) {
	t.Parallel()
	for name, bytes := range map[string]int64{"in memory": 10 << 20, "streamed": logical.MinBytesInFlight} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const n = 900
				st, target := rejecting(t, &tape{txs: poisoned(n), batch: 50}, logical.Config{
					OnReject: logical.RejectDeadLetter, BytesInFlight: bytes,
				})
				rows := len(target.Snapshot().Tables["accounts"].Rows)
				if got, _ := letters(t, target); got != n/3 || rows != n-n/3+1 || st.Rejected != n/3 {
					t.Errorf("%d letters, %d rows, %d counted; want %d, %d, %d", got, rows, st.Rejected, n/3, n-n/3+1, n/3)
				}
			})
		})
	}
}

func TestBoundedDeadLettersStopTheLoop(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]logical.Config{
		"serial":   {},
		"streamed": {BytesInFlight: logical.MinBytesInFlight},
		"fan":      {Immediate: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				config.OnReject, config.MaxDeadLetterBytes = logical.RejectDeadLetter, 1000
				st, target := rejecting(t, &tape{txs: poisoned(900), batch: 50}, config)
				if _, bytes := letters(t, target); bytes > 1000 {
					t.Errorf("%d bytes of letters, the bound is 1000", bytes)
				}
				if st.State != StateRejecting || st.Point.(at).N != 0 {
					t.Errorf("the loop is %s at %v, want it rejecting at the start: %v", st.State, st.Point, st.Err)
				}
			})
		})
	}
}

func TestRejectPolicies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st, target := rejecting(t, &tape{txs: poisoned(9)}, logical.Config{OnReject: logical.RejectStop})
		if n, _ := letters(t, target); n != 0 || st.State != StateRejecting || st.Point.(at).N != 0 {
			t.Errorf("stop: %d letters, %s at %v", n, st.State, st.Point)
		}
		st, target = rejecting(t, &tape{txs: poisoned(9)}, logical.Config{OnReject: logical.RejectDiscard})
		if n, _ := letters(t, target); n != 0 || st.Rejected != 3 || st.Point.(at).N != 2 {
			t.Errorf("discard: %d letters, %d counted, at %v", n, st.Rejected, st.Point)
		}
	})
}
