package factory_test

import (
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/factory"
	"github.com/tailrace-cdc/tailrace/logical/target/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbers sends one row for each number up to its own, and knows the commit times.
type numbers int

type number int

func (n number) Compare(other logical.Stamp) int { return int(n - other.(number)) }
func (n number) Offset() uint64                  { return uint64(n) }

func (n *numbers) ZeroStamp() logical.Stamp { return number(0) }

func (n *numbers) DecodeStamp(stored []byte) (logical.Stamp, error) {
	var s number
	_, err := fmt.Sscan(string(stored), &s)
	return s, err
}

func (n *numbers) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	for i := from.(number) + 1; i <= number(*n); i++ {
		if err := out.Send(ctx, logical.Message{Body: i, Size: 8}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

var table = &logical.Relation{Name: "numbers", Columns: []logical.Column{{Name: "n", Kind: logical.KindInt64, Key: true}}}

func (n *numbers) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	for {
		msg, err := in.Receive(ctx)
		if err == nil && msg.Rollback {
			err = events.OnRollback(ctx)
		} else if err == nil {
			i := msg.Body.(number)
			if err = events.OnBegin(ctx, i); err == nil {
				if err = events.OnData(ctx, []logical.Mutation{{Op: logical.OpUpsert, Relation: table, Values: []logical.Value{logical.Int64(int64(i))}}}); err == nil {
					err = events.OnCommit(ctx)
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

func (n *numbers) OldestPending(after logical.Stamp) (time.Time, bool) {
	if after.(number) >= number(*n) {
		return time.Time{}, true
	}
	return time.Now(), true
}

func (n *numbers) Newest() (logical.Stamp, bool) { return number(*n), true }

// TestTwoFactoriesInOneProcess also passes registries in: each sees its own loops, and nothing is global.
func TestTwoFactoriesInOneProcess(t *testing.T) {
	t.Parallel()
	for i := range 2 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			target, registry := memory.Open(), prometheus.NewRegistry()
			f, err := factory.New(factory.Config{
				Holder: fmt.Sprint("holder ", i), Target: target, Registerer: registry, Log: slog.New(slog.DiscardHandler),
				BytesInFlight: 1 << 20,
			})
			if err != nil {
				t.Fatal(err)
			}
			source := numbers(100 * (i + 1))
			loop, err := f.Get(t.Context(), factory.Spec{Name: "loop", Dialect: &source})
			if err != nil {
				t.Fatal(err)
			}
			if err := loop.Wait(t.Context(), factory.Status.CaughtUp); err != nil {
				t.Fatal(err)
			}
			if rows := target.Rows("numbers"); len(rows) != int(source) {
				t.Errorf("%d rows, want %d", len(rows), source)
			}
			if s := loop.Status(); s.State != factory.Running || s.Mode != "serial" || s.Offset != uint64(source) || s.Mutations != int64(source) {
				t.Errorf("status %+v", s)
			}
			if n := series(t, registry, "loop"); n == 0 {
				t.Error("the loop has no metrics")
			}
			if now, _, limit := f.BytesInFlight(); now != 0 || limit != 1<<20 {
				t.Errorf("%d bytes of %d are in flight", now, limit)
			}
			f.Remove(t.Context(), "loop")
			if n := series(t, registry, "loop"); n != 0 {
				t.Errorf("the loop is gone, and has %d series", n)
			}
			<-loop.Done()
			if err := loop.Wait(t.Context(), func(s factory.Status) bool { return s.State == factory.Running }); err == nil {
				t.Error("waited for a loop that has ended")
			}
			f.Close(t.Context())
			if err := target.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// series counts what a registry has of a loop.
func series(t *testing.T, registry *prometheus.Registry, loop string) (n int) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "loop" && l.GetValue() == loop {
					n++
				}
			}
		}
	}
	return n
}

func TestMistakesAreTold(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	for what, config := range map[string]factory.Config{
		"no holder":      {},
		"a small budget": {Holder: "me", BytesInFlight: 1},
		"bad settings":   {Holder: "me", Loop: logical.Config{FanShards: -1}},
	} {
		if _, err := factory.New(config); err == nil {
			t.Errorf("%s is no error", what)
		}
	}
	for i := range 2 {
		_, err := factory.New(factory.Config{Holder: "me", Registerer: registry})
		if (err != nil) != (i == 1) {
			t.Errorf("factory %d of one registry: %v", i, err)
		}
	}
}

// TestNoDriverIsLinkedThatIsNotUsed looks at what the public packages depend on.
func TestNoDriverIsLinkedThatIsNotUsed(t *testing.T) {
	t.Parallel()
	const ours = "github.com/tailrace-cdc/tailrace/"
	drivers := []string{
		"github.com/jackc/pgx", "github.com/ncruces/go-sqlite3", "github.com/influxdata/", "testing",
		ours + "internal/target/memory", ours + "internal/target/sqlite", ours + "internal/target/postgres", ours + "internal/target/influx",
	}
	for pkg, uses := range map[string][]string{
		"logical":                 nil,
		"logical/factory":         nil,
		"logical/target/memory":   {ours + "internal/target/memory"},
		"logical/target/sqlite":   {"github.com/ncruces/go-sqlite3", ours + "internal/target/sqlite"},
		"logical/target/influx":   {ours + "internal/target/influx"},
		"logical/deadletter":      {"github.com/ncruces/go-sqlite3"},
		"logical/target/postgres": {"github.com/jackc/pgx", ours + "internal/target/postgres"},
	} {
		list, err := exec.Command("go", "list", "-deps", ours+pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, list)
		}
		has := func(names []string, dep string) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(dep, name) })
		}
		used := 0
		for _, dep := range strings.Fields(string(list)) {
			if has(uses, dep) {
				used++
			} else if has(drivers, dep) {
				t.Errorf("%s depends on %s", pkg, dep)
			}
		}
		if len(uses) > 0 && used == 0 {
			t.Errorf("%s does not depend on what it is said to use", pkg)
		}
	}
}
