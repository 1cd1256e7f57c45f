package fan

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seedFlag = flag.Uint64("seed", 0, "replay one seed of the randomised tests")

// seeds returns the seeds to try: the one of -seed or TAILRACE_SEED, or n of them.
func seeds(t *testing.T, n, soak uint64) []uint64 {
	t.Helper()
	one := *seedFlag
	if s := os.Getenv("TAILRACE_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		one = v
	}
	if one != 0 {
		return []uint64{one}
	}
	if os.Getenv("TAILRACE_SOAK") != "" {
		n = soak
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i) + 1
	}
	return all
}

// shape returns a relation whose first column is the key "id", and whose others have the given names.
func shape(table string, points bool, columns ...string) *logical.Relation {
	r := &logical.Relation{Name: table, Points: points}
	r.Columns = append(r.Columns, logical.Column{Name: "id", Kind: logical.KindInt64, Key: true})
	for _, c := range columns {
		r.Columns = append(r.Columns, logical.Column{Name: c, Kind: logical.KindInt64})
	}
	return r
}

func mut(op logical.Op, r *logical.Relation, id int64, values ...any) logical.Mutation {
	m := logical.Mutation{Op: op, Relation: r, Values: make([]logical.Value, len(r.Columns))}
	m.Values[0] = logical.Int64(id)
	for i, v := range values {
		switch v := v.(type) {
		case int:
			m.Values[i+1] = logical.Int64(int64(v))
		case nil:
			m.Values[i+1] = logical.Null()
		}
	}
	return m
}

// absent stands for a value that is not carried.
type absent struct{}

func TestMergeRules(t *testing.T) {
	t.Parallel()
	const up, patch, del, repl = logical.OpUpsert, logical.OpPatch, logical.OpDelete, logical.OpReplace
	db, dbMore := shape("t", false, "a", "b"), shape("t", false, "a", "b", "c")
	pt, ptA, ptC := shape("t", true, "a", "b"), shape("t", true, "a"), shape("t", true, "c")
	ptFloat := shape("t", true, "a", "b")
	ptFloat.Columns[1].Kind = logical.KindFloat64
	truncate := logical.Mutation{Op: logical.OpTruncate, Relation: db}
	line := logical.Mutation{Op: patch, Relation: pt, Raw: []byte("t a=1"), Route: 7}
	for _, c := range []struct {
		name string
		in   []logical.Mutation
		want string
	}{
		{"the last upsert wins", []logical.Mutation{mut(up, db, 1, 1, 2), mut(up, db, 1, 3, 4)}, "upsert 1 a=3 b=4"},
		{"a patch fills an upsert in", []logical.Mutation{mut(up, db, 1, 1, 2), mut(patch, db, 1, absent{}, 5)}, "upsert 1 a=1 b=5"},
		{"a patch fills a patch in", []logical.Mutation{mut(patch, db, 1, 1), mut(patch, db, 1, absent{}, 5)}, "patch 1 a=1 b=5"},
		{"null is a value", []logical.Mutation{mut(up, db, 1, 1, 2), mut(patch, db, 1, absent{}, nil)}, "upsert 1 a=1 b=null"},
		{"an upsert after a patch is the whole row", []logical.Mutation{mut(patch, db, 1, 1), mut(up, db, 1, 3, 4)}, "upsert 1 a=3 b=4"},
		{"a delete discards what precedes it", []logical.Mutation{mut(up, db, 1, 1, 2), mut(patch, db, 1, 3), mut(del, db, 1)}, "delete 1"},
		{"an upsert after a delete is a replace", []logical.Mutation{mut(del, db, 1), mut(up, db, 1, 1)}, "replace 1 a=1"},
		{"a replace is filled in", []logical.Mutation{mut(del, db, 1), mut(up, db, 1, 1), mut(patch, db, 1, absent{}, 2)}, "replace 1 a=1 b=2"},
		{"a replace stays one after an upsert", []logical.Mutation{mut(repl, db, 1, 1), mut(up, db, 1, 2, 3)}, "replace 1 a=2 b=3"},
		{"an update-only patch after a delete finds nothing", []logical.Mutation{mut(del, db, 1), mut(patch, db, 1, 1)}, "delete 1"},
		{"a patch of a point after a delete is a replace", []logical.Mutation{mut(del, pt, 1), mut(patch, pt, 1, 1)}, "replace 1 a=1"},
		{"a replace discards what precedes it", []logical.Mutation{mut(up, db, 1, 1, 2), mut(repl, db, 1, 3)}, "replace 1 a=3"},
		{"keys are told apart, and the first place counts", []logical.Mutation{mut(up, db, 1, 1, 1), mut(up, db, 2, 2, 2), mut(up, db, 1, 3, 3)}, "upsert 1 a=3 b=3; upsert 2 a=2 b=2"},
		{"nothing is merged across a barrier", []logical.Mutation{mut(up, db, 1, 1, 1), truncate, mut(up, db, 1, 2, 2)}, "upsert 1 a=1 b=1; truncate; upsert 1 a=2 b=2"},
		{"lines are not merged", []logical.Mutation{line, line}, "patch line; patch line"},
		{"shapes of points are united", []logical.Mutation{mut(patch, pt, 1, 1, 2), mut(patch, ptC, 1, 3)}, "patch 1 a=1 b=2 c=3"},
		{"the wider shape comes second", []logical.Mutation{mut(patch, ptA, 1, 1), mut(patch, pt, 1, absent{}, 2)}, "patch 1 a=1 b=2"},
		{"the wider shape comes first", []logical.Mutation{mut(patch, pt, 1, 1, 2), mut(patch, ptA, 1, 3)}, "patch 1 a=3 b=2"},
		{"a column with two kinds keeps two mutations apart", []logical.Mutation{mut(patch, pt, 1, 1, 2), mut(patch, ptFloat, 1, 3)}, "patch 1 a=1 b=2; patch 1 a=3"},
		{"and what follows joins the later one", []logical.Mutation{mut(patch, pt, 1, 1), mut(patch, ptFloat, 1, 3), mut(patch, ptC, 1, 5)}, "patch 1 a=1; patch 1 a=3 c=5"},
		{"a table that changed keeps two mutations apart", []logical.Mutation{mut(up, db, 1, 1, 2), mut(up, dbMore, 1, 3, 4, 5), mut(patch, dbMore, 1, 6)}, "upsert 1 a=1 b=2; upsert 1 a=6 b=4 c=5"},
		{"a fill is not merged, nor what is around it", []logical.Mutation{mut(patch, pt, 1, 1), mut(logical.OpFill, pt, 1, 2, 2), mut(logical.OpFill, pt, 1, 3, 3), mut(patch, pt, 1, 4), mut(patch, pt, 1, absent{}, 5)}, "patch 1 a=1; fill 1 a=2 b=2; fill 1 a=3 b=3; patch 1 a=4 b=5"},
		{"a fill keeps its place after a delete", []logical.Mutation{mut(del, pt, 1), mut(logical.OpFill, pt, 1, 2), mut(del, pt, 1)}, "delete 1; fill 1 a=2; delete 1"},
		{"a delete needs no shape", []logical.Mutation{mut(up, db, 1, 1, 2), mut(del, dbMore, 1)}, "delete 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := describe(NewMerger(NewUnions()).Merge(slices.Clone(c.in))); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func describe(muts []logical.Mutation) string {
	var out string
	for i, m := range muts {
		if i > 0 {
			out += "; "
		}
		out += m.Op.String()
		if m.Values == nil {
			if m.Raw != nil {
				out += " line"
			}
			continue
		}
		for j, v := range m.Values {
			switch {
			case j == 0:
				out += fmt.Sprintf(" %d", v.Int64())
			case v.IsNull():
				out += " " + m.Relation.Columns[j].Name + "=null"
			case !v.IsAbsent():
				out += fmt.Sprintf(" %s=%d", m.Relation.Columns[j].Name, v.Int64())
			}
		}
	}
	return out
}

// plainRows are a database of maps that takes one mutation at a time. It shares nothing with Merger
// but the contracts.
type plainRows map[string]map[string]string

func (o plainRows) apply(m *logical.Mutation) {
	if m.Op == logical.OpTruncate {
		clear(o)
		return
	}
	key := fmt.Sprint(m.Relation.Name, m.Values[0].Int64())
	row, exists := o[key]
	switch {
	case m.Op == logical.OpDelete:
		delete(o, key)
		return
	case m.Op == logical.OpPatch && !m.Relation.Points && !exists:
		return
	case m.Op == logical.OpReplace || !exists:
		row = map[string]string{}
	}
	o[key] = row
	for i, c := range m.Relation.Columns {
		switch v := m.Values[i]; v.Kind() {
		case logical.KindAbsent:
		case logical.KindNull:
			delete(row, c.Name) // what a column has that nobody wrote
		default:
			row[c.Name] = strconv.FormatInt(v.Int64(), 10)
		}
	}
}

func (o plainRows) clone() plainRows {
	c := plainRows{}
	for k, row := range o {
		c[k] = maps.Clone(row)
	}
	return c
}

// TestConvergeMergedBatches applies random histories to two oracles, one mutation at a time to the
// one, and merged batches to the other.
func TestConvergeMergedBatches(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 100, 50_000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		h := newShapes(rng)
		m := NewMerger(NewUnions())
		plain, merged := plainRows{}, plainRows{}
		for batch := range 20 {
			muts := h.batch(1 + rng.IntN(40))
			before := merged.clone()
			for i := range muts {
				plain.apply(&muts[i])
			}
			kept := describe(muts)
			out := m.Merge(slices.Clone(muts))
			for i := range out {
				merged.apply(&out[i])
			}
			if describe(muts) != kept {
				t.Fatalf("seed %d batch %d: merging changed what it was given; replay with -seed=%d", seed, batch, seed)
			}
			if !maps.EqualFunc(plain, merged, maps.Equal) {
				t.Fatalf("seed %d batch %d: replay with -seed=%d\nbefore %v\nbatch  %s\nmerged %s\ngot  %v\nwant %v",
					seed, batch, seed, before, kept, describe(out), merged, plain)
			}
		}
	}
}

// shapes make random mutations of a few keys in a few shapes.
type shapes struct {
	rng    *rand.Rand
	shapes []*logical.Relation
	next   int
}

func newShapes(rng *rand.Rand) *shapes {
	names := []string{"a", "b", "c", "d"}
	h := &shapes{rng: rng}
	for range 1 + rng.IntN(5) {
		points := rng.IntN(2) == 0
		table := "table"
		if points {
			table = "points"
		}
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		h.shapes = append(h.shapes, shape(table, points, names[:1+rng.IntN(4)]...))
	}
	return h
}

func (h *shapes) batch(n int) []logical.Mutation {
	muts := make([]logical.Mutation, n)
	for i := range muts {
		muts[i] = h.mutation()
	}
	return muts
}

func (h *shapes) mutation() logical.Mutation {
	r := h.shapes[h.rng.IntN(len(h.shapes))]
	ops := []logical.Op{logical.OpUpsert, logical.OpPatch, logical.OpPatch, logical.OpDelete, logical.OpReplace}
	m := mut(ops[h.rng.IntN(len(ops))], r, int64(h.rng.IntN(6)))
	switch {
	case h.rng.IntN(60) == 0:
		return logical.Mutation{Op: logical.OpTruncate, Relation: r}
	case m.Op == logical.OpDelete:
		return m
	}
	for i := 1; i < len(m.Values); i++ {
		h.next++
		switch n := h.rng.IntN(8); {
		case m.Op != logical.OpUpsert && n < 3:
		case n == 7:
			m.Values[i] = logical.Null()
		default:
			m.Values[i] = logical.Int64(int64(h.next))
		}
	}
	return m
}

func TestUnionsAreTheSameRelation(t *testing.T) {
	t.Parallel()
	u := NewUnions()
	a, b := shape("t", true, "a", "x"), shape("t", true, "b", "x")
	ab, ba := u.of(a, b), u.of(b, a)
	if ab.relation == nil || ab.relation != ba.relation || ab.relation != u.of(a, b).relation {
		t.Error("one pair has two unions")
	}
	if again := u.of(ab.relation, a); again.relation != ab.relation {
		t.Error("a part of a union makes another union with it")
	}
	for range 3 * maxUnions {
		u.of(shape("t", true, "a"), shape("t", true, "b"))
	}
	if len(u.pair) > maxUnions {
		t.Errorf("%d pairs are remembered", len(u.pair))
	}
}

func TestHashSpreadsKeys(t *testing.T) {
	t.Parallel()
	const shards, n = 16, 64_000
	for name, key := range map[string]func(i int) []byte{
		"counter": func(i int) []byte { m := mut(logical.OpUpsert, shape("t", false), int64(i)); return m.AppendKey(nil) },
		"text":    func(i int) []byte { return fmt.Appendf(nil, "cpu,host=server%06d", i) },
		"times":   func(i int) []byte { return fmt.Appendf(nil, "%d000000000", 1_700_000_000+10*i) },
	} {
		var load [shards]int
		seen := map[uint64]bool{}
		for i := range n {
			h := hash(key(i))
			seen[h] = true
			load[h%shards]++
		}
		if len(seen) != n {
			t.Errorf("%s: %d keys have %d hashes", name, n, len(seen))
		}
		for i, l := range load {
			if l < n/shards*9/10 || l > n/shards*11/10 {
				t.Errorf("%s: shard %d gets %d of %d keys", name, i, l, n)
			}
		}
	}
}

func BenchmarkMerge(b *testing.B) {
	r := shape("t", true, "a", "b", "c", "d")
	other := shape("t", true, "c", "e")
	for _, c := range []struct {
		name   string
		keys   int
		absent bool
		mixed  bool
	}{
		{"different keys", 1000, false, false},
		{"hot keys, whole rows", 50, false, false},
		{"hot keys, patches", 50, true, false},
		{"hot keys, two shapes", 50, true, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := make([]logical.Mutation, 1000)
			for i := range in {
				in[i] = mut(logical.OpPatch, r, int64(i%c.keys), i, i, i, i)
				if c.absent {
					in[i].Values[1+i%4] = logical.Value{}
				}
				if c.mixed && i%3 == 0 {
					in[i] = mut(logical.OpPatch, other, int64(i%c.keys), i, i)
				}
			}
			m := NewMerger(NewUnions())
			muts := make([]logical.Mutation, len(in))
			b.ReportAllocs()
			for b.Loop() {
				copy(muts, in)
				m.Merge(muts)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(in)), "ns/mutation")
		})
	}
}
