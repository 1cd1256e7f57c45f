package postgres

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestConformanceBehindPgBouncer goes through a pooler in transaction mode, where neither settings nor
// prepared statements outlive a transaction.
func TestConformanceBehindPgBouncer(t *testing.T) {
	t.Parallel()
	first := open(t, Config{})
	port := testenv.StartPgBouncer(t, portOf(t, first))
	logicaltest.RunTarget(t, func(t testing.TB) logical.Target {
		return open(t, Config{DSN: viaPort(t, env.Postgres(t), port), Pooled: true})
	}, conformance())
}

// What a session needs is set in each transaction, and does not leak into those of others.
func TestPooledSettings(t *testing.T) {
	t.Parallel()
	first := open(t, Config{})
	port := testenv.StartPgBouncer(t, portOf(t, first))
	exec(t, first, "ALTER DATABASE "+rows(t, first, "SELECT current_database()")[0][0]+" SET synchronous_commit = off")
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	target := open(t, Config{DSN: viaPort(t, first.cfg.DSN, port), Pooled: true, Logger: logger, Conns: 3})
	s := take(t, target, "loop", "me")
	for _, want := range []string{"postgres: connected", "tls=none", "synchronous_commit=on"} { // DURABLE THERE is said
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %s:\n%s", want, log.String())
		}
	}
	exec(t, first, `CREATE TABLE seen (level text, zone text, timeout text);
CREATE TABLE m ("time" timestamptz, nanos smallint, series uuid, v bigint, PRIMARY KEY ("time", series, nanos));
CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
INSERT INTO seen VALUES (current_setting('synchronous_commit'), current_setting('TimeZone'), current_setting('statement_timeout')); RETURN NEW; END $$;
CREATE TRIGGER look BEFORE INSERT ON m FOR EACH ROW EXECUTE FUNCTION look()`)
	_, mut := value(1)
	if err := logicaltest.Apply(t.Context(), s, mut(1)); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, first, "SELECT level, zone, timeout FROM seen")[0]; got[0] != "on" || got[1] != "UTC" || got[2] != "30s" {
		t.Errorf("got %v", got)
	}
}
