// Package history makes random histories of sources, for tests, and tells them in the words of an oracle.
package history

import (
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/tailrace-cdc/tailrace/internal/oracle"
	"github.com/tailrace-cdc/tailrace/logical"
)

// NumberColumn is the column that carries the number of each mutation. Deletes carry it too, and truncations
// as their Route.
const NumberColumn = "v"

// Config is what a history is made of.
type Config struct {
	// Transactions is how many there are at the least, and up to four times as many. Default 10.
	Transactions int
	// Large is the most mutations of a large transaction; one in 25 is large. Default 200.
	Large int
	// Points adds measurements, whose shapes differ from point to point.
	Points bool
	// Grow lets tables get more columns.
	Grow bool
}

// Make returns the transactions of a source. They are on few keys, one of them hot; some are empty, some
// are large. There are inserts, updates, patches, deletes, key changes and truncations, and patches of rows
// that are not there.
func Make(random *rand.Rand, cfg Config) [][]logical.Mutation {
	if cfg.Transactions == 0 {
		cfg.Transactions = 10
	}
	if cfg.Large == 0 {
		cfg.Large = 200
	}
	g := newGenerator(random, cfg)
	var txs [][]logical.Mutation
	for range cfg.Transactions + random.IntN(3*cfg.Transactions) {
		n := random.IntN(6)
		if random.IntN(25) == 0 {
			n = cfg.Large/4 + random.IntN(cfg.Large*3/4)
		}
		var tx []logical.Mutation
		for len(tx) < n {
			tx = append(tx, g.mutation())
		}
		txs = append(txs, tx)
	}
	return txs
}

type generator struct {
	cfg    Config
	rng    *rand.Rand
	tables []*table
	points []*logical.Relation
	number int64
}

// A table of a database.
type table struct {
	relation *logical.Relation // its shape, which gets another column now and then
	ids      []int64
	fresh    int64
}

// columns are those that a table can have.
var columns = []string{NumberColumn, "a", "b", "c", "d", "e"}

func newGenerator(rng *rand.Rand, cfg Config) *generator {
	g := &generator{cfg: cfg, rng: rng}
	for _, name := range []string{"t", "u"} {
		tab := &table{relation: Shape(name, false, columns[:4]...), fresh: 100}
		for id := range int64(1 + rng.IntN(8)) {
			tab.ids = append(tab.ids, id)
		}
		g.tables = append(g.tables, tab)
	}
	names := []string{"a", "b", "c"}
	for range 1 + rng.IntN(3) {
		rng.Shuffle(3, func(i, j int) { names[i], names[j] = names[j], names[i] })
		g.points = append(g.points, Shape("p", true, append([]string{NumberColumn}, names[:1+rng.IntN(3)]...)...))
	}
	return g
}

// Shape returns the relation of a table with an integer key and integer columns.
func Shape(name string, points bool, columns ...string) *logical.Relation {
	r := &logical.Relation{Name: name, Points: points, Columns: []logical.Column{{Name: "id", Kind: logical.KindInt64, Key: true}}}
	for _, column := range columns {
		r.Columns = append(r.Columns, logical.Column{Name: column, Kind: logical.KindInt64})
	}
	return r
}

func (g *generator) mutation() logical.Mutation {
	g.number++
	if g.cfg.Points && g.rng.IntN(3) == 0 {
		return g.point()
	}
	tab := g.tables[0]
	if g.rng.IntN(4) == 0 {
		tab = g.tables[1]
	}
	id := tab.ids[g.rng.IntN(len(tab.ids))]
	if g.rng.IntN(2) == 0 {
		id = tab.ids[0] // the hot key
	}
	if n := len(tab.relation.Columns); g.cfg.Grow && n <= len(columns) && g.rng.IntN(60) == 0 {
		tab.relation = Shape(tab.relation.Name, false, columns[:n]...)
	}
	switch n := g.rng.IntN(100); {
	case n < 1:
		return logical.Mutation{Op: logical.OpTruncate, Relation: tab.relation, Route: uint64(g.number)}
	case n < 3:
		return g.rekey(tab, id)
	case n < 40:
		return g.fill(logical.OpUpsert, tab.relation, id)
	case n < 80:
		return g.fill(logical.OpPatch, tab.relation, id)
	}
	return g.deletion(tab.relation, id)
}

func (g *generator) point() logical.Mutation {
	r := g.points[g.rng.IntN(len(g.points))]
	id := int64(g.rng.IntN(5))
	switch n := g.rng.IntN(100); {
	case n < 1:
		return logical.Mutation{Op: logical.OpTruncate, Relation: r, Route: uint64(g.number)}
	case n < 15:
		return g.deletion(r, id)
	}
	return g.fill(logical.OpPatch, r, id)
}

// rekey gives a row another key. The old one may come to belong to another row.
func (g *generator) rekey(tab *table, id int64) logical.Mutation {
	tab.fresh++
	m := g.fill(logical.OpRekey, tab.relation, tab.fresh)
	m.OldKey = []logical.Value{logical.Int64(id)}
	if g.rng.IntN(2) == 0 {
		tab.ids[slices.Index(tab.ids, id)] = tab.fresh
	} else {
		tab.ids = append(tab.ids, tab.fresh)
	}
	return m
}

func (g *generator) deletion(r *logical.Relation, id int64) logical.Mutation {
	m := logical.Mutation{Op: logical.OpDelete, Relation: r, Values: make([]logical.Value, len(r.Columns))}
	m.Values[0], m.Values[1] = logical.Int64(id), logical.Int64(g.number)
	return m
}

// fill makes a mutation that carries all columns, or some if it need not.
func (g *generator) fill(op logical.Op, r *logical.Relation, id int64) logical.Mutation {
	m := g.deletion(r, id)
	m.Op = op
	for i := 2; i < len(m.Values); i++ {
		switch n := g.rng.IntN(6); {
		case op != logical.OpUpsert && n < 3:
		case n == 5:
			m.Values[i] = logical.Null()
		default:
			m.Values[i] = logical.Int64(g.number*10 + int64(i))
		}
	}
	return m
}

// Tell tells transactions in the words of the oracle.
func Tell(txs [][]logical.Mutation) [][]oracle.Change {
	told := make([][]oracle.Change, len(txs))
	for i := range txs {
		told[i] = Changes(txs[i])
	}
	return told
}

// Changes tells mutations in the words of the oracle.
func Changes(muts []logical.Mutation) []oracle.Change {
	told := make([]oracle.Change, len(muts))
	for i := range muts {
		told[i] = change(&muts[i])
	}
	return told
}

func change(m *logical.Mutation) oracle.Change {
	c := oracle.Change{Op: oracle.Op(m.Op.String()), Table: m.Relation.Name, Points: m.Relation.Points, Number: Number(m)}
	if m.Values == nil {
		return c
	}
	c.Key = key(m.Values[0])
	if m.OldKey != nil {
		c.OldKey = key(m.OldKey[0])
	}
	if m.Op == logical.OpDelete {
		return c
	}
	c.Set = oracle.Row{}
	for i, column := range m.Relation.Columns[1:] {
		switch v := m.Values[i+1]; {
		case v.IsNull():
			c.Set[column.Name] = oracle.Null
		case !v.IsAbsent():
			c.Set[column.Name] = strconv.FormatInt(v.Int64(), 10)
		}
	}
	return c
}

func key(v logical.Value) string { return strconv.FormatInt(v.Int64(), 10) }

// Number returns the number of a mutation.
func Number(m *logical.Mutation) int64 {
	if m.Values == nil {
		return int64(m.Route)
	}
	return m.Values[1].Int64()
}
