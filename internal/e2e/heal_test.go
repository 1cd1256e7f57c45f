package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInternalNamesOfMeasurements writes measurements that are called like tables of SQLite or of
// Tailrace: they get other names, and the stream goes on.
func TestInternalNamesOfMeasurements(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir())
	p.write("cpu v=1 1")
	db := openTarget(t, p.dir)
	awaitCount(t, db, "SELECT count(*) FROM cpu", 1)
	p.write("_tailrace_memo v=1 1\n_tailrace_dead_letters v=1 1\nsqlite_sequence v=1 1\n_TAILRACE_MEMO v=2 1")
	p.write("cpu v=2 2")
	awaitCount(t, db, "SELECT count(*) FROM cpu", 2)
	awaitCount(t, db, "SELECT count(*) FROM _tailrace_tables", 5)
}

// TestReadOnlyDatabaseHeals makes the sessions of a database read-only for a while, as managed servers do
// when their disk is full.
func TestReadOnlyDatabaseHeals(t *testing.T) {
	t.Parallel()
	dsn := env.Postgres(t)
	db := openPostgres(t, dsn)
	p := launch(t, t.TempDir(), "--targetConn", dsn, "--retryDelay", "50ms")
	p.write("m v=1 1000")
	awaitCount(t, db, "SELECT count(*) FROM m", 1)
	var name string
	if err := db.QueryRow("SELECT current_database()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	execute(t, db, "ALTER DATABASE "+name+" SET default_transaction_read_only = on",
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tailrace'")
	p.write("m v=2 2000")
	trouble{p, db}.says("read-only")
	execute(t, db, "SET default_transaction_read_only = off", "ALTER DATABASE "+name+" SET default_transaction_read_only = off")
	awaitCount(t, db, "SELECT count(*) FROM m", 2)
}

// TestRepairOfTheWrongDirectory gives queue commands the data directory and not a queue's.
func TestRepairOfTheWrongDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	launch(t, dir).stop()
	for _, verb := range []string{"stat", "verify", "dump", "repair"} {
		if code, _, stderr := run(t, "", "queue", verb, dir); code != 1 || !strings.Contains(stderr, "holds no queue") {
			t.Errorf("%s: exit code %d, %s", verb, code, stderr)
		}
	}
	for _, file := range []string{"token", "installation.json", "replicationq"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
}

// TestDiskThatIsToStayFreeIsNotReady refuses writes as unavailable, and says so to a load balancer.
func TestDiskThatIsToStayFreeIsNotReady(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir(), "--keepFree", "100TB")
	if status, text := p.fill(t, 1); status != http.StatusServiceUnavailable {
		t.Fatalf("the write is answered %d %s", status, text)
	}
	resp, err := http.Get(p.url + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/ready answers %d", resp.StatusCode)
	}
}
