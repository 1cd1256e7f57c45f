package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tell lists what happens to calls of a loop at a site.
func tell(seed uint64, loop, site string) (told string) {
	c := New(Config{Prob: 0.5, Seed: seed, Stall: time.Nanosecond})
	for range 200 {
		s, _ := c.strike(context.Background(), loop, site)
		told += fmt.Sprint(s.way)
	}
	return told
}

func TestSeedLoopAndSiteDecide(t *testing.T) {
	t.Parallel()
	first := tell(1, "a", "commit")
	if tell(1, "a", "commit") != first {
		t.Error("a seed does not replay")
	}
	for _, other := range []string{tell(2, "a", "commit"), tell(1, "b", "commit"), tell(1, "a", "apply")} {
		if other == first {
			t.Error("another seed, loop or site is struck alike")
		}
	}
}

func TestShareOfStrikes(t *testing.T) {
	t.Parallel()
	for _, prob := range []float64{0.05, 0.5, 1} {
		struck := 0
		c := New(Config{Prob: prob, Seed: 3, Stall: time.Nanosecond})
		for range 10_000 {
			if s, _ := c.strike(context.Background(), "a", "x"); s.way != none {
				struck++
			}
		}
		if got := float64(struck) / 10_000; got < prob*0.8 || got > prob*1.2 {
			t.Errorf("%.3f of all calls are struck, want %.3f", got, prob)
		}
	}
	if New(Config{}) != nil {
		t.Error("there is chaos without a share")
	}
}

func TestNoChaosWrapsNothing(t *testing.T) {
	t.Parallel()
	target := memory.Open(memory.Config{})
	var c *Chaos
	if c.Target("a", target) != logical.Target(target) || c.Dialect("a", nil) != nil {
		t.Error("something is wrapped")
	}
}

// TestEveryWayOfACommit commits until each thing has happened that can: nothing wrong, lost against another one,
// unknown and done, unknown and not done, unknown and done later.
func TestEveryWayOfACommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seen := map[string]bool{}
		inside := memory.Open(memory.Config{})
		target := New(Config{Prob: 0.5, Seed: 9, Stall: time.Second}).Target("a", inside)
		rel := &logical.Relation{Name: "t", Columns: []logical.Column{{Name: "id", Kind: logical.KindInt64, Key: true}}}
		for n := int64(0); n < 3000; n++ {
			session, err := target.Take(t.Context(), logical.Claim{Loop: "a", Holder: "me", TTL: time.Minute})
			if err != nil {
				continue
			}
			seen[attempt(t, session, inside, rel, n)] = true
			select {
			case <-session.Lost():
				seen["lease"] = true
				if err := session.Fence(t.Context()); logical.ClassOf(err) != logical.ClassFenced {
					t.Fatalf("without its lease a session goes on: %v", err)
				}
			default:
			}
			if err := session.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, what := range []string{"done", "conflict", "unknown, done", "unknown, not done", "unknown, later", "lease"} {
			if !seen[what] {
				t.Errorf("it never happened that: %s", what)
			}
		}
		if n := inside.Open(); n > 0 {
			t.Errorf("%d transactions are left open", n)
		}
	})
}

// attempt writes a row, and tells what became of it.
func attempt(t *testing.T, session logical.Session, inside *memory.Target, rel *logical.Relation, n int64) string {
	ctx := t.Context()
	m := logical.Mutation{Op: logical.OpUpsert, Relation: rel, Values: []logical.Value{logical.Int64(n)}}
	tx, err := session.Begin(ctx)
	if err != nil {
		return "no transaction"
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if session.Prepare(ctx, []*logical.Relation{rel}) != nil || tx.Apply(ctx, []logical.Mutation{m}) != nil {
		return "not applied"
	}
	there := func() bool {
		_, ok := inside.Snapshot().Tables["t"].Rows[string(m.AppendKey(nil))]
		return ok
	}
	err = tx.Commit(ctx)
	now := there()
	time.Sleep(3 * time.Second)
	switch class := logical.ClassOf(err); {
	case err == nil && now:
		return "done"
	case err == nil:
		return "a commit without effect"
	case class == logical.ClassConflict && !now:
		return "conflict"
	case class == logical.ClassUnknownCommit && now:
		return "unknown, done"
	case class == logical.ClassUnknownCommit && there():
		return "unknown, later"
	case class == logical.ClassUnknownCommit:
		return "unknown, not done"
	}
	return "something else: " + err.Error()
}

// reader is a dialect whose reads send one message each, and whose Process passes one transaction on.
type reader struct {
	logical.Dialect
	reads, sent, events int
}

func (r *reader) ReadInto(ctx context.Context, _ logical.Stamp, out logical.Outbox) error {
	r.reads++
	return out.Send(ctx, logical.Message{})
}

func (r *reader) Process(ctx context.Context, _ logical.Inbox, events logical.Events) error {
	return events.OnCommit(ctx)
}

type counter struct {
	logical.Events
	n *int
}

func (c counter) Send(context.Context, logical.Message) error { *c.n++; return nil }
func (c counter) OnCommit(context.Context) error              { *c.n++; return nil }

func TestSourceFailsBeforeAndAfterAndInStorms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &reader{}
		d := New(Config{Prob: 0.3, Seed: 5, Stall: time.Second}).Dialect("a", r)
		row, longest, lost, doubtful := 0, 0, 0, 0
		for range 2000 {
			before := r.sent
			err := d.ReadInto(t.Context(), nil, counter{n: &r.sent})
			switch {
			case err == nil && r.sent == before:
				t.Fatal("a message was lost in silence")
			case err == nil:
				row = 0
				continue
			case r.sent > before:
				doubtful++
			default:
				lost++
			}
			row++
			longest = max(longest, row)
			before = r.events
			if err := d.Process(t.Context(), nil, counter{n: &r.events}); err != nil && r.events > before {
				doubtful++
			}
		}
		if lost == 0 || doubtful == 0 || longest < 5 {
			t.Errorf("%d calls failed before, %d after they took effect, at most %d reads in a row", lost, doubtful, longest)
		}
		if source, ok := d.(logical.Acknowledger); !ok || source.Acknowledge(t.Context(), nil) != nil && errors.Is(t.Context().Err(), context.Canceled) {
			t.Error("a dialect that wants no acknowledgements gets them")
		}
	})
}
