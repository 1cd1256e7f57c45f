package memory

import (
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestFillLeavesWhatIsThere(t *testing.T) {
	t.Parallel()
	target := Open(Config{})
	s := take(t, target, "me")
	fill := func(ns int64, v logical.Value) logical.Mutation {
		return logical.Mutation{Op: logical.OpFill, Relation: cpu, Values: []logical.Value{logical.UnixNano(ns), v}}
	}
	null := fill(2, logical.Null())
	null.Op = logical.OpPatch
	run(t, s, fill(1, logical.Float64(1)), fill(1, logical.Float64(2)), null, fill(2, logical.Float64(3)), fill(3, logical.Value{}))
	table := target.Snapshot().Tables["cpu"]
	for ns, want := range map[int64]string{1: "1", 2: "3", 3: "null"} {
		mut := fill(ns, logical.Null())
		row, ok := table.Rows[string(mut.AppendKey(nil))]
		if got := table.Value(row, cpu.Columns[1].Name).String(); !ok || got != want {
			t.Errorf("the row at %d has %s, want %s", ns, got, want)
		}
	}
}

// TestLettersAreKeptOnceAndTakenBack: with the transaction, and those of the loop alone.
func TestLettersAreKeptOnceAndTakenBack(t *testing.T) {
	t.Parallel()
	target := Open(Config{})
	s := take(t, target, "me")
	letters := []logical.DeadLetter{{Table: "cpu", Payload: []byte("1")}, {Table: "cpu", Payload: []byte("1")}, {Table: "cpu", Payload: []byte("2")}}
	for range 2 {
		x := begin(t, s)
		must(t, x.SetAside(t.Context(), letters))
		must(t, x.Commit(t.Context()))
	}
	list, err := target.ListDeadLetters(t.Context(), "l", 0, 10)
	must(t, err)
	if len(list) != 2 {
		t.Fatalf("%d letters are kept, want 2", len(list))
	}
	for i, commit := range []bool{false, true} {
		x := begin(t, s)
		must(t, x.TakeBack(t.Context(), []int64{list[0].ID, 99}))
		if commit {
			must(t, x.Commit(t.Context()))
		} else {
			must(t, x.Rollback(t.Context()))
		}
		left, err := target.ListDeadLetters(t.Context(), "l", 0, 10)
		must(t, err)
		if len(left) != 2-i || left[len(left)-1].ID != list[1].ID {
			t.Errorf("committed %v: left are %v", commit, left)
		}
	}
}
