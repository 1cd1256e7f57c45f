package e2e

import (
	"database/sql"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// openPostgres returns a handle of a test on a database.
func openPostgres(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execute(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, stmt := range statements {
		if _, err := db.Exec(stmt); err != nil {
			t.Fatalf("%s: %v", stmt, err)
		}
	}
}

// awaitCount waits until a query returns a number. Errors, such as that a table is not there yet, are
// waited out too.
func awaitCount(t *testing.T, db *sql.DB, query string, want int) {
	t.Helper()
	var n int
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("%s: got %d, %v; want %d", query, n, err, want)
		}
	}()
	eventually(t, time.Minute, query+" does not come to what it should", func() bool {
		err = db.QueryRow(query).Scan(&n)
		return err == nil && n == want
	})
}

// holdTable takes a lock that keeps others from writing to a table, until the returned function is
// called or the test ends.
func holdTable(t *testing.T, db *sql.DB, table string) (release func()) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = tx.Rollback() } // it may have ended
	t.Cleanup(release)
	if _, err := tx.Exec("LOCK TABLE " + table + " IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	return release
}

// lockWaiters is the query for the number of the server's sessions that wait for a lock.
const lockWaiters = `SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'tailrace' AND datname = current_database() AND wait_event_type = 'Lock'`

// column returns the numbers that a query selects.
func column(t *testing.T, db *sql.DB, query string) (numbers []int) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return numbers
}
