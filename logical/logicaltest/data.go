package logicaltest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

// account is a table of a database that several tests use.
func account() *logical.Relation {
	return Table("account", logical.Column{Name: "k", Kind: logical.KindInt64},
		logical.Column{Name: "owner", Kind: logical.KindText}, logical.Column{Name: "cents", Kind: logical.KindInt64})
}

func row(op logical.Op, rel *logical.Relation, values ...logical.Value) logical.Mutation {
	return logical.Mutation{Op: op, Relation: rel, Values: values}
}

// orderOfOneKey: within a call, across the calls of a transaction, and across transactions.
func (s *suite) orderOfOneKey(t *testing.T) {
	target, rel := s.open(t), account()
	s.opts.CreateTable(t, target, rel)
	session := s.take(t, target, "order")
	int64s, text := logical.Int64, logical.Text
	muts := []logical.Mutation{
		row(logical.OpUpsert, rel, int64s(1), text("a"), int64s(1)),
		row(logical.OpPatch, rel, int64s(1), logical.Value{}, int64s(2)),
		row(logical.OpDelete, rel, int64s(1), logical.Value{}, logical.Value{}),
		row(logical.OpPatch, rel, int64s(1), text("lost"), int64s(3)),
		row(logical.OpUpsert, rel, int64s(1), logical.Null(), int64s(4)),
		row(logical.OpUpsert, rel, int64s(2), text("b"), int64s(5)),
		row(logical.OpPatch, rel, int64s(1), text("c"), logical.Value{}),
		row(logical.OpReplace, rel, int64s(2), text("d"), logical.Value{}),
		row(logical.OpDelete, rel, int64s(2), logical.Value{}, logical.Value{}),
		row(logical.OpUpsert, rel, int64s(2), text("e"), int64s(6)),
	}
	// Every way to cut the sequence into two calls, and into two transactions.
	for cut := range len(muts) + 1 {
		for _, together := range []bool{true, false} {
			m := model{}
			wipe := row(logical.OpTruncate, rel)
			apply(t, session, wipe)
			for i := range muts {
				m.apply(&muts[i])
			}
			if together {
				applyParts(t, session, muts[:cut], muts[cut:])
			} else {
				applyParts(t, session, muts[:cut])
				applyParts(t, session, muts[cut:])
			}
			s.check(t, target, m, rel)
		}
	}
}

// applyParts applies each part with a call of its own, all in one transaction.
func applyParts(t testing.TB, session logical.Session, parts ...[]logical.Mutation) {
	t.Helper()
	ctx := testContext(t)
	tx, err := session.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		if err := tx.Apply(ctx, part); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}

// patchKeepsAbsent: absent is not null, and a patch inserts points but no rows.
func (s *suite) patchKeepsAbsent(t *testing.T) {
	target, rel := s.open(t), account()
	s.opts.CreateTable(t, target, rel)
	session := s.take(t, target, "patch")
	cpu := Points("cpu", []string{"host"}, Field("user", logical.KindFloat64), Field("idle", logical.KindFloat64))
	muts := []logical.Mutation{
		row(logical.OpUpsert, rel, logical.Int64(1), logical.Text("a"), logical.Int64(1)),
		row(logical.OpPatch, rel, logical.Int64(1), logical.Value{}, logical.Null()),
		row(logical.OpPatch, rel, logical.Int64(2), logical.Text("nobody"), logical.Value{}),
		Point(cpu, 7, 1, logical.Text("h"), logical.Float64(1), logical.Float64(2)),
		Point(cpu, 7, 1, logical.Text("h"), logical.Float64(3), logical.Value{}),
		Point(cpu, 8, 1, logical.Text("h"), logical.Value{}, logical.Float64(4)),
	}
	m := model{}
	for i := range muts {
		m.apply(&muts[i])
		apply(t, session, muts[i])
	}
	s.check(t, target, m, rel)
	s.check(t, target, m, cpu)
	// In one call: the first key carries more only when others of its first shape have come.
	together := []logical.Mutation{
		Point(cpu, 8, 2, logical.Text("h"), logical.Value{}, logical.Value{}),
		Point(cpu, 7, 2, logical.Text("h"), logical.Value{}, logical.Value{}),
		Point(cpu, 8, 2, logical.Text("h"), logical.Float64(5), logical.Value{}),
	}
	for i := range together {
		m.apply(&together[i])
	}
	apply(t, session, together...)
	s.check(t, target, m, cpu)
	if len(m["account"]) != 1 || len(m["cpu"]) != 4 {
		t.Fatal("the model is wrong")
	}
}

// fill: a late point is inserted, or brings what the row lacks, in its turn among the others.
func (s *suite) fill(t *testing.T) {
	target := s.open(t)
	session := s.take(t, target, "fill")
	cpu := Points("cpu", []string{"host"}, Field("user", logical.KindFloat64), Field("idle", logical.KindInt64))
	narrow := Points("cpu", []string{"host"}, Field("user", logical.KindFloat64))
	host, null, absent := logical.Text("h"), logical.Null(), logical.Value{}
	late := func(ns int64, user, idle logical.Value) logical.Mutation {
		mut := Point(cpu, ns, 1, host, user, idle)
		mut.Op = logical.OpFill
		return mut
	}
	muts := []logical.Mutation{
		late(1, logical.Float64(1), absent), // there is no row
		late(1, logical.Float64(2), logical.Int64(2)),
		late(1, logical.Float64(3), logical.Int64(3)),
		Point(narrow, 2, 1, host, logical.Float64(4)),
		late(2, logical.Float64(5), logical.Int64(5)),
		Point(cpu, 2, 1, host, absent, logical.Int64(6)), // what comes later counts
		late(2, logical.Float64(7), logical.Int64(7)),
		Point(cpu, 3, 1, host, logical.Float64(8), null),
		late(3, null, null),
		late(3, logical.Float64(9), logical.Int64(9)),
		row(logical.OpDelete, cpu, Point(cpu, 3, 1, absent, absent, absent).Values...),
		late(3, logical.Float64(10), null),
		late(4, logical.Float64(11), absent),
		row(logical.OpDelete, cpu, Point(cpu, 4, 1, absent, absent, absent).Values...),
		late(5, absent, absent),
	}
	for cut := range len(muts) + 1 {
		m := model{}
		wipe := row(logical.OpTruncate, cpu)
		apply(t, session, wipe)
		for i := range muts {
			m.apply(&muts[i])
		}
		applyParts(t, session, muts[:cut], muts[cut:])
		s.check(t, target, m, cpu)
		if cut == 0 && (m["cpu"].find("2")["user"] != "4" || m["cpu"].find("2")["idle"] != "6" || len(m["cpu"]) != 4) {
			t.Fatal("the model is wrong")
		}
	}
	// Many at once, of which every second is there.
	m := model{}
	var there, all []logical.Mutation
	for ns := range int64(4000) {
		if ns%2 == 0 {
			there = append(there, Point(cpu, 100+ns, 1, host, logical.Float64(float64(ns)), absent))
		}
		all = append(all, late(100+ns, logical.Float64(-1), logical.Int64(ns)))
	}
	apply(t, session, row(logical.OpTruncate, cpu))
	for _, part := range [][]logical.Mutation{there, all} {
		for i := range part {
			m.apply(&part[i])
		}
		apply(t, session, part...)
	}
	s.check(t, target, m, cpu)
}

// rekey: also when it is applied again from a point before it, and when keys are swapped.
func (s *suite) rekey(t *testing.T) {
	target, rel := s.open(t), account()
	s.opts.CreateTable(t, target, rel)
	session := s.take(t, target, "rekey")
	move := func(from, to int64, values ...logical.Value) logical.Mutation {
		mut := row(logical.OpRekey, rel, append([]logical.Value{logical.Int64(to)}, values...)...)
		mut.OldKey = []logical.Value{logical.Int64(from)}
		return mut
	}
	absent := logical.Value{}
	muts := []logical.Mutation{
		row(logical.OpUpsert, rel, logical.Int64(1), logical.Text("a"), logical.Int64(10)),
		row(logical.OpUpsert, rel, logical.Int64(2), logical.Text("b"), logical.Int64(20)),
		move(1, 3, absent, absent), // a swap by way of a third key
		move(2, 1, absent, logical.Int64(21)),
		move(3, 2, logical.Text("A"), absent),
		move(2, 2, absent, logical.Int64(11)),
	}
	m := model{}
	for i := range muts {
		m.apply(&muts[i])
	}
	apply(t, session, muts...)
	s.check(t, target, m, rel)
	// From the second on again, as after a crash; each state is that of the model, which has seen
	// the same.
	for i := range muts {
		m.apply(&muts[i])
		apply(t, session, muts[i])
		s.check(t, target, m, rel)
	}
}

// typeConflict: what loses nothing is stored, what does is named, and the others can go on.
func (s *suite) typeConflict(t *testing.T) {
	target := s.open(t)
	session := s.take(t, target, "types")
	ints := Points("m", nil, Field("i", logical.KindInt64), Field("f", logical.KindFloat64))
	floats := Points("m", nil, Field("i", logical.KindFloat64), Field("f", logical.KindInt64))
	texts := Points("m", nil, Field("i", logical.KindText))
	apply(t, session, Point(ints, 1, 1, logical.Int64(1), logical.Float64(1.5)))
	apply(t, session, Point(floats, 2, 1, logical.Float64(2), logical.Int64(1<<53)))
	muts := []logical.Mutation{
		Point(ints, 3, 1, logical.Int64(3), logical.Float64(3)),
		Point(floats, 4, 1, logical.Float64(4.5), logical.Value{}),
		Point(floats, 5, 1, logical.Float64(5), logical.Int64(1<<53+1)),
		Point(texts, 6, 1, logical.Text("6")),
		Point(ints, 7, 1, logical.Int64(7), logical.Value{}),
	}
	err := Apply(testContext(t), session, muts...)
	if logical.ClassOf(err) != logical.ClassReject {
		t.Fatalf("got class %v of %v, want reject", logical.ClassOf(err), err)
	}
	var rejected []int
	for _, r := range logical.RejectedOf(err) {
		if r.Reason == nil {
			t.Errorf("mutation %d was rejected without a reason", r.Index)
		}
		rejected = append(rejected, r.Index)
	}
	if want := []int{1, 2, 3}; !slices.Equal(rejected, want) {
		t.Fatalf("%v are rejected, want %v: %v", rejected, want, err)
	}
	apply(t, session, muts[0], muts[4])
	m := model{}
	for _, mut := range []logical.Mutation{
		Point(ints, 1, 1, logical.Int64(1), logical.Float64(1.5)), Point(ints, 2, 1, logical.Int64(2), logical.Float64(1<<53)),
		muts[0], muts[4],
	} {
		m.apply(&mut)
	}
	s.check(t, target, m, ints)
}

func (s *suite) rollback(t *testing.T) {
	target := s.open(t)
	session := s.take(t, target, "rollback")
	ctx := testContext(t)
	cpu := Points("cpu", nil, Field("v", logical.KindInt64))
	apply(t, session, Point(cpu, 1, 1, logical.Int64(1)))
	wider := Points("cpu", nil, Field("v", logical.KindInt64), Field("w", logical.KindInt64))
	for range 2 { // what was prepared by a transaction that failed is prepared again
		if err := session.Prepare(ctx, []*logical.Relation{wider}); err != nil {
			t.Fatal(err)
		}
		tx, err := session.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Apply(ctx, []logical.Mutation{Point(wider, 2, 1, logical.Int64(2), logical.Int64(3))}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(ctx); err == nil {
			t.Error("a transaction can be committed after it was rolled back")
		}
	}
	m := model{}
	mut := Point(cpu, 1, 1, logical.Int64(1))
	m.apply(&mut)
	s.check(t, target, m, cpu)
	mut = Point(wider, 2, 1, logical.Int64(2), logical.Int64(3))
	m.apply(&mut)
	apply(t, session, mut)
	s.check(t, target, m, wider)
}

// prepare: again, by several at once, and by two processes.
func (s *suite) prepare(t *testing.T) {
	target := s.open(t)
	other := s.opts.Another(t, target)
	defer func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx := testContext(t)
	errs := make(chan error)
	const loops = 8
	m := model{}
	for i := range loops {
		for ns := range int64(3) {
			mut := Point(Points("shared", []string{"host"}, Field("common", logical.KindInt64), Field(fmt.Sprintf("f%d", i), logical.KindInt64)),
				ns, byte(i), logical.Text("h"), logical.Int64(ns), logical.Int64(ns))
			m.apply(&mut)
		}
		go func() { errs <- s.prepareAndWrite([]logical.Target{target, other}[i%2], i) }()
	}
	for range loops {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	all := Points("shared", []string{"host"}, Field("common", logical.KindInt64))
	for i := range loops {
		all.Columns = append(all.Columns, Field(fmt.Sprintf("f%d", i), logical.KindInt64))
	}
	s.check(t, target, m, all)
	session := s.take(t, target, "again")
	for range 2 {
		if err := session.Prepare(ctx, []*logical.Relation{all, all}); err != nil {
			t.Error(err)
		}
	}
}

func (s *suite) prepareAndWrite(target logical.Target, i int) error {
	ctx, cancel := contextOf2Minutes()
	defer cancel()
	session, err := target.Take(ctx, logical.Claim{Loop: fmt.Sprintf("prepare %d", i), Holder: "me"})
	if err != nil {
		return err
	}
	for ns := range int64(3) {
		rel := Points("shared", []string{"host"}, Field("common", logical.KindInt64), Field(fmt.Sprintf("f%d", i), logical.KindInt64))
		if err := Apply(ctx, session, Point(rel, ns, byte(i), logical.Text("h"), logical.Int64(ns), logical.Int64(ns))); err != nil {
			return err
		}
	}
	return session.Release(ctx)
}

// wide: more values in a batch than a statement can have parameters.
func (s *suite) wide(t *testing.T) {
	target := s.open(t)
	session := s.take(t, target, "wide")
	var fields []logical.Column
	for i := range 100 {
		fields = append(fields, Field(fmt.Sprintf("field %d", i), logical.KindInt64))
	}
	rel := Points("wide", []string{"host"}, fields...)
	var muts []logical.Mutation
	m := model{}
	for ns := range int64(1000) {
		mut := Point(rel, ns, 1, logical.Text("h"))
		for i := range int64(100) {
			mut.Values = append(mut.Values, logical.Int64(ns*i))
		}
		m.apply(&mut)
		muts = append(muts, mut)
	}
	apply(t, session, muts...)
	s.check(t, target, m, rel)
}
