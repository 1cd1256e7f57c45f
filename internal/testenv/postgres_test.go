package testenv

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

var env Env

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

func count(t *testing.T, dsn string) (n int) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS t (x int); INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	for range 2 {
		if n := count(t, env.Postgres(t)); n != 1 {
			t.Errorf("a fresh database holds %d rows", n-1)
		}
	}
}

func TestKilledServerKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	server := StartPostgres(t, PostgresOptions{})
	dsn := server.DSN("postgres")
	count(t, dsn)
	server.Kill()
	server.Restart(t)
	if n := count(t, dsn); n != 2 {
		t.Errorf("%d rows after the restart, want 2", n)
	}
	server.Stop(t)
	server.Restart(t)
	if n := count(t, dsn); n != 3 {
		t.Errorf("%d rows after the second restart, want 3", n)
	}
}
