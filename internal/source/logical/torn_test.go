package logical

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// tearing is a tape whose source fails once, in the middle of a transaction, and is away for a while then.
type tearing struct {
	*tape
	at, after int // the transaction, and how many of its messages come before
	failed    bool
}

func (d *tearing) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	if d.failed {
		if err := sleep(ctx, time.Minute); err != nil {
			return err
		}
	}
	return d.tape.ReadInto(ctx, from, &tearingOutbox{out, d, 0})
}

type tearingOutbox struct {
	logical.Outbox
	source *tearing
	sent   int
}

func (o *tearingOutbox) Send(ctx context.Context, msg logical.Message) error {
	if d := o.source; msg.Body.(piece).n == d.at && !d.failed {
		if o.sent == d.after {
			d.failed = true
			return errors.New("the network is gone")
		}
		o.sent++
	}
	return o.Outbox.Send(ctx, msg)
}

// TestConvergeAfterARollbackWithinAFan: a source fails within a transaction while a fan is at work, and serial mode
// would be due then. It may not begin before the transaction has been read again: a part of it is in the target
// (ATOMIC, DRAIN), and a key change must not be done twice (CONVERGE).
func TestConvergeAfterARollbackWithinAFan(t *testing.T) {
	t.Parallel()
	put := func(id int64, v string) logical.Mutation {
		return logical.Mutation{Op: logical.OpUpsert, Relation: accounts, Values: []logical.Value{logical.Int64(id), logical.Text(v)}}
	}
	txs := [][]logical.Mutation{
		{put(1, "one")},
		{put(9, "nine")},
		{ // row 1 becomes row 2, and a new row 1 takes its place
			{Op: logical.OpRekey, Relation: accounts, OldKey: []logical.Value{logical.Int64(1)}, Values: []logical.Value{logical.Int64(2), {}}},
			put(1, "new"),
			put(3, "three"),
		},
	}
	want := map[int64]string{1: "new", 2: "one", 3: "three", 9: "nine"}
	for after := range 4 {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			source := &tearing{at: 3, after: after, tape: &tape{txs: txs, when: func(n int) time.Time {
				if n == 3 {
					return begun
				}
				return begun.Add(-time.Hour) // stale: the loop begins in fan mode
			}}}
			target := memory.Open(memory.Config{})
			factory := quietFactory(t, FactoryConfig{Target: target})
			loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: source, Config: logical.Config{BackfillWindow: 10 * time.Minute, MinDwell: time.Millisecond}})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if s := loop.Status(); after > 0 && !s.ConsistentSince.IsZero() {
				t.Errorf("ATOMIC: %d messages of a transaction are in the target, which is said to be consistent since %s, at %v", after, s.ConsistentSince, s.Point)
			}
			until(loop, time.Hour, func(s Status) bool { return s.Point != nil && s.Point.(at).N == 3 })
			rows := target.Snapshot().Tables["accounts"].Rows
			for _, r := range rows {
				if id := r[0].Int64(); want[id] != r[1].Text() {
					t.Errorf("CONVERGE: after %d messages row %d is %q, want %q", after, id, r[1].Text(), want[id])
				}
			}
			if len(rows) != len(want) {
				t.Errorf("CONVERGE: after %d messages there are %d rows, want %d", after, len(rows), len(want))
			}
			until(loop, time.Hour, func(s Status) bool { return !s.ConsistentSince.IsZero() })
			if s := loop.Status(); s.ConsistentSince.IsZero() || s.Mode.Fan() {
				t.Errorf("the transaction has been read again, and the mode is %s, consistent since %s", s.Mode, s.ConsistentSince)
			}
			factory.Close(t.Context())
		})
	}
}
