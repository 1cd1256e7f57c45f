package influxlogical

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// newQueue returns an open queue.
func newQueue(t *testing.T) *queue.Queue {
	t.Helper()
	store, err := queue.OpenStore(queue.StoreConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	q, err := store.Open("stream", queue.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = q.Close()
		_ = store.Close()
	})
	return q
}

func newDialect(q *queue.Queue, note func(Notice)) *dialect {
	return &dialect{queue: q, log: slog.New(slog.DiscardHandler), note: note, decoder: lineprotocol.NewDecoder(lineprotocol.DecoderConfig{})}
}

// stored returns what a target keeps of a stamp.
func stored(t *testing.T, stamp Stamp) []byte {
	t.Helper()
	text, err := json.Marshal(stamp)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// request appends one write request, each block of which has its own text.
func request(t *testing.T, q *queue.Queue, blocks ...string) {
	t.Helper()
	var group queue.Group
	for _, text := range blocks {
		if err := group.Add(queue.KindLineProtocol, strings.Count(text, "\n"), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	room, err := q.Reserve(&group)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := q.Append(t.Context(), room, &group); err != nil {
		t.Fatal(err)
	}
}

// TestPrefixOfAQueueBehindItsTarget has a target that remembers a point which the queue, restored from a backup,
// has not reached. Whatever happens to the first transaction and however often it does, everything in the queue
// arrives, and nothing is acknowledged before.
func TestPrefixOfAQueueBehindItsTarget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		at    memory.Site
		class logical.Class
		after bool
	}{
		"tried again":       {memory.SiteApply, logical.ClassRetry, false},
		"unknown, not done": {memory.SiteCommit, logical.ClassUnknownCommit, false},
		"unknown, done":     {memory.SiteCommit, logical.ClassUnknownCommit, true},
		"taken over anew":   {memory.SiteApply, logical.ClassFenced, false},
	} {
		for _, config := range []logical.Config{{}, {Immediate: true}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				q := newQueue(t)
				var mu sync.Mutex
				applied, failures, early := 0, 0, false
				const requests = 4
				target := memory.Open(memory.Config{
					Hook: func(_ string, at memory.Site, _ uint64) memory.Fault {
						mu.Lock()
						defer mu.Unlock()
						early = early || applied == 0 && q.Cursor() > 0
						if at == c.at && failures < 3 {
							failures++
							return memory.Fault{Err: &logical.Error{Err: context.DeadlineExceeded, Class: c.class}, After: c.after}
						}
						return memory.Fault{}
					},
					Observe: func(commit memory.Commit) {
						mu.Lock()
						defer mu.Unlock()
						applied += len(commit.Mutations)
					},
				})
				session, err := target.Take(t.Context(), logical.Claim{Loop: "loop", Holder: "test", TTL: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				point := stored(t, Stamp{Queue: q.ID(), Sequence: 100, Enqueued: 1})
				if err := session.SaveMemo(t.Context(), logical.MemoState{Point: point, Mode: "serial", ConsistentSince: time.Now()}); err != nil {
					t.Fatal(err)
				}
				if err := session.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				for i := range requests - 1 {
					request(t, q, fmt.Sprintf("m v=1i %d\n", i+1))
				}
				factory, err := loops.NewFactory(loops.FactoryConfig{Holder: "test", Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				notices := make(chan Notice, 100)
				d := newDialect(q, func(n Notice) { notices <- n })
				config.RetryDelay, config.RetryMax = time.Millisecond, 10*time.Millisecond
				loop, err := factory.Get(t.Context(), loops.Spec{Name: "loop", Dialect: d, Target: target, Config: config})
				if err != nil {
					t.Fatal(err)
				}
				if n := <-notices; n != NoticeBehind {
					t.Errorf("NOTHING SILENT: noticed %q", n)
				}
				request(t, q, fmt.Sprintf("m v=1i %d\n", requests))
				deadline := time.After(time.Minute)
				for q.Cursor() < q.Newest() {
					changed := loop.Changed()
					select {
					case <-changed:
					case <-time.After(10 * time.Millisecond): // an acknowledgement
					case <-deadline:
						t.Fatalf("the cursor is at %d of %d: %+v", q.Cursor(), q.Newest(), loop.Status())
					}
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				factory.Close(ctx)
				mu.Lock()
				defer mu.Unlock()
				rows := 0
				for _, table := range target.Snapshot().Tables {
					rows += len(table.Rows)
				}
				if rows != requests {
					t.Errorf("PREFIX: %d rows are in the target, want %d, and all is acknowledged", rows, requests)
				}
				if early {
					t.Error("PREFIX: something was acknowledged before anything was applied")
				}
			})
		}
	}
}

// TestStampsAreDecodedWithoutEffect decodes what is stored, as a loop does again and again, also of dead letters:
// that says the same each time, changes nothing in the queue, and tells nobody.
func TestStampsAreDecodedWithoutEffect(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	other := uuid.New()
	request(t, q, "m v=1i 1\n")
	notes := 0
	d := newDialect(q, func(Notice) { notes++ })
	good, behind, foreign := Stamp{Queue: q.ID(), Sequence: 1, Enqueued: 1}, Stamp{Queue: q.ID(), Sequence: 50}, Stamp{Queue: other, Sequence: 1}
	if err := d.Resume(t.Context(), stored(t, behind)); err != nil {
		t.Fatal(err)
	}
	notes = 0
	for range 3 {
		for from, want := range map[Stamp]Stamp{good: good, behind: {}, foreign: {}, {}: {}} {
			next := q.Next()
			got, err := d.DecodeStamp(stored(t, from))
			if err != nil || got != want || q.Next() != next {
				t.Errorf("%v was decoded as %v (%v), want %v; the queue's next went from %d to %d", from, got, err, want, next, q.Next())
			}
		}
		request(t, q, "m v=1i 1\n") // beyond what was disowned
	}
	if notes != 0 {
		t.Errorf("%d notices", notes)
	}
}
