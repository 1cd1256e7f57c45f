package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// A batch is one write request. Every line has a number of its own, in a tag, so that it is a series
// of its own and no other line can hide it.
type batch struct {
	first, n int
	acked    bool
}

func (b batch) body() string {
	var text strings.Builder
	for i := b.first; i < b.first+b.n; i++ {
		if i%3 == 0 {
			fmt.Fprintf(&text, "kill,n=%d value=%di\n", i, value(i)) // the server gives it a time
		} else {
			fmt.Fprintf(&text, "kill,n=%d value=%di %d\n", i, value(i), 1_700_000_000_000_000_000+int64(i))
		}
	}
	return text.String()
}

// value is what line i carries.
func value(i int) int { return i*7919 + 13 }

// TestAckedPointsSurviveKillsExactlyOnce writes from eight clients while the server is killed again and
// again. Nothing is written twice by the clients, so every acknowledged line must have been applied
// exactly once, which a trigger counts; a write without an answer is there as a whole or not at all.
func TestAckedPointsSurviveKillsExactlyOnce(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	dir := t.TempDir()
	counted(t, dir)
	start := func(int) *process { return launch(t, dir) }
	batches := underKills(t, random, testenv.Count(10, 200), start, func(int, *process) {
		<-time.After(time.Duration(random.IntN(400)) * time.Millisecond)
	})
	p := launch(t, dir)
	db := openTarget(t, dir)
	p.arrived(db, batches)
	check(t, db, batches, once)
	if code := p.stop(); code != 0 {
		t.Errorf("exit status %d:\n%s", code, p.output())
	}
}

// counted makes the table and a trigger that counts how often each line was applied.
func counted(t *testing.T, dir string) {
	t.Helper()
	p := launch(t, dir)
	p.write("kill,n=first value=0i")
	db := openTarget(t, dir)
	eventually(t, 30*time.Second, "the first point has not arrived", func() bool {
		var n int
		return db.QueryRow("SELECT count(*) FROM kill").Scan(&n) == nil && n == 1
	})
	for _, stmt := range []string{
		`CREATE TABLE applied (n TEXT) STRICT`,
		`CREATE TRIGGER applied_insert AFTER INSERT ON kill BEGIN INSERT INTO applied VALUES (new.n); END`,
		`CREATE TRIGGER applied_update AFTER UPDATE ON kill BEGIN INSERT INTO applied VALUES (new.n); END`,
	} {
		if _, err := db.Exec(stmt); err != nil {
			t.Fatal(err)
		}
	}
	p.kill()
}

// underKills writes from eight clients and kills the server again and again: each server that start
// makes is killed when strike returns. Both are told the number of the round.
func underKills(
	t *testing.T, random *rand.Rand, kills int, start func(round int) *process, strike func(round int, p *process),
) []batch {
	t.Helper()
	w := writes{t: t, next: 1, random: rand.New(rand.NewPCG(random.Uint64(), 1))}
	for round := range kills {
		p := start(round)
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() { w.client(p, p.token(), stop) })
		}
		strike(round, p)
		p.kill()
		close(stop)
		clients.Wait()
	}
	return w.batches
}

// writes are what the clients of a test write.
type writes struct {
	t *testing.T

	mu      sync.Mutex
	random  *rand.Rand
	next    int
	batches []batch
}

// client writes one batch after the other until it is stopped, or gets no answer.
func (w *writes) client(p *process, token string, stop <-chan struct{}) {
	pause := time.NewTicker(20 * time.Millisecond) // leaves some of the machine to the server
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-stop:
			return
		}
		b := w.draw()
		status, text, err := p.post(token, "/api/v2/write?bucket=default", b.body())
		b.acked = err == nil && status == http.StatusNoContent
		if err == nil && !b.acked {
			w.t.Errorf("status %d: %s", status, text)
		}
		w.mu.Lock()
		w.batches = append(w.batches, b)
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (w *writes) draw() batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := batch{first: w.next, n: 1 + w.random.IntN(40)}
	w.next += b.n
	return b
}

// arrived waits until everything that was acknowledged is in the target, and the queue is empty.
func (p *process) arrived(db *sql.DB, batches []batch) {
	p.t.Helper()
	acked := 0
	for _, b := range batches {
		if b.acked {
			acked += b.n
		}
	}
	p.t.Logf("%d writes, %d acknowledged points", len(batches), acked)
	eventually(p.t, time.Minute, "not everything has arrived", func() bool {
		return p.metric("replications_queue_current_bytes_queued") == 0 &&
			count(p.t, db, "SELECT count(*) FROM kill WHERE n <> 'first'") >= acked
	})
}

// once is for check: no line may have been applied more than once.
func once(int) bool { return true }

// check compares the target with what was written. An acknowledged line must have been applied, and
// exactly once where exact says so.
func check(t *testing.T, db *sql.DB, batches []batch, exact func(line int) bool) {
	t.Helper()
	values, applied := map[string]int{}, map[string]int{}
	pairs(t, db, "SELECT n, value FROM kill", values)
	pairs(t, db, "SELECT n, count(*) FROM applied GROUP BY n", applied)
	for _, b := range batches {
		there := 0
		for i := b.first; i < b.first+b.n; i++ {
			n := fmt.Sprint(i)
			v, ok := values[n]
			if ok {
				there++
			}
			switch {
			case ok && v != value(i):
				t.Errorf("line %d: value %d, want %d", i, v, value(i))
			case b.acked && (!ok || applied[n] == 0):
				t.Errorf("line %d was acknowledged and is not there; applied %d times", i, applied[n])
			case applied[n] > 1 && exact(i):
				t.Errorf("line %d was applied %d times", i, applied[n])
			}
		}
		if there != 0 && there != b.n {
			t.Errorf("a write of %d lines is there with %d of them", b.n, there)
		}
	}
}

func pairs(t *testing.T, db *sql.DB, query string, into map[string]int) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var key string
		var n int
		if err := rows.Scan(&key, &n); err != nil {
			t.Fatal(err)
		}
		if _, twice := into[key]; twice {
			t.Errorf("%s: %s is there twice", query, key)
		}
		into[key] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

func openTarget(t *testing.T, dir string) *sql.DB {
	t.Helper()
	return openSQLite(t, filepath.Join(dir, "target.db"))
}

func openSQLite(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := driver.Open("file:" + path + "?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// holdSQLite keeps others from writing to a database, until the returned function is called or the test
// ends.
func holdSQLite(t *testing.T, db *sql.DB) (release func()) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	release = sync.OnceFunc(func() {
		if _, err := conn.ExecContext(context.Background(), "ROLLBACK"); err != nil {
			t.Errorf("giving the lock back: %v", err)
		}
		_ = conn.Close()
	})
	t.Cleanup(release)
	return release
}

func count(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
