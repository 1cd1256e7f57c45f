package sqlite

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/logical"
)

// benchRows makes points in the order of time, of 100 series, whose values all differ.
func benchRows(rel *logical.Relation, n int, from int64) []logical.Mutation {
	r := rand.New(rand.NewPCG(uint64(from), 7))
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

// narrow rows have 8 columns; wide ones are those of a well-known benchmark, 10 tags and 10 fields.
func benchRelation(name string) *logical.Relation {
	if name == "narrow" {
		return points("m", []string{"host", "region"}, field("a", logical.KindFloat64), field("b", logical.KindFloat64),
			field("c", logical.KindInt64), field("d", logical.KindFloat64))
	}
	var tags []string
	var fields []logical.Column
	for i := range 10 {
		tags = append(tags, fmt.Sprintf("tag%d", i))
		fields = append(fields, field(fmt.Sprintf("usage%d", i), logical.KindInt64))
	}
	return points("m", tags, fields...)
}

// BenchmarkPoints compares the target with prepared statements written by hand that insert several
// rows each, into the same kind of table with the same settings, in the same run. Metrics: rows/s of
// both, the ratio (median of the rounds), and allocations per row of the target.
func BenchmarkPoints(b *testing.B) {
	for _, shape := range []string{"narrow", "wide"} {
		for _, kind := range []string{"new", "changed"} {
			b.Run(shape+"/"+kind, func(b *testing.B) { benchPoints(b, benchRelation(shape), kind == "changed") })
		}
	}
}

const benchTx, benchBatches = 10_000, 10

func benchPoints(b *testing.B, rel *logical.Relation, changed bool) {
	target, err := Open(b.Context(), Config{Path: filepath.Join(b.TempDir(), "target.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer target.Close()
	session, err := target.Take(b.Context(), logical.Claim{Loop: "bench", Holder: "me"})
	if err != nil {
		b.Fatal(err)
	}
	defer session.Release(b.Context())
	hand := newByHand(b, rel, target.cfg, changed)
	var ratios []float64
	var mine, ceiling time.Duration
	var allocs uint64
	rows, at := 0, int64(0)
	for b.Loop() {
		var own, other time.Duration
		for range benchBatches {
			muts := benchRows(rel, benchTx, at)
			at += benchTx
			if changed && rows > 0 {
				at = 0 // the same keys with other values
				muts = benchRows(rel, benchTx, int64(rows)*1_000_000)
				for i := range muts {
					muts[i].Values[0] = logical.UnixNano(1_700_000_000_000_000_000 + int64(i)/100*1_000_000_000)
				}
			}
			start := time.Now()
			hand.write(b, muts)
			other += time.Since(start)
			before := mallocs()
			start = time.Now()
			if err := tryApply(b.Context(), session, muts...); err != nil {
				b.Fatal(err)
			}
			own += time.Since(start)
			allocs += mallocs() - before
			rows += benchTx
		}
		ratios = append(ratios, other.Seconds()/own.Seconds())
		mine, ceiling = mine+own, ceiling+other
	}
	slices.Sort(ratios)
	b.ReportMetric(float64(rows)/mine.Seconds(), "rows/s")
	b.ReportMetric(float64(rows)/ceiling.Seconds(), "ceiling-rows/s")
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(float64(allocs)/float64(rows), "allocs/row")
	b.ReportMetric(0, "ns/op")
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// byHand writes rows with a prepared statement of 20 rows.
type byHand struct {
	db   *sqlite3.Conn
	stmt *sqlite3.Stmt
	rel  *logical.Relation
}

const handRows = 20

func newByHand(b *testing.B, rel *logical.Relation, cfg Config, upsert bool) *byHand {
	db, err := sqlite3.Open(filepath.Join(b.TempDir(), "hand.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	var columns, marks, sets []string
	for _, c := range rel.Columns {
		_, declared := classOfField(c.Kind)
		columns = append(columns, c.Name+" "+declared)
		marks = append(marks, "?")
		if c.Role == logical.RoleField {
			sets = append(sets, c.Name+" = excluded."+c.Name)
		}
	}
	for _, sql := range []string{
		"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", fmt.Sprintf("PRAGMA cache_size=-%d", cfg.CacheBytes>>10),
		fmt.Sprintf("PRAGMA wal_autocheckpoint=%d", cfg.CheckpointPages),
		"CREATE TABLE m (" + strings.Join(columns, ", ") + ", PRIMARY KEY (time, series)) STRICT, WITHOUT ROWID",
	} {
		if err := db.Exec(sql); err != nil {
			b.Fatal(err)
		}
	}
	sql := "INSERT INTO m VALUES " + strings.Repeat("("+strings.Join(marks, ",")+"),", handRows-1) + "(" + strings.Join(marks, ",") + ")"
	if upsert {
		sql += " ON CONFLICT DO UPDATE SET " + strings.Join(sets, ", ")
	}
	stmt, _, err := db.Prepare(sql)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stmt.Close() })
	return &byHand{db: db, stmt: stmt, rel: rel}
}

func (h *byHand) write(b *testing.B, muts []logical.Mutation) {
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	check(h.db.Exec("BEGIN"))
	for chunk := range slices.Chunk(muts, handRows) {
		param := 1
		for i := range chunk {
			for _, v := range chunk[i].Values {
				switch v.Kind() {
				case logical.KindText:
					check(h.stmt.BindText(param, v.Text()))
				case logical.KindInt64:
					check(h.stmt.BindInt64(param, v.Int64()))
				case logical.KindFloat64:
					check(h.stmt.BindFloat(param, v.Float64()))
				case logical.KindUUID:
					check(h.stmt.BindBlob(param, v.Bytes()))
				case logical.KindTime:
					check(h.stmt.BindInt64(param, v.Time().UnixNano()))
				}
				param++
			}
		}
		check(h.stmt.Exec())
	}
	check(h.db.Exec("COMMIT"))
}
