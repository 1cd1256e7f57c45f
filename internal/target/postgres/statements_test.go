package postgres

import (
	"fmt"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestBoundedWhateverSetsOfFieldsCome: neither what the target remembers, nor what its connections have at the server,
// grows with the sets of fields that points carry; and what was let go is made again.
func TestBoundedWhateverSetsOfFieldsCome(t *testing.T) {
	t.Parallel()
	const sets = 1200
	target := open(t, Config{Conns: 3}) // one is for data
	s := take(t, target, "loop", "me")
	var fields []logical.Column
	for i := range 11 {
		fields = append(fields, logicaltest.Field(fmt.Sprintf("f%02d", i), logical.KindInt64))
	}
	rel := logicaltest.Points("m", nil, fields...)
	for n := range int64(2 * sets) {
		var values []logical.Value
		for i := range fields {
			v := logical.Value{}
			if (n%sets+1)>>i&1 == 1 {
				v = logical.Int64(n)
			}
			values = append(values, v)
		}
		if err := logicaltest.Apply(t.Context(), s, logicaltest.Point(rel, n%sets*1000, 1, values...)); err != nil {
			t.Fatal(err)
		}
	}
	if got := rows(t, target, "SELECT count(*), sum(f00 - sets), count(f00) FROM m, (SELECT 1200 AS sets) AS s")[0]; fmt.Sprint(got) != fmt.Sprintf("[%d %d %d]", sets, sum(sets), sets/2) {
		t.Errorf("rows, values, and how many: %v, want %d, %d, %d", got, sets, sum(sets), sets/2)
	}
	if n := target.sqls.cache.Weight(); n > maxSQLBytes || n == 0 {
		t.Errorf("%d bytes of SQL are remembered", n)
	}
	conn, err := target.data.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	var prepared int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'tailrace%'").Scan(&prepared); err != nil {
		t.Fatal(err)
	}
	if prepared > maxPrepared+10 || prepared < maxPrepared/2 {
		t.Errorf("the server has %d prepared statements", prepared)
	}
}

// sum is what the fields f00 add up to in the second round, less the size of a round each.
func sum(sets int) (n int) {
	for i := 0; i < sets; i += 2 {
		n += i
	}
	return n
}

// TestBoundedSQL fills what a target remembers with statements of many tables.
func TestBoundedSQL(t *testing.T) {
	t.Parallel()
	s := newSQLs()
	for n := range 20_000 {
		g := &groupSQL{sql: string(make([]byte, 1000))}
		s.put(&table{}, []byte(fmt.Sprint(n)), g)
		if w := s.cache.Weight(); w > maxSQLBytes {
			t.Fatalf("%d bytes after %d statements", w, n)
		}
	}
	if n := s.cache.Len(); n < 1000 || n > maxSQLBytes/1000 {
		t.Errorf("%d statements are left", n)
	}
}

// TestBoundedTemporaryTables: a connection keeps some, and drops what comes beyond.
func TestBoundedTemporaryTables(t *testing.T) {
	t.Parallel()
	target := open(t, Config{Conns: 3, copyRows: 1, mergeValues: 1})
	s := take(t, target, "loop", "me")
	for n := range maxTemps + 20 {
		rel := logicaltest.Points("m", nil, logicaltest.Field(fmt.Sprint("f", n), logical.KindInt64))
		for v := range int64(2) { // the second is there already, and goes by a temporary table
			if err := logicaltest.Apply(t.Context(), s, logicaltest.Point(rel, 1000, byte(n), logical.Int64(v))); err != nil {
				t.Fatal(err)
			}
		}
		target.catalog.mu.Lock()
		for _, tab := range target.catalog.tables {
			tab.copies.skip = 0 // copy straight away, to fail
		}
		target.catalog.mu.Unlock()
	}
	if got := rows(t, target, "SELECT count(*) FROM pg_class WHERE relname LIKE 'tailrace!_%' ESCAPE '!' AND relpersistence = 't'")[0][0]; got != fmt.Sprint(maxTemps) {
		t.Errorf("there are %s temporary tables, want %d", got, maxTemps)
	}
}
