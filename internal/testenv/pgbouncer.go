package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PgBouncerPackage is the Debian package that brings the pooler.
const PgBouncerPackage = "pgbouncer"

// StartPgBouncer starts a pooler in transaction mode in front of a server on the loopback address,
// and returns its port. It stops when the test ends.
func StartPgBouncer(t testing.TB, serverPort int) int {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		bin = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(bin); err != nil {
		if testing.Short() {
			t.Skipf("PgBouncer is not installed (Debian package %s)", PgBouncerPackage)
		}
		t.Fatalf("PgBouncer is not installed; install the Debian package %s, or run with -short", PgBouncerPackage)
	}
	dir, err := os.MkdirTemp("", "tailrace-pgbouncer-")
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port, err := freePort()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	config := filepath.Join(dir, "pgbouncer.ini")
	err = os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 10
max_client_conn = 500
`, serverPort, port), 0o644)
	if err == nil {
		err = handOver(dir)
	}
	if err == nil {
		err = handOver(config)
	}
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	proc, err := startProcess(bin, []string{config}, dir, filepath.Join(dir, "log"))
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(proc.killTree)
	awaitPort(t, proc, port, filepath.Join(dir, "log"))
	return port
}

// awaitPort waits until a server takes connections.
func awaitPort(t testing.TB, proc *process, port int, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable&default_query_exec_mode=exec", port))
		if err == nil {
			_ = conn.Close(ctx)
			return
		}
		select {
		case <-proc.done:
			text, _ := os.ReadFile(log)
			t.Fatalf("testenv: PgBouncer has exited: %v\n%s", proc.err, tail(string(text), 20))
		case <-ctx.Done():
			t.Fatalf("testenv: PgBouncer takes no connections: %v", err)
		case <-tick.C:
		}
	}
}
