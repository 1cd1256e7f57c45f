package fan

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tailrace-cdc/tailrace/logical"
)

// TestModel runs random histories through a fan on the memory target, with faults, rollbacks and
// crashes, and judges ORDER, PREFIX, CONVERGE and BOUNDED after every step.
func TestModel(t *testing.T) {
	t.Parallel()
	const parts = 4
	all := seeds(t, 120, 200_000)
	for part := range parts {
		t.Run("part", func(t *testing.T) {
			t.Parallel()
			for i := part; i < len(all) && !t.Failed(); i += parts {
				if simulate(t, all[i], false).err != nil {
					s := simulate(t, all[i], true)
					t.Fatalf("seed %d: %v\nreplay with -seed=%d; the last steps were\n%s", all[i], s.err, all[i],
						strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))
				}
			}
		})
	}
}

// TestModelReplays runs seeds twice: what happens must be the same, step by step.
func TestModelReplays(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 12, 2000) {
		first, second := simulate(t, seed, true).trace, simulate(t, seed, true).trace
		for i := range min(len(first), len(second)) {
			if first[i] != second[i] {
				t.Fatalf("seed %d: step %d is %q, and then %q", seed, i, first[i], second[i])
			}
		}
		if len(first) != len(second) {
			t.Fatalf("seed %d: %d steps, and then %d", seed, len(first), len(second))
		}
	}
}

func simulate(t *testing.T, seed uint64, tracing bool) (s *sim) {
	synctest.Test(t, func(*testing.T) {
		s = newSim(seed, newSource(seed).transactions())
		s.tracing = tracing
		if s.err = s.run(); s.err != nil {
			s.shut()
		}
	})
	return s
}

// shut ends a simulation that has failed.
func (s *sim) shut() {
	s.faulty = 0
	s.cancel()
	if s.fan != nil {
		_ = s.fan.Close(s.ctx)
	}
	_ = s.target.Close()
}

// A generator makes the history of a source.
type generator struct {
	rng    *rand.Rand
	table  *logical.Relation // its shape, which gets another column now and then
	points []*logical.Relation
	ids    []int64 // of the table
	fresh  int64
	number int
}

func newSource(seed uint64) *generator {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 4)), table: shape("t", false, "v", "a", "b", "c"), fresh: 100}
	names := []string{"a", "b", "c"}
	for range 1 + g.rng.IntN(3) {
		g.rng.Shuffle(3, func(i, j int) { names[i], names[j] = names[j], names[i] })
		g.points = append(g.points, shape("p", true, append([]string{"v"}, names[:1+g.rng.IntN(3)]...)...))
	}
	for id := range int64(1 + g.rng.IntN(8)) {
		g.ids = append(g.ids, id)
	}
	return g
}

func (g *generator) transactions() [][]logical.Mutation {
	var txs [][]logical.Mutation
	for range 10 + g.rng.IntN(40) {
		n := g.rng.IntN(6)
		if g.rng.IntN(25) == 0 {
			n = 50 + g.rng.IntN(150)
		}
		var tx []logical.Mutation
		for len(tx) < n {
			tx = append(tx, g.mutation())
		}
		txs = append(txs, tx)
	}
	return txs
}

func (g *generator) mutation() logical.Mutation {
	g.number++
	if g.rng.IntN(3) == 0 {
		return g.point()
	}
	id := g.ids[g.rng.IntN(len(g.ids))]
	if g.rng.IntN(2) == 0 {
		id = g.ids[0] // the hot key
	}
	if n := len(g.table.Columns); n < 7 && g.rng.IntN(60) == 0 {
		g.table = shape("t", false, []string{"v", "a", "b", "c", "d", "e"}[:n]...)
	}
	switch n := g.rng.IntN(100); {
	case n < 1:
		return logical.Mutation{Op: logical.OpTruncate, Relation: g.table, Route: uint64(g.number)}
	case n < 3:
		return g.rekey(id)
	case n < 40:
		return g.fill(logical.OpUpsert, g.table, id)
	case n < 80:
		return g.fill(logical.OpPatch, g.table, id)
	}
	m := mut(logical.OpDelete, g.table, id, g.number)
	return m
}

func (g *generator) point() logical.Mutation {
	r := g.points[g.rng.IntN(len(g.points))]
	id := int64(g.rng.IntN(5))
	switch n := g.rng.IntN(100); {
	case n < 1:
		return logical.Mutation{Op: logical.OpTruncate, Relation: r, Route: uint64(g.number)}
	case n < 15:
		return mut(logical.OpDelete, r, id, g.number)
	}
	return g.fill(logical.OpPatch, r, id)
}

// rekey gives a row another key. The old one may come to belong to another row.
func (g *generator) rekey(id int64) logical.Mutation {
	g.fresh++
	m := g.fill(logical.OpRekey, g.table, g.fresh)
	m.OldKey = []logical.Value{logical.Int64(id)}
	if g.rng.IntN(2) == 0 {
		g.ids[slices.Index(g.ids, id)] = g.fresh
	} else {
		g.ids = append(g.ids, g.fresh)
	}
	return m
}

// fill makes a mutation that carries all columns, or some if it need not.
func (g *generator) fill(op logical.Op, r *logical.Relation, id int64) logical.Mutation {
	m := mut(op, r, id, g.number)
	for i := 2; i < len(m.Values); i++ {
		switch n := g.rng.IntN(6); {
		case op != logical.OpUpsert && n < 3:
		case n == 5:
			m.Values[i] = logical.Null()
		default:
			m.Values[i] = logical.Int64(int64(g.number*10 + i))
		}
	}
	return m
}
