package logical

import (
	"fmt"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestIsolatedManyIdleLoopsShareFewConnections has many loops on the 16 connections of one target: all of
// them are taken over, apply something, and keep their leases while they are idle.
func TestIsolatedManyIdleLoopsShareFewConnections(t *testing.T) {
	t.Parallel()
	loops, ttl := logicaltest.Count(150, 1000), time.Duration(logicaltest.Count(10, 30))*time.Second
	server := testenv.StartPostgres(t, testenv.PostgresOptions{Settings: map[string]string{"max_connections": "30"}})
	target, err := postgres.Open(t.Context(), postgres.Config{DSN: server.Fresh(t), Conns: 16})
	if err != nil {
		t.Fatal(err)
	}
	factory := quietFactory(t, FactoryConfig{Target: target, Config: logical.Config{LeaseTTL: ttl, BackfillWindow: 10 * time.Minute}})
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
		until(l, 5*time.Minute, func(s Status) bool { return s.Point != nil && s.Point.(at).N == 1 })
	}
	took := time.Since(begun)
	// A lease that is not renewed is lost after its time; each is renewed three times within it.
	if err := sleep(t.Context(), ttl*6/5); err != nil {
		t.Fatal(err)
	}
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

var measurement = logicaltest.Points("many", nil, logicaltest.Field("v", logical.KindInt64))
