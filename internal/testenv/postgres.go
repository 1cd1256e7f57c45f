package testenv

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pkg/errors"
)

// PostgresPackage is the Debian package that brings the server.
const PostgresPackage = "postgresql-15"

// PostgresOptions say how a server of a test's own differs from the shared one.
type PostgresOptions struct {
	// Settings are added to the server's command line.
	Settings map[string]string
	// HBA takes the place of pg_hba.conf; the default trusts everybody.
	HBA string
	// Version is the major version: "" is the one that the distribution brings, others are those that
	// scripts/postgres.sh fetches.
	Version string
	// Dir is where the data directory is made, such as a small file system; default a temporary one.
	Dir string
}

// Postgres is a running server. Its methods may be called by one goroutine at a time.
type Postgres struct {
	opts PostgresOptions
	bin  string
	root string // removed at the end
	data string
	port int
	proc *process

	databases atomic.Int64 // made so far
}

// Postgres returns the connection string of a fresh database on the server that the tests of this
// binary share. The database is dropped when the test ends.
func (e *Env) Postgres(t testing.TB) string {
	t.Helper()
	return e.sharedPostgres(t).Fresh(t)
}

func (e *Env) sharedPostgres(t testing.TB) *Postgres {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.postgres == nil && e.failed == nil {
		bin := postgresBin(t, "")
		e.postgres, e.failed = newPostgres(bin, PostgresOptions{})
	}
	if e.failed != nil {
		t.Fatalf("testenv: %v", e.failed)
	}
	return e.postgres
}

// StartPostgres starts a server for one test, which stops when the test ends.
func StartPostgres(t testing.TB, opts PostgresOptions) *Postgres {
	t.Helper()
	p, err := newPostgres(postgresBin(t, opts.Version), opts)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() {
		if err := p.shutdown(); err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
	return p
}

// Fresh returns the connection string of a fresh database, which is dropped when the test ends. It may be
// called concurrently.
func (p *Postgres) Fresh(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", p.databases.Add(1))
	p.exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { p.exec(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	return p.DSN(name)
}

// DSN returns the connection string of one of the server's databases, such as "postgres".
func (p *Postgres) DSN(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", p.port, database)
}

// Port returns the port that the server listens on, also after a restart.
func (p *Postgres) Port() int { return p.port }

// WriteFile writes a file into the data directory, such as standby.signal, for the next start.
func (p *Postgres) WriteFile(t testing.TB, name, content string) {
	t.Helper()
	path := filepath.Join(p.data, name)
	err := os.WriteFile(path, []byte(content), 0o600)
	if err == nil {
		err = handOver(path)
	}
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
}

// Kill ends the server and all of its processes with SIGKILL, as a power cut would.
func (p *Postgres) Kill() { p.proc.killTree() }

// Stop ends the server as an operator would, without waiting for its clients.
func (p *Postgres) Stop(t testing.TB) {
	t.Helper()
	if err := p.proc.stop(os.Interrupt); err != nil {
		t.Fatalf("testenv: stopping PostgreSQL: %v", err)
	}
}

// Restart starts the server again, on the same port and data, after Kill or Stop.
func (p *Postgres) Restart(t testing.TB) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatalf("testenv: %v", err)
	}
}

// Start is Restart for goroutines that must not end the test.
func (p *Postgres) Start() error { return p.start() }

func (p *Postgres) exec(t testing.TB, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.DSN("postgres"))
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("testenv: %s: %v", sql, err)
	}
}

// postgresBin finds the binaries of a version of the server, or ends the test.
func postgresBin(t testing.TB, version string) string {
	t.Helper()
	if version != "" {
		return fetchedBin(t, version)
	}
	if dir := os.Getenv("TAILRACE_POSTGRES_BIN"); dir != "" {
		return dir
	}
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	sort.Strings(dirs)
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append([]string{filepath.Dir(path)}, dirs...)
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if _, err := os.Stat(filepath.Join(dirs[i], "initdb")); err == nil {
			return dirs[i]
		}
	}
	if testing.Short() {
		t.Skipf("PostgreSQL is not installed (Debian package %s)", PostgresPackage)
	}
	t.Fatalf("PostgreSQL is not installed; install the Debian package %s, or run with -short", PostgresPackage)
	return ""
}

// newPostgres makes a cluster and starts its server.
func newPostgres(bin string, opts PostgresOptions) (*Postgres, error) {
	root, err := os.MkdirTemp(opts.Dir, "tailrace-postgres-")
	if err != nil {
		return nil, errors.Wrap(err, "PostgreSQL's directory")
	}
	p := &Postgres{opts: opts, bin: bin, root: root, data: filepath.Join(root, "data")}
	if err := p.init(); err != nil {
		_ = os.RemoveAll(root) // The error of the start is the one to report.
		return nil, err
	}
	return p, nil
}

func (p *Postgres) init() error {
	if err := handOver(p.root); err != nil {
		return err
	}
	initdb := exec.Command(filepath.Join(p.bin, "initdb"), "-D", p.data, "-U", "postgres", "-A", "trust",
		"-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir = p.root
	initdb.SysProcAttr = asServerUser()
	if out, err := initdb.CombinedOutput(); err != nil {
		return errors.Errorf("initdb: %v\n%s", err, out)
	}
	if p.opts.HBA != "" {
		if err := os.WriteFile(filepath.Join(p.data, "pg_hba.conf"), []byte(p.opts.HBA), 0o600); err != nil {
			return errors.Wrap(err, "pg_hba.conf")
		}
	}
	return p.start()
}

// start starts the server and waits until it takes connections. A port that somebody else was
// faster to take is exchanged for another, unless clients know it already.
func (p *Postgres) start() error {
	fixed := p.port != 0
	var err error
	for try := range 8 {
		// Processes of a server that was killed may take a moment to notice.
		<-time.After(time.Duration(try) * 100 * time.Millisecond)
		if !fixed {
			if p.port, err = freePort(); err != nil {
				return err
			}
		}
		if err = p.startOnce(); err == nil {
			return nil
		}
	}
	return err
}

func (p *Postgres) startOnce() error {
	settings := map[string]string{
		"port": fmt.Sprint(p.port), "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
		"wal_level": "logical", "max_connections": "200", "fsync": "on", "synchronous_commit": "on",
		"max_prepared_transactions": "10", "logging_collector": "off",
	}
	for name, value := range p.opts.Settings {
		settings[name] = value
	}
	args := []string{"-D", p.data}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	proc, err := startProcess(filepath.Join(p.bin, "postgres"), args, p.root, filepath.Join(p.root, "log"))
	if err != nil {
		return err
	}
	p.proc = proc
	if err := p.awaitReady(); err != nil {
		p.Kill()
		log, _ := os.ReadFile(filepath.Join(p.root, "log"))
		return errors.Errorf("PostgreSQL does not start: %v\n%s", err, tail(string(log), 20))
	}
	return nil
}

func (p *Postgres) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, p.superuserDSN())
		if err == nil {
			return conn.Close(ctx)
		}
		// A server that asks for a password is up.
		if strings.Contains(err.Error(), "28P01") || strings.Contains(err.Error(), "28000") {
			return nil
		}
		select {
		case <-p.proc.done:
			return errors.Errorf("it has exited: %v", p.proc.err)
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

func (p *Postgres) superuserDSN() string { return p.DSN("postgres") }

// shutdown ends the server, if it runs, and removes its data.
func (p *Postgres) shutdown() error {
	err := p.proc.stop(os.Interrupt)
	if removeErr := os.RemoveAll(p.root); err == nil {
		err = removeErr
	}
	return errors.Wrap(err, "stopping PostgreSQL")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, errors.Wrap(err, "no free port")
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
