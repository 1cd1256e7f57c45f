package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

// throughTemp copies into a temporary table of the connection, in the encoding that Tailrace's own COPY has,
// and merges from there.
func (s *bench) throughTemp(ctx context.Context, muts []logical.Mutation) error {
	p, err := s.target.plan(ctx, s.rel)
	if err != nil {
		return err
	}
	w := s.target.works.Get().(*work)
	w.reset()
	defer s.target.works.Put(w)
	for range muts {
		w.plans = append(w.plans, p)
	}
	b := w.batch(p, len(muts))
	defer w.endBatches()
	for i := range muts {
		b.add(i, muts, p)
	}
	b.sort()
	g := p.groupSQL(verbUpsert, b.mask(&b.entries[0]))
	var names, sets []string
	for _, at := range g.columns {
		names = append(names, `"`+p.table.columns[at].name+`"`)
		if !p.isKey(at) && !p.sources[at].tag {
			sets = append(sets, fmt.Sprintf(`"%[1]s" = EXCLUDED."%[1]s"`, p.table.columns[at].name))
		}
	}
	list := strings.Join(names, ", ")
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	pg := conn.Conn().PgConn()
	if _, made := pg.CustomData()["temp"]; !made {
		if _, err := conn.Exec(ctx, "CREATE TEMPORARY TABLE incoming (LIKE m) ON COMMIT DELETE ROWS"); err != nil {
			return err
		}
		pg.CustomData()["temp"] = true
	}
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return err
	}
	rows := &copyReader{b: b, w: w, muts: muts, entries: b.entries, columns: g.columns, buf: append(w.copyBuf[:0], copyHead...)}
	_, err = pg.CopyFrom(ctx, rows, "COPY incoming ("+list+") FROM STDIN (FORMAT binary)")
	w.copyBuf = rows.buf
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf("INSERT INTO m (%[1]s) SELECT %[1]s FROM incoming ON CONFLICT (time, series, nanos) DO UPDATE SET %[2]s", list, strings.Join(sets, ", ")))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "COMMIT")
	return err
}

// BenchmarkTempTable compares with COPY into a temporary table and a merge, where every row is there, and where
// every second one is.
func BenchmarkTempTable(b *testing.B) {
	for _, known := range []string{"all", "half"} {
		for _, size := range []int{2000, 10_000, 40_000} {
			for _, shape := range []string{"narrow", "wide"} {
				b.Run(fmt.Sprintf("%s/%s/%d", known, shape, size), func(b *testing.B) {
					s := newBench(b, shape, 2)
					s.target.cfg.copyRows = 1 << 30
					at := int64(0)
					batches := func(round uint64) (list [][]logical.Mutation) {
						for i := range int64(80_000 / size) {
							from := i * int64(size)
							if known == "half" { // of each batch half is what came last
								from, at = at, at+int64(size)/2
							}
							list = append(list, benchRows(s.rel, size, from, round))
						}
						return list
					}
					s.parallel(batches(0), s.ours)
					s.compare(func(round uint64) (x, y [][]logical.Mutation) { return batches(2 * round), batches(2*round + 1) }, s.throughTemp)
				})
			}
		}
	}
}
