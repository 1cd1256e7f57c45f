package proof

import (
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/logical"
)

// apply runs a loop into a database until it is at its source's end, and returns the target, and how many calls
// failed.
func apply(t *testing.T, config postgres.Config, ddl string, d *source, loop logical.Config) (*postgres.Target, float64) {
	t.Helper()
	config.DSN = env.Postgres(t)
	exec(t, config.DSN, ddl)
	target, err := postgres.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Close() })
	reg := prometheus.NewRegistry()
	metrics, err := loops.NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	factory, err := loops.NewFactory(loops.FactoryConfig{Holder: "one", Log: slog.New(slog.DiscardHandler), Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	defer factory.Close(t.Context())
	l, err := factory.Get(t.Context(), loops.Spec{Name: "loop", Dialect: d, Target: target, Config: loop})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if p, ok := l.Status().Point.(at); ok && p.N == len(d.txs) {
			return target, failures(t, reg)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the loop does not come to its end: %+v", l.Status())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func failures(t *testing.T, reg *prometheus.Registry) (n float64) {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		if family.GetName() == "logical_commit_failure_total" {
			for _, m := range family.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func exec(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func table(name string, columns ...string) *logical.Relation {
	r := &logical.Relation{Name: name}
	for i, column := range columns {
		r.Columns = append(r.Columns, logical.Column{Name: column, Kind: logical.KindInt64, Key: i == 0})
	}
	return r
}

func row(r *logical.Relation, values ...int64) logical.Mutation {
	m := logical.Mutation{Op: logical.OpUpsert, Relation: r}
	for _, v := range values {
		m.Values = append(m.Values, logical.Int64(v))
	}
	return m
}

// TestNothingSilentViolationsAtCommit: constraints that are checked when a transaction ends are violated for a
// while by mutations that a later one makes good. Only those that stay wrong are set aside.
func TestNothingSilentViolationsAtCommit(t *testing.T) {
	t.Parallel()
	parent, child := table("parent", "id"), table("child", "id", "parent")
	for name, immediate := range map[string]bool{"serial": false, "fan": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &source{batch: 4, txs: [][]logical.Mutation{
				{row(child, 1, 1), row(child, 2, 99), row(child, 3, 2), row(parent, 1), row(parent, 2)},
				{row(child, 4, 3), row(parent, 3)},
				{row(parent, 4), row(child, 5, 98), row(child, 6, 4)},
			}}
			target, _ := apply(t, postgres.Config{Conns: 8}, `CREATE TABLE parent (id bigint PRIMARY KEY);
				CREATE TABLE child (id bigint PRIMARY KEY, parent bigint REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`,
				d, logical.Config{OnReject: logical.RejectDeadLetter, Immediate: immediate, FanShards: 2, RetryDelay: time.Millisecond})
			letters, err := target.ListDeadLetters(t.Context(), "loop", 0, 10)
			if err != nil {
				t.Fatal(err)
			}
			if len(letters) != 2 || string(letters[0].Payload) != `{"id":"2","parent":"99"}` || string(letters[1].Payload) != `{"id":"5","parent":"98"}` {
				for _, l := range letters {
					t.Errorf("set aside: %s, because %s", l.Payload, l.Reason)
				}
			}
		})
	}
}

// TestFencedKeepsASlowTransactionAlive: the server ends transactions that are silent, so that a frozen client cannot
// hold its epoch, and the loop keeps its own alive whose source is slow.
func TestFencedKeepsASlowTransactionAlive(t *testing.T) {
	t.Parallel()
	r := table("t", "id", "v")
	d := &source{batch: 200, part: 3 * time.Second, txs: make([][]logical.Mutation, 1)}
	for i := range int64(600) {
		d.txs[0] = append(d.txs[0], row(r, i, i))
	}
	target, failed := apply(t, postgres.Config{Conns: 8, IdleTimeout: time.Second}, "CREATE TABLE t (id bigint PRIMARY KEY, v bigint)",
		d, logical.Config{BytesInFlight: logical.MinBytesInFlight, StandbyTimeout: 200 * time.Millisecond})
	if failed > 0 {
		t.Errorf("%v calls failed", failed)
	}
	_ = target
}
