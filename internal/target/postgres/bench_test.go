package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// benchRelation: narrow rows have 8 columns beside the nanos; wide ones are those of a well-known
// benchmark, 10 tags and 10 integer fields.
func benchRelation(name string) *logical.Relation {
	if name == "narrow" {
		return logicaltest.Points("m", []string{"host", "region"}, logicaltest.Field("a", logical.KindFloat64),
			logicaltest.Field("b", logical.KindFloat64), logicaltest.Field("c", logical.KindInt64), logicaltest.Field("d", logical.KindFloat64))
	}
	var tags []string
	var fields []logical.Column
	for i := range 10 {
		tags = append(tags, fmt.Sprintf("tag%d", i))
		fields = append(fields, logicaltest.Field(fmt.Sprintf("usage%d", i), logical.KindInt64))
	}
	return logicaltest.Points("m", tags, fields...)
}

// benchRows makes points in the order of time, of 100 series; the values depend on round too.
func benchRows(rel *logical.Relation, n int, from int64, round uint64) []logical.Mutation {
	r := rand.New(rand.NewPCG(uint64(from), round))
	muts := make([]logical.Mutation, n)
	for i := range muts {
		at := from + int64(i)
		id := new([16]byte)
		binary.BigEndian.PutUint64(id[:], uint64(at%100)*0x9e3779b97f4a7c15)
		values := []logical.Value{logical.UnixNano(1_700_000_000_000_000_000 + at/100*1_000_000_000), logical.UUID(id)}
		for _, c := range rel.Columns[2:] {
			switch c.Kind {
			case logical.KindText:
				values = append(values, logical.Text(fmt.Sprintf("%s-%d", c.Name, at%100)))
			case logical.KindInt64:
				values = append(values, logical.Int64(r.Int64N(1000)))
			default:
				values = append(values, logical.Float64(r.Float64()))
			}
		}
		muts[i] = logical.Mutation{Op: logical.OpPatch, Relation: rel, Values: values}
	}
	return muts
}

// A bench writes batches with one of several writers at once.
type bench struct {
	b       *testing.B
	rel     *logical.Relation
	target  *Target
	session logical.Session
	pool    *pgxpool.Pool
	conns   int
}

func newBench(b *testing.B, shape string, conns int) *bench {
	server := testenv.StartPostgres(b, testenv.PostgresOptions{Settings: map[string]string{"max_wal_size": "4GB", "shared_buffers": "1GB"}})
	s := &bench{b: b, rel: benchRelation(shape), conns: conns}
	dsn := server.DSN("postgres")
	var err error
	if s.target, err = Open(b.Context(), Config{DSN: dsn, Conns: conns + fewControlConns + 1}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.target.Close() })
	s.session = take(b, s.target, "bench", "me")
	if err := s.session.Prepare(b.Context(), []*logical.Relation{s.rel}); err != nil {
		b.Fatal(err)
	}
	if s.pool, err = pgxpool.New(b.Context(), fmt.Sprintf("%s&pool_max_conns=%d&synchronous_commit=on", dsn, conns)); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.pool.Close)
	var level, fsync string
	if err := s.pool.QueryRow(b.Context(), "SELECT current_setting('synchronous_commit'), current_setting('fsync')").Scan(&level, &fsync); err != nil {
		b.Fatal(err)
	}
	b.Logf("synchronous_commit=%s fsync=%s, %d connections", level, fsync, conns)
	return s
}

// parallel runs write for each batch, on as many goroutines as there are connections.
func (s *bench) parallel(batches [][]logical.Mutation, write func(ctx context.Context, muts []logical.Mutation) error) time.Duration {
	work := make(chan []logical.Mutation)
	var wg sync.WaitGroup
	start := time.Now()
	for range s.conns {
		wg.Go(func() {
			for muts := range work {
				if err := write(s.b.Context(), muts); err != nil {
					s.b.Error(err)
				}
			}
		})
	}
	for _, muts := range batches {
		work <- muts
	}
	close(work)
	wg.Wait()
	return time.Since(start)
}

func (s *bench) ours(ctx context.Context, muts []logical.Mutation) error {
	return logicaltest.Apply(ctx, s.session, muts...)
}

func (s *bench) columnNames() []string {
	names := []string{"nanos"}
	for _, c := range s.rel.Columns {
		names = append(names, c.Name)
	}
	return names
}

// copyStraight is pgx's binary COPY into the table.
func (s *bench) copyStraight(ctx context.Context, muts []logical.Mutation) error {
	row := make([]any, len(s.rel.Columns)+1)
	source := pgx.CopyFromSlice(len(muts), func(i int) ([]any, error) {
		row[0] = int16(0)
		for k, v := range muts[i].Values {
			row[k+1] = anyOf(v)
		}
		return row, nil
	})
	_, err := s.pool.CopyFrom(ctx, pgx.Identifier{"public", "m"}, s.columnNames(), source)
	return err
}

func anyOf(v logical.Value) any {
	switch v.Kind() {
	case logical.KindText:
		return v.Text()
	case logical.KindInt64:
		return v.Int64()
	case logical.KindFloat64:
		return v.Float64()
	case logical.KindUUID:
		return [16]byte(v.Bytes())
	}
	return v.Time()
}

// unnest is the upsert that one would write by hand.
func (s *bench) unnest(ctx context.Context, muts []logical.Mutation) error {
	columns := map[logical.Kind]string{logical.KindText: "text", logical.KindInt64: "int8", logical.KindFloat64: "float8", logical.KindUUID: "uuid", logical.KindTime: "timestamptz"}
	arrays, sets := []string{"$1::int2[]"}, []string{}
	nanos := make([]int16, len(muts))
	args := []any{nanos}
	for k, c := range s.rel.Columns {
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", k+2, columns[c.Kind]))
		if c.Role == logical.RoleField {
			sets = append(sets, c.Name+" = EXCLUDED."+c.Name)
		}
		args = append(args, columnSlice(muts, k, c.Kind))
	}
	_, err := s.pool.Exec(ctx, fmt.Sprintf("INSERT INTO m (%s) SELECT * FROM unnest(%s) ON CONFLICT (time, series, nanos) DO UPDATE SET %s",
		strings.Join(s.columnNames(), ", "), strings.Join(arrays, ", "), strings.Join(sets, ", ")), args...)
	return err
}

func columnSlice(muts []logical.Mutation, k int, kind logical.Kind) any {
	switch kind {
	case logical.KindText:
		return collect(muts, k, logical.Value.Text)
	case logical.KindInt64:
		return collect(muts, k, logical.Value.Int64)
	case logical.KindFloat64:
		return collect(muts, k, logical.Value.Float64)
	case logical.KindUUID:
		return collect(muts, k, func(v logical.Value) [16]byte { return [16]byte(v.Bytes()) })
	}
	return collect(muts, k, logical.Value.Time)
}

func collect[T any](muts []logical.Mutation, k int, get func(logical.Value) T) []T {
	list := make([]T, len(muts))
	for i := range muts {
		list[i] = get(muts[i].Values[k])
	}
	return list
}

// compare alternates rounds of both ways and reports their rates, the median of the ratios, and
// allocations per row of ours.
func (s *bench) compare(next func(round uint64) (ours, other [][]logical.Mutation), other func(context.Context, []logical.Mutation) error) {
	var ratios []float64
	var mine, theirs time.Duration
	var allocs uint64
	rows := 0
	round := uint64(0)
	for s.b.Loop() {
		round++
		a, b := next(round)
		var t1, t2 time.Duration
		own := func() {
			before := mallocs()
			t1 = s.parallel(a, s.ours)
			allocs += mallocs() - before
		}
		if round%2 == 0 { // neither always has the first go
			own()
		}
		t2 = s.parallel(b, other)
		if round%2 == 1 {
			own()
		}
		for _, muts := range a {
			rows += len(muts)
		}
		mine, theirs = mine+t1, theirs+t2
		ratios = append(ratios, t2.Seconds()/t1.Seconds())
	}
	slices.Sort(ratios)
	s.b.ReportMetric(float64(rows)/mine.Seconds(), "rows/s")
	s.b.ReportMetric(float64(rows)/theirs.Seconds(), "ceiling-rows/s")
	s.b.ReportMetric(ratios[len(ratios)/2], "ratio")
	s.b.ReportMetric(float64(allocs)/float64(rows), "allocs/row")
	s.b.ReportMetric(0, "ns/op")
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

const benchBatch = 5000

// BenchmarkNewRows compares with binary COPY straight into the same table.
func BenchmarkNewRows(b *testing.B) {
	for _, shape := range []string{"narrow", "wide"} {
		for _, conns := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/%d", shape, conns), func(b *testing.B) {
				s := newBench(b, shape, conns)
				at := int64(0)
				fresh := func(round uint64) (list [][]logical.Mutation) {
					for range 16 {
						list = append(list, benchRows(s.rel, benchBatch, at, round))
						at += benchBatch
					}
					return list
				}
				s.compare(func(round uint64) (x, y [][]logical.Mutation) { return fresh(round), fresh(round) }, s.copyStraight)
			})
		}
	}
}

// BenchmarkChangedRows compares with an upsert from arrays written by hand; every row is there, and
// gets other values.
func BenchmarkChangedRows(b *testing.B) {
	for _, size := range []int{1000, 5000} {
		for _, shape := range []string{"narrow", "wide"} {
			b.Run(fmt.Sprintf("%s/%d", shape, size), func(b *testing.B) {
				s := newBench(b, shape, 4)
				same := func(round uint64) (list [][]logical.Mutation) {
					for i := range int64(40_000 / size) {
						list = append(list, benchRows(s.rel, size, i*int64(size), round))
					}
					return list
				}
				s.parallel(same(0), s.ours)
				s.compare(func(round uint64) (x, y [][]logical.Mutation) { return same(2 * round), same(2*round + 1) }, s.unnest)
			})
		}
	}
}

// BenchmarkSmall compares transactions of one row each, with their memo, with a single INSERT that
// commits by itself.
func BenchmarkSmall(b *testing.B) {
	for _, conns := range []int{1, 4} {
		b.Run(fmt.Sprint(conns), func(b *testing.B) {
			s := newBench(b, "narrow", conns)
			at := int64(0)
			fresh := func(round uint64) (list [][]logical.Mutation) {
				for range 500 {
					list = append(list, benchRows(s.rel, 1, at, round))
					at++
				}
				return list
			}
			s.compare(func(round uint64) (x, y [][]logical.Mutation) { return fresh(round), fresh(round) }, s.unnest)
		})
	}
}
