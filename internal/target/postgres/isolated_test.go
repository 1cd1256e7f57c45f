package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestIsolatedFromLoopsThatWaitForTheirTables: somebody reads tables for long, as pg_dump does, and several loops want
// new columns in them. Another loop is taken over, and gets its table and its columns, while the reader is still there.
func TestIsolatedFromLoopsThatWaitForTheirTables(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{4, 8} { // few: those who wait for tables and those who take loops over share a connection
		t.Run(fmt.Sprint(conns), func(t *testing.T) {
			t.Parallel()
			target := open(t, Config{Conns: conns, LockTimeout: 500 * time.Millisecond})
			const loops = 5
			field := func(n int, name string) *logical.Relation {
				return logicaltest.Points(fmt.Sprint("m", n), []string{"host"}, logicaltest.Field(name, logical.KindInt64))
			}
			var sessions []logical.Session
			reader := connect(t, target)
			if _, err := reader.Exec(t.Context(), "BEGIN"); err != nil {
				t.Fatal(err)
			}
			for n := range loops {
				s := take(t, target, fmt.Sprint("loop", n), "me")
				sessions = append(sessions, s)
				if err := logicaltest.Apply(t.Context(), s, logicaltest.Point(field(n, "v"), 1000, 1, logical.Text("h"), logical.Int64(1))); err != nil {
					t.Fatal(err)
				}
				if _, err := reader.Exec(t.Context(), fmt.Sprintf("LOCK TABLE m%d IN ACCESS SHARE MODE", n)); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			gone, release := context.WithCancel(ctx)
			var waiting sync.WaitGroup
			for n, s := range sessions {
				waiting.Go(func() {
					for gone.Err() == nil {
						if err := s.Prepare(gone, []*logical.Relation{field(n, "w")}); err == nil {
							t.Errorf("loop %d has its column although the table is in use", n)
							return
						}
					}
				})
			}
			until(t, func() bool {
				return rows(t, target, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'")[0][0] == "t"
			})
			other, err := target.Take(ctx, logical.Claim{Loop: "other", Holder: "me"})
			if err != nil {
				t.Error("taking a loop over:", err)
			} else {
				for _, name := range []string{"v", "w"} { // a new table, and a new column
					if err := other.Prepare(ctx, []*logical.Relation{field(99, name)}); err != nil {
						t.Error("tables of others:", err)
					}
				}
				if err := other.Fence(ctx); err != nil {
					t.Error("raising an epoch:", err)
				}
				if err := other.Release(ctx); err != nil {
					t.Error(err)
				}
			}
			release()
			waiting.Wait()
			if _, err := reader.Exec(t.Context(), "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
			for n, s := range sessions {
				if err := s.Prepare(t.Context(), []*logical.Relation{field(n, "w")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestIsolatedFromLoopsThatCannotBeTakenOver: transactions of several loops hang at the server, and their successors
// wait for them. Another loop is taken over meanwhile.
func TestIsolatedFromLoopsThatCannotBeTakenOver(t *testing.T) {
	t.Parallel()
	frozen := open(t, Config{})
	target := open(t, Config{DSN: frozen.cfg.DSN, ApplyTimeout: 2 * time.Minute})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const loops = 4
	var hanging []logical.Tx
	for n := range loops {
		s := take(t, frozen, fmt.Sprint("loop", n), "me")
		x, err := s.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		hanging = append(hanging, x)
		if err := x.SetMemo(ctx, logical.MemoState{Point: []byte("1"), Mode: "serial"}); err != nil {
			t.Fatal(err)
		}
		if err := x.Apply(ctx, nil); err != nil { // it is sent
			t.Fatal(err)
		}
	}
	taken := make(chan error, loops)
	for n := range loops {
		go func() {
			s, err := target.Take(ctx, logical.Claim{Loop: fmt.Sprint("loop", n), Holder: "me"})
			if err == nil {
				err = s.Release(ctx)
			}
			taken <- err
		}()
	}
	for n := range 5 {
		awaitWaiters(t, frozen, 1, func() bool { return len(taken) > 0 })
		s, err := target.Take(ctx, logical.Claim{Loop: fmt.Sprint("other", n), Holder: "me"})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Release(ctx); err != nil {
			t.Error(err)
		}
	}
	if len(taken) > 0 {
		t.Errorf("a loop whose transaction is open was taken over: %v", <-taken)
	}
	for _, x := range hanging {
		if err := x.Rollback(ctx); err != nil {
			t.Error(err)
		}
	}
	for range loops {
		if err := <-taken; err != nil {
			t.Error(err)
		}
	}
}
