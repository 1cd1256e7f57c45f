package meter

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSessionsAreCounted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	fail := func(at memory.Site, n uint64) error {
		switch {
		case at == memory.SiteCommit && n == 2:
			return &logical.Error{Err: errors.New("unknown"), Class: logical.ClassUnknownCommit}
		case at == memory.SiteApply && n == 4:
			return &logical.Error{Err: errors.New("deadlock"), Class: logical.ClassConflict}
		}
		return nil
	}
	target := memory.Open(memory.Config{Hook: func(_ string, at memory.Site, n uint64) memory.Fault {
		return memory.Fault{Err: fail(at, n)}
	}})
	inside, err := target.Take(ctx, logical.Claim{Loop: "a", Holder: "me", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	rel := &logical.Relation{Name: "t", Columns: []logical.Column{{Name: "id", Kind: logical.KindInt64, Key: true}}}
	m := New()
	s := m.Session(inside)
	if err := s.Prepare(ctx, []*logical.Relation{rel}); err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		tx, err := s.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		muts := make([]logical.Mutation, 1+n*600)
		for i := range muts {
			muts[i] = logical.Mutation{Op: logical.OpUpsert, Relation: rel, Values: []logical.Value{logical.Int64(int64(i))}}
		}
		if tx.Apply(ctx, muts) == nil {
			_ = tx.Commit(ctx)
		}
		_ = tx.Rollback(ctx)
		_ = tx.Rollback(ctx)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	_ = s.Fence(gone) // given up by its caller, which is no failure
	f := m.Figures()
	if f.Commits != 2 || f.Rollbacks != 2 || f.Fences != 1 || f.LastCommit.IsZero() {
		t.Errorf("%d commits, %d rollbacks, %d fences, the last commit at %s", f.Commits, f.Rollbacks, f.Fences, f.LastCommit)
	}
	if f.Failures[logical.ClassUnknownCommit] != 1 || f.Failures[logical.ClassConflict] != 1 || f.Failures[logical.ClassRetry] != 0 {
		t.Errorf("failures %v", f.Failures)
	}
	if f.Rows.Count != 2 || f.Rows.Sum != 1+1201 || f.Rows.Buckets[1] != 1 || f.Rows.Buckets[1000] != 1 || f.Rows.Buckets[2000] != 2 {
		t.Errorf("rows %+v", f.Rows)
	}
	if f.Seconds.Count != 2 || f.Seconds.Sum <= 0 {
		t.Errorf("seconds %+v", f.Seconds)
	}
}

type talker struct{ logical.Dialect }

func (talker) ReadInto(context.Context, logical.Stamp, logical.Outbox) error { return errors.New("no") }

func (talker) Process(ctx context.Context, _ logical.Inbox, events logical.Events) error {
	_ = events.OnCommit(ctx)
	_ = events.OnCommit(ctx)
	return events.OnRollback(ctx)
}

type deaf struct{ logical.Events }

func (deaf) OnCommit(context.Context) error   { return nil }
func (deaf) OnRollback(context.Context) error { return nil }

func TestDialectsAreCounted(t *testing.T) {
	t.Parallel()
	m := New()
	d := m.Dialect(talker{})
	_ = d.ReadInto(t.Context(), nil, nil)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_ = d.ReadInto(gone, nil, nil) // its loop has ended
	_ = d.Process(t.Context(), nil, deaf{})
	if f := m.Figures(); f.Reconnects != 1 || f.SourceTransactions != 2 || f.SourceRollbacks != 1 {
		t.Errorf("%+v", f)
	}
}
