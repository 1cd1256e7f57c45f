package influxlogical

import (
	"context"
	stderrors "errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tailrace-cdc/tailrace/internal/queue"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// notes are events, one text each.
type notes []string

func (n *notes) OnBegin(_ context.Context, s logical.Stamp) error {
	*n = append(*n, fmt.Sprintf("begin %d", s.(Stamp).Sequence))
	return nil
}

func (n *notes) OnData(_ context.Context, m []logical.Mutation) error {
	for i := range m {
		*n = append(*n, m[i].Relation.Name)
	}
	return nil
}

func (n *notes) OnCommit(context.Context) error {
	*n = append(*n, "commit")
	return nil
}

func (n *notes) OnRollback(context.Context) error {
	*n = append(*n, "rollback")
	return nil
}

// outbox hands each message to the processor at once, and ends the read after so many.
type outbox struct {
	p    *processor
	left int
}

func (o *outbox) Send(ctx context.Context, msg logical.Message) error {
	if err := o.p.pass(ctx, msg.Body.(passage)); err != nil {
		return err
	}
	if o.left--; o.left == 0 {
		return errRead
	}
	return nil
}

var errRead = stderrors.New("as much as was wanted")

// TestAtomicThoughAGroupIsDroppedWhileRead drops a write of which one block has been read: the next one is a
// transaction of its own, with its own stamp.
func TestAtomicThoughAGroupIsDroppedWhileRead(t *testing.T) {
	t.Parallel()
	for _, unread := range []bool{false, true} { // another one is dropped that nobody has begun to read
		q := newQueue(t)
		log := &notes{}
		d := newDialect(q, nil)
		request(t, q, "first v=1i 1\n", "first v=2i 2\n", "first v=3i 3\n")
		want := "begin 3, first, commit, begin 4, second, commit"
		if unread {
			request(t, q, "unread v=1i 1\n")
			want = "begin 3, first, commit, begin 4, commit, begin 5, second, commit"
		}
		out := &outbox{p: &processor{dialect: d, events: log}, left: 2}
		dropping := &dropAfterFirst{outbox: out, drop: func() {
			if _, err := q.Purge(); err != nil {
				t.Fatal(err)
			}
			request(t, q, "second v=1i 1\n")
		}}
		if err := d.ReadInto(t.Context(), Stamp{}, dropping); !stderrors.Is(err, errRead) {
			t.Fatal(err)
		}
		if got := strings.Join(*log, ", "); got != want {
			t.Errorf("ATOMIC: got %s, want %s", got, want)
		}
	}
}

type dropAfterFirst struct {
	*outbox
	drop func()
}

func (d *dropAfterFirst) Send(ctx context.Context, msg logical.Message) error {
	err := d.outbox.Send(ctx, msg)
	if d.drop != nil {
		d.drop()
		d.drop = nil
	}
	return err
}

// TestPrefixSkipsNothingOfAnotherTransaction has a target that holds the first mutations of a transaction after the
// consistent point, which is no longer what comes next: it was dropped, or the queue is another one. All of what does come
// next arrives.
func TestPrefixSkipsNothingOfAnotherTransaction(t *testing.T) {
	t.Parallel()
	for name, point := range map[string]func(q *queue.Queue) Stamp{
		"dropped":       func(q *queue.Queue) Stamp { return Stamp{Queue: q.ID(), Sequence: 1} },
		"never begun":   func(*queue.Queue) Stamp { return Stamp{} },
		"another queue": func(*queue.Queue) Stamp { return Stamp{Queue: uuid.New(), Sequence: 7} },
		"ahead":         func(q *queue.Queue) Stamp { return Stamp{Queue: q.ID(), Sequence: 7} },
	} {
		for _, config := range []logical.Config{{}, {Immediate: true}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				q := newQueue(t)
				if name == "dropped" || name == "never begun" {
					request(t, q, "m v=0i 100\n")
					request(t, q, "m v=0i 101\n", "m v=0i 102\n")
					if _, err := q.Purge(); err != nil {
						t.Fatal(err)
					}
				}
				const points = 5
				var lines strings.Builder
				for i := range points {
					fmt.Fprintf(&lines, "m v=1i %d\n", i)
				}
				var mu sync.Mutex
				var applied []string
				target := memory.Open(memory.Config{Observe: func(c memory.Commit) {
					mu.Lock()
					defer mu.Unlock()
					for _, m := range c.Mutations {
						applied = append(applied, fmt.Sprint(m.Values[0].Time().UnixNano()))
					}
				}})
				session, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "test", TTL: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				if err := session.SaveMemo(t.Context(), logical.MemoState{Point: stored(t, point(q)), Skip: 2, Mode: "fan"}); err != nil {
					t.Fatal(err)
				}
				if err := session.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				request(t, q, lines.String())
				factory, err := loops.NewFactory(loops.FactoryConfig{Holder: "test", Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				d := newDialect(q, func(Notice) {})
				loop, err := factory.Get(t.Context(), loops.Spec{Name: "loop", Dialect: d, Target: target, Config: config})
				if err != nil {
					t.Fatal(err)
				}
				deadline := time.After(time.Minute)
				for q.Cursor() < q.Newest() {
					select {
					case <-time.After(10 * time.Millisecond):
					case <-deadline:
						t.Fatalf("the cursor is at %d of %d: %+v", q.Cursor(), q.Newest(), loop.Status())
					}
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				factory.Close(ctx)
				slices.Sort(applied)
				if len(applied) != points {
					t.Errorf("PREFIX: of %d points %v have arrived", points, applied)
				}
			})
		}
	}
}
