package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

func TestRandomTablesAndValuesReadBackEqual(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{"arrays": {copyRows: 1 << 30}, "copy": {copyRows: 1}, "merge": {copyRows: 1, mergeValues: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRandomTables(t, cfg, testenv.Count(12, 500))
		})
	}
}

// testRandomTables makes random tables, with composite keys, quoted names, every type, defaults, generated
// columns, partitions and constraints, and writes random rows to them through Tailrace. A twin of each table gets
// the same by SQL as a person writes it, and both have to be equal.
func testRandomTables(t *testing.T, cfg Config, tables int) {
	t.Helper()
	target := open(t, cfg)
	s := take(t, target, "loop", "me")
	exec(t, target, randomTypes)
	r := rand.New(rand.NewPCG(logicaltest.Seed(t), 6))
	conn := connect(t, target)
	if _, err := conn.Exec(t.Context(), "SET TimeZone = 'UTC'"); err != nil {
		t.Fatal(err)
	}
	for n := range tables {
		tab := newRandomTable(r, n)
		for _, sql := range tab.ddl {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
		for range 4 {
			muts := make([]logical.Mutation, 1+r.IntN(60))
			for i := range muts {
				muts[i] = tab.mutate(t, r, conn)
			}
			if err := logicaltest.Apply(t.Context(), s, muts...); err != nil {
				t.Fatalf("%s\n%v", strings.Join(tab.ddl, ";\n"), err)
			}
		}
		var differ int
		var example *string
		err := conn.QueryRow(t.Context(), fmt.Sprintf(`WITH a AS (SELECT a::text AS r FROM %[1]s AS a), b AS (SELECT b::text AS r FROM %[2]s AS b),
d AS ((TABLE a EXCEPT ALL TABLE b) UNION ALL (TABLE b EXCEPT ALL TABLE a)) SELECT count(*), string_agg(r, E'\n') FROM d`,
			ident.Quote(tab.name), ident.Quote(tab.name+" twin"))).Scan(&differ, &example)
		if err != nil {
			t.Fatal(err)
		}
		if differ > 0 {
			t.Fatalf("%d rows differ:\n%s\n%s", differ, strings.Join(tab.ddl, ";\n"), *example)
		}
	}
}

// A randomTable is a table and its twin.
type randomTable struct {
	name  string
	ddl   []string
	rel   *logical.Relation
	kinds []kindOfValue     // of the relation's columns
	keys  [][]logical.Value // what few there are
	texts [][]string        // the same in SQL
}

func newRandomTable(r *rand.Rand, n int) *randomTable {
	all := kindsOfValues()
	tab := &randomTable{name: fmt.Sprintf(`T "%d".x`, n)}
	tab.rel = &logical.Relation{Name: tab.name}
	var columns, keys []string
	for i := range 1 + r.IntN(3) {
		k := all[r.IntN(len(all))]
		for !k.key {
			k = all[r.IntN(len(all))]
		}
		name := fmt.Sprintf(`K "%d"`, i)
		tab.add(name, k, true)
		columns, keys = append(columns, ident.Quote(name)+" "+k.declared), append(keys, ident.Quote(name))
	}
	for i := range 1 + r.IntN(8) {
		k := all[r.IntN(len(all))]
		name := []string{"select", "Ümlaut", "a.b", "$1", "with space", "x'y", "order", "T"}[i]
		tab.add(name, k, false)
		columns = append(columns, ident.Quote(name)+" "+k.declared)
	}
	r.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
	columns = append(columns, "made_up int NOT NULL DEFAULT 7", "twice int GENERATED ALWAYS AS (made_up * 2) STORED", "CHECK (made_up > 0)")
	body := fmt.Sprintf("(%s, PRIMARY KEY (%s))", strings.Join(columns, ", "), strings.Join(keys, ", "))
	twin := ident.Quote(tab.name + " twin")
	tab.ddl = []string{"CREATE TABLE " + twin + " " + body}
	if r.IntN(3) == 0 {
		tab.ddl = append(tab.ddl, "CREATE TABLE "+ident.Quote(tab.name)+" "+body+" PARTITION BY RANGE ("+keys[0]+")",
			"CREATE TABLE "+ident.Quote(tab.name+" part")+" PARTITION OF "+ident.Quote(tab.name)+" DEFAULT")
		return tab
	}
	tab.ddl = append(tab.ddl, "CREATE TABLE "+ident.Quote(tab.name)+" "+body)
	return tab
}

func (tab *randomTable) add(name string, k kindOfValue, key bool) {
	kind := map[string]logical.Kind{
		"bigint": logical.KindInt64, "integer": logical.KindInt64, "smallint": logical.KindInt64, "uuid": logical.KindUUID, "timestamptz": logical.KindTime,
		"timestamp": logical.KindTime, "numeric": logical.KindDecimal, "numeric(12,3)": logical.KindDecimal, "boolean": logical.KindBool, "bytea": logical.KindBytes,
		"double precision": logical.KindFloat64, "real": logical.KindFloat64, "numeric(20,0)": logical.KindUint64, "json": logical.KindJSON, "jsonb": logical.KindJSON,
		`"posi tive"`: logical.KindInt64,
	}[k.declared]
	if kind == logical.KindAbsent {
		kind = logical.KindText
	}
	tab.rel.Columns = append(tab.rel.Columns, logical.Column{Name: name, Kind: kind, Key: key})
	tab.kinds = append(tab.kinds, k)
}

// mutate makes a mutation, and does the same to the twin.
func (tab *randomTable) mutate(t *testing.T, r *rand.Rand, conn *pgx.Conn) logical.Mutation {
	t.Helper()
	m := logical.Mutation{Op: []logical.Op{logical.OpUpsert, logical.OpUpsert, logical.OpPatch, logical.OpDelete}[r.IntN(4)], Relation: tab.rel}
	at := tab.pick(r)
	var names, literals, sets, where []string
	for i, c := range tab.rel.Columns {
		v, literal := logical.Value{}, ""
		switch {
		case c.Key:
			v, literal = tab.keys[at][i], tab.texts[at][i]
			where = append(where, fmt.Sprintf("%s = %s::%s", ident.Quote(c.Name), literal, tab.kinds[i].declared))
		case m.Op == logical.OpDelete, m.Op == logical.OpPatch && r.IntN(2) == 0:
			m.Values = append(m.Values, v)
			continue
		case r.IntN(6) == 0:
			v, literal = logical.Null(), "NULL"
		default:
			v, literal = tab.kinds[i].random(r)
		}
		m.Values = append(m.Values, v)
		names, literals = append(names, ident.Quote(c.Name)), append(literals, literal)
		if !c.Key {
			sets = append(sets, fmt.Sprintf("%s = %s", ident.Quote(c.Name), literal))
		}
	}
	twin := ident.Quote(tab.name + " twin")
	sql := ""
	switch {
	case m.Op == logical.OpDelete:
		sql = fmt.Sprintf("DELETE FROM %s WHERE %s", twin, strings.Join(where, " AND "))
	case m.Op == logical.OpPatch && len(sets) == 0:
		return m
	case m.Op == logical.OpPatch:
		sql = fmt.Sprintf("UPDATE %s SET %s WHERE %s", twin, strings.Join(sets, ", "), strings.Join(where, " AND "))
	default:
		sql = fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON CONFLICT (%s) DO UPDATE SET %s", twin, strings.Join(names, ", "), strings.Join(literals, ", "),
			strings.Join(names[:len(where)], ", "), strings.Join(sets, ", "))
	}
	if _, err := conn.Exec(context.Background(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return m
}

// pick chooses one of a dozen keys, and makes it the first time.
func (tab *randomTable) pick(r *rand.Rand) int {
	n := r.IntN(12)
	if n < len(tab.keys) {
		return n
	}
	var values []logical.Value
	var literals []string
	for i := range tab.rel.Columns {
		if !tab.rel.Columns[i].Key {
			break
		}
		v, literal := tab.kinds[i].random(r)
		values, literals = append(values, v), append(literals, literal)
	}
	tab.keys, tab.texts = append(tab.keys, values), append(tab.texts, literals)
	return len(tab.keys) - 1
}
