package logical

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestIsolatedManyIdleLoopsShareFewConnections has many loops on the few connections of one target: all of
// them are taken over, apply something, and renew their leases while they are idle.
func TestIsolatedManyIdleLoopsShareFewConnections(t *testing.T) {
	t.Parallel()
	loops := logicaltest.Count(60, 1000)
	server := testenv.StartPostgres(t, testenv.PostgresOptions{Settings: map[string]string{"max_connections": "30"}})
	dsn := server.Fresh(t)
	target, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Conns: logicaltest.Count(6, 16), ApplyTimeout: patience, LockTimeout: patience, IdleTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	factory := quietFactory(t, FactoryConfig{Target: target, Config: logical.Config{ApplyTimeout: patience, LeaseTTL: 30 * time.Second, BackfillWindow: 10 * time.Minute}})
	goroutines, bytes := footprint()
	begun := time.Now()
	all := make([]*Loop, loops)
	for i := range all {
		point := logical.Mutation{Op: logical.OpPatch, Relation: measurement, Values: []logical.Value{
			logical.UnixNano(int64(i)), logical.UUID(&[16]byte{byte(i), byte(i >> 8)}), logical.Int64(int64(i)),
		}}
		source := &tape{txs: [][]logical.Mutation{{point}}, when: func(int) time.Time { return begun }}
		if all[i], err = factory.Get(t.Context(), Spec{Name: fmt.Sprint("loop ", i), Dialect: source}); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range all {
		until(l, patience, func(s Status) bool { return s.Point != nil && s.Point.(at).N == 1 })
	}
	took := time.Since(begun)
	renewed(t, dsn, loops)
	g, b := footprint()
	t.Logf("%d loops were taken over and applied in %s; an idle one has %.2f goroutines and %d bytes",
		loops, took.Round(time.Millisecond), float64(g-goroutines)/float64(loops), (b-bytes)/int64(loops))
	for _, l := range all {
		l.mu.Lock()
		lost := l.counts.leasesLost
		l.mu.Unlock()
		if s := l.Status(); s.State != StateRunning || s.Point.(at).N != 1 || lost > 0 {
			t.Errorf("%s: %+v, %d leases lost", l.Name(), s, lost)
		}
	}
	factory.Close(t.Context())
	if err := target.Close(); err != nil {
		t.Error(err)
	}
}

// patience is how long a busy machine may take.
const patience = 10 * time.Minute

// renewed waits until the leases of all loops have been renewed since it was called.
func renewed(t *testing.T, dsn string, loops int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var before, oldest time.Time
	var held int
	if err := conn.QueryRow(t.Context(), "SELECT max(expires) FROM _tailrace.leases").Scan(&before); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !oldest.After(before) || held != loops; {
		err := conn.QueryRow(t.Context(), "SELECT min(expires), count(*) FILTER (WHERE holder <> '') FROM _tailrace.leases").Scan(&oldest, &held)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("of %d leases %d are held, the oldest until %s, and that is not after %s; %v", loops, held, oldest, before, err)
		}
		_ = sleep(t.Context(), 200*time.Millisecond)
	}
}

var measurement = logicaltest.Points("many", nil, logicaltest.Field("v", logical.KindInt64))
