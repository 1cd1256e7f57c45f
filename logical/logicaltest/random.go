package logicaltest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

// randomPoints writes points of several measurements, with any subset of their fields, often of
// keys that were written before, in transactions of any size, some of them rolled back.
func (s *suite) randomPoints(t *testing.T) {
	r := rand.New(rand.NewPCG(Seed(t), 1))
	g := &generator{r: r}
	fields := []logical.Column{
		Field("f", logical.KindFloat64), Field("i", logical.KindInt64), Field("u", logical.KindUint64),
		Field("b", logical.KindBool), Field("s", logical.KindText),
	}
	var relations []*logical.Relation
	for _, name := range []string{"cpu", "Mem usage", `q"uote.d`} {
		for n := 1; n <= len(fields); n += 2 {
			relations = append(relations, Points(name, []string{"host", "Region x"}[:1+n%2], fields[:n]...))
		}
	}
	s.runRandom(t, g, relations, g.point)
}

// randomRows does the same with rows of databases, and with every operation that they know.
func (s *suite) randomRows(t *testing.T) {
	r := rand.New(rand.NewPCG(Seed(t), 2))
	g := &generator{r: r}
	relations := []*logical.Relation{
		Table("one key", logical.Column{Name: "k", Kind: logical.KindInt64},
			logical.Column{Name: "a", Kind: logical.KindText}, logical.Column{Name: "B b", Kind: logical.KindFloat64}),
		Table("two keys", logical.Column{Name: "x", Kind: logical.KindInt64}, logical.Column{Name: "k1", Kind: logical.KindText},
			logical.Column{Name: "y", Kind: logical.KindBool}, logical.Column{Name: "k2", Kind: logical.KindInt64}),
		Table("key only", logical.Column{Name: "k", Kind: logical.KindText}),
	}
	s.runRandom(t, g, relations, g.row)
}

// runRandom applies random transactions to the target and to the model, and compares.
func (s *suite) runRandom(t *testing.T, g *generator, relations []*logical.Relation, next func(*logical.Relation) logical.Mutation) {
	target := s.open(t)
	for _, rel := range relations {
		if !rel.Points {
			s.opts.CreateTable(t, target, rel)
		}
	}
	session := s.take(t, target, "random")
	ctx := testContext(t)
	if err := session.Prepare(ctx, relations); err != nil {
		t.Fatal(err)
	}
	m := model{}
	for round := range Count(30, 400) {
		g.keys = []int{3, 50, 1000}[g.r.IntN(3)]
		tx, err := session.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		rollback := g.r.IntN(5) == 0
		for range 1 + g.r.IntN(3) {
			muts := make([]logical.Mutation, g.size())
			for i := range muts {
				muts[i] = next(relations[g.r.IntN(len(relations))])
				if !rollback {
					m.apply(&muts[i])
				}
			}
			if err := tx.Apply(ctx, muts); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if rollback {
			err = tx.Rollback(ctx)
		} else {
			err = tx.Commit(ctx)
		}
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round%5 == 4 || rollback {
			for _, rel := range widest(relations) {
				s.check(t, target, m, rel)
			}
		}
	}
}

// widest returns one relation for each table, the one with the most columns.
func widest(relations []*logical.Relation) []*logical.Relation {
	byName := map[string]*logical.Relation{}
	for _, rel := range relations {
		if w := byName[rel.Name]; w == nil || len(w.Columns) < len(rel.Columns) {
			byName[rel.Name] = rel
		}
	}
	var list []*logical.Relation
	for _, rel := range byName {
		list = append(list, rel)
	}
	return list
}

// A generator makes random mutations.
type generator struct {
	r    *rand.Rand
	keys int // how many keys there are
}

// size is that of a batch: mostly small, now and then one that is worth another way of writing.
func (g *generator) size() int {
	switch g.r.IntN(10) {
	case 0:
		return 0
	case 1, 2, 3, 4:
		return 1 + g.r.IntN(4)
	case 9:
		return 300 + g.r.IntN(1500)
	}
	return 1 + g.r.IntN(100)
}

func (g *generator) point(rel *logical.Relation) logical.Mutation {
	series := byte(g.r.IntN(3))
	mut := Point(rel, int64(g.r.IntN(g.keys))-int64(g.keys/2), series)
	for _, c := range rel.Columns[2:] {
		v := g.value(c.Kind)
		if c.Role == logical.RoleTag {
			v = logical.Text(fmt.Sprintf("%s-%d", c.Name, series)) // the series decides
		} else if g.r.IntN(3) == 0 {
			v = logical.Value{}
		}
		mut.Values = append(mut.Values, v)
	}
	if g.r.IntN(10) == 0 {
		mut.Op = logical.OpFill
	}
	return mut
}

func (g *generator) row(rel *logical.Relation) logical.Mutation {
	mut := logical.Mutation{Relation: rel, Op: logical.OpUpsert}
	switch n := g.r.IntN(400); {
	case n == 0:
		mut.Op = logical.OpTruncate
		return mut
	case n < 80:
		mut.Op = logical.OpDelete
	case n < 160:
		mut.Op = logical.OpPatch
	case n < 180:
		mut.Op = logical.OpReplace
	case n < 200:
		mut.Op = logical.OpRekey
		mut.OldKey = g.key(rel)
	}
	key := g.key(rel)
	for _, c := range rel.Columns {
		v := g.value(c.Kind)
		switch {
		case c.Key:
			v, key = key[0], key[1:]
		case mut.Op == logical.OpDelete, mut.Op != logical.OpUpsert && g.r.IntN(2) == 0:
			v = logical.Value{}
		case g.r.IntN(6) == 0:
			v = logical.Null()
		}
		mut.Values = append(mut.Values, v)
	}
	return mut
}

func (g *generator) key(rel *logical.Relation) []logical.Value {
	var key []logical.Value
	for _, i := range rel.KeyColumns() {
		n := g.r.IntN(g.keys)
		if rel.Columns[i].Kind == logical.KindText {
			key = append(key, logical.Text(fmt.Sprintf("kéy %d", n)))
		} else {
			key = append(key, logical.Int64(int64(n)))
		}
	}
	return key
}

func (g *generator) value(kind logical.Kind) logical.Value {
	switch kind {
	case logical.KindBool:
		return logical.Bool(g.r.IntN(2) == 0)
	case logical.KindInt64:
		return logical.Int64([]int64{0, 1, -1, math.MaxInt64, math.MinInt64, g.r.Int64()}[g.r.IntN(6)])
	case logical.KindUint64:
		return logical.Uint64([]uint64{0, 1, math.MaxUint64, g.r.Uint64()}[g.r.IntN(4)])
	case logical.KindFloat64:
		return logical.Float64([]float64{0, 1, -1.5, math.MaxFloat64, math.SmallestNonzeroFloat64, g.r.NormFloat64()}[g.r.IntN(6)])
	}
	return logical.Text([]string{"", "a", "tab\tand \\N and \"quotes\" and 'more'", "ünïcödé 🌊", fmt.Sprint(g.r.Uint64())}[g.r.IntN(5)])
}
