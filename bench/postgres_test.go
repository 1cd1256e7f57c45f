package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/logical"
)

// ddl is the table as Tailrace makes it.
const ddl = `CREATE TABLE %s ("time" timestamptz NOT NULL, nanos smallint NOT NULL, series uuid NOT NULL,
	host text, rack text, region text, usage double precision, count bigint, up boolean, PRIMARY KEY ("time", series, nanos))`

var columns = []string{"time", "series", "nanos", "host", "rack", "region", "usage", "count", "up"}

// BenchmarkFanIntoPostgres compares new points in fan mode with binary COPY straight into the same table,
// by as many connections, in transactions of 8,192 rows.
func BenchmarkFanIntoPostgres(b *testing.B) {
	const connections = 4
	for b.Loop() {
		b.StopTimer()
		list := points(400_000)
		txs := mutations(list, 1000)
		target, pool := server(b)
		b.StartTimer()
		took := run(b, target, txs, logical.Config{Immediate: true, FanShards: connections, StandbyTimeout: 250 * time.Millisecond})
		b.StopTimer()
		verify(b, pool, "reading", len(list))
		report(b, len(list), took, copyAll(b, pool, list, connections))
		b.StartTimer()
	}
}

// BenchmarkSerialIntoPostgres compares writes of one point each, in serial mode, with a hand-written
// upsert per transaction on one connection.
func BenchmarkSerialIntoPostgres(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		list := points(20_000)
		txs := mutations(list, 1)
		target, pool := server(b)
		b.StartTimer()
		took := run(b, target, txs, logical.Config{})
		b.StopTimer()
		verify(b, pool, "reading", len(list))
		report(b, len(list), took, upsertEach(b, pool, list))
		b.StartTimer()
	}
}

func report(b *testing.B, n int, took, ceiling time.Duration) {
	b.Helper()
	b.ReportMetric(float64(n)/took.Seconds(), "rows/s")
	b.ReportMetric(float64(n)/ceiling.Seconds(), "ceiling-rows/s")
	b.ReportMetric(ceiling.Seconds()/took.Seconds(), "ratio")
}

// server returns a fresh database as a target, and a pool for the hand-written loaders. It prints what
// durability both have.
func server(b *testing.B) (*postgres.Target, *pgxpool.Pool) {
	b.Helper()
	dsn := env.Postgres(b)
	pool, err := pgxpool.New(b.Context(), dsn)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	var sync, fsync string
	if err := pool.QueryRow(b.Context(), "SELECT current_setting('synchronous_commit'), current_setting('fsync')").Scan(&sync, &fsync); err != nil {
		b.Fatal(err)
	}
	b.Logf("synchronous_commit=%s fsync=%s", sync, fsync)
	target, err := postgres.Open(b.Context(), postgres.Config{DSN: dsn})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = target.Close() })
	return target, pool
}

func verify(b *testing.B, pool *pgxpool.Pool, table string, want int) {
	b.Helper()
	var n int
	if err := pool.QueryRow(b.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil || n != want {
		b.Fatalf("%s has %d rows, want %d: %v", table, n, want, err)
	}
}

func (p *point) row() []any {
	micros := p.time / 1000
	return []any{
		time.UnixMicro(micros).UTC(),
		pgtype.UUID{Bytes: *p.series, Valid: true},
		int16(p.time % 1000),
		p.tags[0], p.tags[1], p.tags[2], p.usage, p.count, p.up,
	}
}

// copyAll loads the points by binary COPY, and returns how long that took.
func copyAll(b *testing.B, pool *pgxpool.Pool, list []point, connections int) time.Duration {
	b.Helper()
	exec(b, pool, fmt.Sprintf(ddl, "copied"))
	conns := make([]*pgxpool.Conn, connections)
	for i := range conns {
		var err error
		if conns[i], err = pool.Acquire(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	begun := time.Now()
	var all sync.WaitGroup
	for i, conn := range conns {
		all.Go(func() { copyShare(b, conn.Conn(), list, i, connections) })
	}
	all.Wait()
	took := time.Since(begun)
	for _, conn := range conns {
		conn.Release()
	}
	verify(b, pool, "copied", len(list))
	return took
}

// copyShare loads what falls to one of the connections: all points of its series.
func copyShare(b *testing.B, conn *pgx.Conn, list []point, share, of int) {
	const batch = 8192
	at := 0
	for at < len(list) {
		n := 0
		_, err := conn.CopyFrom(context.Background(), pgx.Identifier{"copied"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
			for ; at < len(list) && n < batch; at++ {
				if (at%seriesCount)%of == share {
					n++
					at++
					return list[at-1].row(), nil
				}
			}
			return nil, nil
		}))
		if err != nil {
			b.Error(err)
			return
		}
	}
}

// upsertEach writes each point in a transaction of its own.
func upsertEach(b *testing.B, pool *pgxpool.Pool, list []point) time.Duration {
	b.Helper()
	exec(b, pool, fmt.Sprintf(ddl, "upserted"))
	conn, err := pool.Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	for i := range list {
		_, err := conn.Exec(b.Context(), `INSERT INTO upserted ("time", series, nanos, host, rack, region, usage, count, up)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT ("time", series, nanos) DO UPDATE
			SET usage = excluded.usage, count = excluded.count, up = excluded.up`, list[i].row()...)
		if err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(begun)
	conn.Release()
	verify(b, pool, "upserted", len(list))
	return took
}

func exec(b *testing.B, pool *pgxpool.Pool, sql string) {
	b.Helper()
	if _, err := pool.Exec(b.Context(), sql); err != nil {
		b.Fatal(err)
	}
}
