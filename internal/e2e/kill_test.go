package e2e

import (
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
	batches := underKills(t, dir, random, soak(10, 200))
	p := launch(t, dir)
	db := openTarget(t, dir)
	acked := 0
	for _, b := range batches {
		if b.acked {
			acked += b.n
		}
	}
	eventually(t, time.Minute, "not everything has arrived", func() bool {
		return count(t, db, "SELECT count(*) FROM kill WHERE n <> 'first'") >= acked && p.metric("replications_queue_current_bytes_queued") == 0
	})
	check(t, db, batches)
	t.Logf("%d writes, %d acknowledged points", len(batches), acked)
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

// underKills writes from eight clients and kills the server at random moments.
func underKills(t *testing.T, dir string, random *rand.Rand, kills int) []batch {
	t.Helper()
	var mu sync.Mutex
	var batches []batch
	next := 1
	draw := func() batch {
		mu.Lock()
		defer mu.Unlock()
		b := batch{first: next, n: 1 + random.IntN(40)}
		next += b.n
		return b
	}
	for range kills {
		p := launch(t, dir)
		token := p.token()
		stop := make(chan struct{})
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					b := draw()
					status, text, err := p.post(token, "/api/v2/write?bucket=default", b.body())
					b.acked = err == nil && status == http.StatusNoContent
					if err == nil && !b.acked {
						t.Errorf("status %d: %s", status, text)
					}
					mu.Lock()
					batches = append(batches, b)
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
		mu.Lock()
		after := time.Duration(random.IntN(400)) * time.Millisecond
		mu.Unlock()
		<-time.After(after)
		p.kill()
		close(stop)
		clients.Wait()
	}
	return batches
}

// check compares the target with what was written.
func check(t *testing.T, db *sql.DB, batches []batch) {
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
			case b.acked && applied[n] != 1:
				t.Errorf("line %d was acknowledged and applied %d times", i, applied[n])
			case applied[n] > 1:
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
	db, err := driver.Open("file:" + filepath.Join(dir, "target.db") + "?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func count(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
