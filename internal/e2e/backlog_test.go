package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// An edge's readings: n is the number of each, by which none can be missing unnoticed.
const (
	readingSeries = 100
	perRequest    = 5000
)

func readingTags(i int) (host, rack string) {
	s := i % readingSeries
	return fmt.Sprintf("host-%03d", s), fmt.Sprintf("rack-%d", s%10)
}

func readingTime(i int) time.Time {
	return time.Unix(1_700_000_000+int64(i/readingSeries), int64(i%1000)*1000)
}

// readings returns the lines of the i-th request of all.
func readings(i, n int) []byte {
	var b bytes.Buffer
	for k := i * perRequest; k < min(n, (i+1)*perRequest); k++ {
		host, rack := readingTags(k)
		fmt.Fprintf(&b, "reading,host=%s,rack=%s,region=eu-central n=%di,usage=%v,up=%v %d\n", host, rack, k, float64(k*7919%100_003)/17, k%2 == 0, readingTime(k).UnixNano())
	}
	return b.Bytes()
}

// offline is a remote that is away while readings are taken.
type offline struct {
	conn         string
	end, restart func()
	sums         func() (count, sum int64) // of n
	load         func(n, connections int) error
}

// TestPrefixOfAWholeQueue has an edge without a network until its queue holds everything; then all of it arrives, by
// backfill, and after that what is written goes serially. The time is printed with that of a plain loader, which
// sends the same points over several connections to the same server.
func TestPrefixOfAWholeQueue(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) offline{"InfluxDB 1.x": offlineInflux, "PostgreSQL": offlinePostgres} {
		t.Run(name, func(t *testing.T) { wholeQueue(t, open(t)) }) // one after the other: they are measured
	}
}

func wholeQueue(t *testing.T, r offline) {
	n := testenv.Count(100_000, 2_000_000)
	p := launch(t, t.TempDir(), "--targetConn", r.conn, "--backfillWindow", "500ms", "--maxQueueSize", "4GiB", "--keepFree", "0")
	_, _, replication := p.defaults()
	r.end()
	begun := time.Now()
	for i := range (n + perRequest - 1) / perRequest {
		p.write(string(readings(i, n)))
	}
	taken := time.Since(begun)
	eventually(t, time.Minute, "it does not get stale", func() bool { return p.metric("logical_staleness_seconds") > 1 })
	r.restart()
	begun = time.Now()
	p.must(http.MethodPost, "/api/v2/replications/"+replication+"/flush", "", nil)
	modes := map[string]bool{}
	eventually(t, 20*time.Minute, "it does not arrive", func() bool {
		st := p.replication(replication)
		modes[st.Mode] = true
		return st.RemainingBytesToBeSynced == 0
	})
	took := time.Since(begun)
	if !modes["backfill"] {
		t.Errorf("it was never in backfill: %v", modes)
	}
	eventually(t, 5*time.Minute, "it does not come back to serial", func() bool { return p.replication(replication).Mode == "serial" })
	p.write(string(readings(n/perRequest, n+1)))
	n++
	eventually(t, time.Minute, "what comes after it does not arrive", func() bool { return p.replication(replication).RemainingBytesToBeSynced == 0 })
	if count, sum := r.sums(); count != int64(n) || sum != int64(n)*int64(n-1)/2 {
		t.Errorf("%d points, want %d; their numbers add up to %d, want %d", count, n, sum, int64(n)*int64(n-1)/2)
	}
	if st := p.replication(replication); st.DeadLetters == nil || *st.DeadLetters != 0 || st.State != "running" || st.Mode != "serial" {
		t.Errorf("the status is %+v", st)
	}
	p.kill()
	begun = time.Now()
	if err := r.load(n, 8); err != nil {
		t.Fatal(err)
	}
	loader := time.Since(begun)
	t.Logf("%d points were taken in %v and arrived in %v (%.0f/s); a plain loader takes %v (%.0f/s): ratio %.2f", n, taken.Round(time.Millisecond),
		took.Round(time.Millisecond), float64(n)/took.Seconds(), loader.Round(time.Millisecond), float64(n)/loader.Seconds(), loader.Seconds()/took.Seconds())
}

// parallel has workers do n jobs, and returns the first error.
func parallel(workers, n int, job func(worker, i int) error) error {
	next, failed := make(chan int), make(chan error, n)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := range next {
				if err := job(w, i); err != nil {
					failed <- err
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
	close(failed)
	return <-failed
}

func offlineInflux(t *testing.T) offline {
	db := testenv.StartInfluxDB(t, nil)
	db.Query(t, "", "CREATE DATABASE d")
	db.Query(t, "", "CREATE DATABASE plain")
	return offline{
		conn: db.URL() + "?db=d", end: db.Kill, restart: func() { db.Restart(t) },
		sums: func() (count, sum int64) {
			row := db.Query(t, "d", "SELECT count(n), sum(n) FROM reading")[0].Values[0]
			count, _ = row[1].(json.Number).Int64()
			sum, _ = row[2].(json.Number).Int64()
			return count, sum
		},
		load: func(n, connections int) error {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
			defer client.CloseIdleConnections()
			return parallel(connections, (n+perRequest-1)/perRequest, func(_, i int) error {
				resp, err := client.Post(db.URL()+"/write?db=plain&precision=ns", "text/plain", bytes.NewReader(readings(i, n)))
				if err != nil {
					return err
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusNoContent {
					return fmt.Errorf("status %d", resp.StatusCode)
				}
				return nil
			})
		},
	}
}

func offlinePostgres(t *testing.T) offline {
	server := testenv.StartPostgres(t, testenv.PostgresOptions{})
	dsn := server.DSN("postgres")
	return offline{
		conn: dsn, end: server.Kill, restart: func() { server.Restart(t) },
		sums: func() (count, sum int64) {
			if err := openPostgres(t, dsn).QueryRow("SELECT count(n), sum(n) FROM reading").Scan(&count, &sum); err != nil {
				t.Fatal(err)
			}
			return count, sum
		},
		load: func(n, connections int) error {
			ctx := context.Background()
			conns := make([]*pgx.Conn, connections)
			for i := range conns {
				conn, err := pgx.Connect(ctx, dsn)
				if err != nil {
					return err
				}
				defer func() { _ = conn.Close(ctx) }()
				conns[i] = conn
			}
			if _, err := conns[0].Exec(ctx, "CREATE TABLE plain (LIKE reading INCLUDING ALL)"); err != nil {
				return err
			}
			columns := []string{"time", "nanos", "series", "host", "rack", "region", "n", "usage", "up"}
			const rows = 10_000
			return parallel(connections, (n+rows-1)/rows, func(w, i int) error {
				k, end := i*rows-1, min(n, (i+1)*rows)
				_, err := conns[w].CopyFrom(ctx, pgx.Identifier{"plain"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
					if k++; k >= end {
						return nil, nil
					}
					host, rack := readingTags(k)
					sum := sha256.Sum256([]byte(host))
					return []any{readingTime(k), int16(0), [16]byte(sum[:16]), host, rack, "eu-central", int64(k), float64(k*7919%100_003) / 17, k%2 == 0}, nil
				}))
				return err
			})
		},
	}
}
