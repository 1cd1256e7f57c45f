package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// apply turns mutations into statements. Those of different keys are put together by table, and
// those of one key into one; operations that concern more than one key divide what is before them
// from what is after them.
func (x *tx) apply(ctx context.Context, muts []logical.Mutation) error {
	if err := x.planAll(ctx, muts); err != nil {
		return err
	}
	from := 0
	for i := 0; i < len(muts); i++ {
		p, op := x.w.plans[i], muts[i].Op
		reaches := p.reaches(op)
		if !reaches && !op.Barrier() {
			continue
		}
		if err := x.segment(ctx, muts, from, i); err != nil {
			return err
		}
		from = i + 1
		if op.Barrier() {
			x.barrier(muts, i)
			continue
		}
		// Deletes of one table have the same effect in whatever order they come.
		for op == logical.OpDelete && from < len(muts) && muts[from].Op == op && x.w.plans[from] == p {
			from++
		}
		if err := x.together(ctx, muts, i, from); err != nil {
			return err
		}
		i = from - 1
	}
	return x.segment(ctx, muts, from, len(muts))
}

// planAll finds the plan of each mutation, and those that can never be stored. All plans are of one state
// of the catalog: two views of one table would be two batches, and their order would be lost (ORDER).
func (x *tx) planAll(ctx context.Context, muts []logical.Mutation) error {
	for {
		changes, noted := x.s.t.catalog.changes.Load(), x.noted
		err := x.planOnce(ctx, muts)
		if !errors.Is(err, errPlanAgain) && (err != nil || changes == x.s.t.catalog.changes.Load()) {
			return err
		}
		x.noted = noted
	}
}

func (x *tx) planOnce(ctx context.Context, muts []logical.Mutation) error {
	w := x.w
	w.call = x.calls
	clear(w.plans)
	w.plans = slices.Grow(w.plans[:0], len(muts))
	var p *plan
	var rejected []logical.Rejection
	for i := range muts {
		m := &muts[i]
		if p == nil || p.relation != m.Relation {
			var err error
			if p, err = x.s.t.plan(ctx, m.Relation); err != nil {
				if errors.Is(err, errNeedsDDL) {
					err = retry(errors.Errorf("postgres: the table of %s lacks columns, or is not there", m.Relation), "it is made or extended before the next try")
				}
				return err
			}
		}
		w.plans = append(w.plans, p)
		no := p.refuses(m, &w.mask)
		if (no != "" || p.ignored != nil) && x.suspects(ctx, p, m, no != "") {
			return errPlanAgain
		}
		if no == "" {
			x.noted.add(p, m)
		} else {
			why := errors.New("postgres: table \"" + m.Relation.String() + "\": " + no)
			rejected = append(rejected, logical.Rejection{Index: i, Reason: why})
		}
	}
	if rejected != nil {
		return &logical.Error{Err: rejected[0].Reason, Class: logical.ClassReject, Rejected: rejected}
	}
	return nil
}

// segment applies mutations between two barriers.
func (x *tx) segment(ctx context.Context, muts []logical.Mutation, from, to int) error {
	if from == to {
		return nil
	}
	risky := false
	for i := from; i < to && !risky; i++ {
		risky = (i == from || x.w.plans[i] != x.w.plans[i-1]) && x.w.plans[i].risky()
	}
	if risky {
		return x.guarded(ctx, muts, from, to)
	}
	return x.together(ctx, muts, from, to)
}

// together adds the statements that apply mutations put together.
func (x *tx) together(ctx context.Context, muts []logical.Mutation, from, to int) error {
	w := x.w
	defer w.endBatches()
	for i := from; i < to; i++ {
		p := w.plans[i]
		if w.batch(p, len(muts)).add(i, muts, p) {
			continue
		}
		if err := x.finish(ctx, muts); err != nil {
			return err
		}
		w.batch(p, len(muts)).add(i, muts, p)
	}
	return x.finish(ctx, muts)
}

// batch returns the batch of a plan's table.
func (w *work) batch(p *plan, mutations int) *batch {
	if n := len(w.order); n > 0 && w.order[n-1] == p.table {
		return w.batches[p.table]
	}
	b := w.batches[p.table]
	if b == nil {
		if n := len(w.free); n > 0 {
			b, w.free = w.free[n-1], w.free[:n-1]
		} else {
			b = &batch{}
		}
		b.reset(p, mutations)
		w.batches[p.table] = b
		w.order = append(w.order, p.table)
	}
	return b
}

// finish adds the statements of all batches, or sends their rows if there are many. Tables come in one
// order in all transactions, so that those of several loops do not deadlock; where rows refer to those of
// other tables, in the order of the source.
func (x *tx) finish(ctx context.Context, muts []logical.Mutation) error {
	if !slices.ContainsFunc(x.w.order, func(t *table) bool { return t.foreign }) {
		slices.SortFunc(x.w.order, func(a, b *table) int { return cmp.Compare(a.oid, b.oid) })
	}
	for _, t := range x.w.order {
		if err := x.statements(ctx, x.w.batches[t], muts); err != nil {
			return err
		}
	}
	x.w.endBatches()
	return nil
}

func (w *work) endBatches() {
	for _, t := range w.order {
		b := w.batches[t]
		b.table = nil
		w.free = append(w.free, b)
	}
	clear(w.batches)
	clear(w.order)
	w.order = w.order[:0]
}

// statements adds the statements of a batch. Their keys differ, so their order does not matter;
// rows that go come before rows that come, in case a unique key other than the primary one passes
// from one to the other.
func (x *tx) statements(ctx context.Context, b *batch, muts []logical.Mutation) error {
	b.sort()
	w := x.w
	if b.collisions > 0 {
		x.collide(b)
	}
	first := w.plans[b.entries[0].last]
	if !b.varied && !slices.ContainsFunc(b.entries, func(e entry) bool { return e.op != b.entries[0].op }) {
		return x.group(ctx, b, muts, b.entries)
	}
	if b.points && !b.nulls && first.fillable() &&
		!slices.ContainsFunc(b.entries, func(e entry) bool { return e.op != logical.OpUpsert }) {
		w.mask = union(b, b.entries, w.mask)
		return x.rows(ctx, b, muts, b.entries, verbSparse, w.mask)
	}
	// One statement for each set of columns and each operation.
	slices.SortStableFunc(b.entries, func(x, y entry) int {
		if x.op != y.op {
			return rank(x.op) - rank(y.op)
		}
		return bytes.Compare(b.mask(&x), b.mask(&y))
	})
	from := 0
	for i := 1; i <= len(b.entries); i++ {
		if i < len(b.entries) && b.entries[i].op == b.entries[from].op && bytes.Equal(b.mask(&b.entries[i]), b.mask(&b.entries[from])) {
			continue
		}
		if err := x.group(ctx, b, muts, b.entries[from:i]); err != nil {
			return err
		}
		from = i
	}
	return nil
}

// rank orders operations: what goes, what changes, what comes.
func rank(op logical.Op) int {
	switch op {
	case logical.OpDelete:
		return 0
	case logical.OpPatch:
		return 1
	case logical.OpReplace:
		return 2
	case logical.OpFill:
		return 4
	}
	return 3
}

// group adds the statements for entries that do the same with the same columns.
func (x *tx) group(ctx context.Context, b *batch, muts []logical.Mutation, entries []entry) error {
	p := x.w.plans[entries[0].last]
	mask := b.mask(&entries[0])
	verbs := []verb{verbUpsert}
	switch op := entries[0].op; {
	case op == logical.OpDelete:
		verbs = []verb{verbDelete}
	case op == logical.OpPatch:
		verbs = []verb{verbPatch}
	case op == logical.OpReplace:
		verbs = []verb{verbDelete, verbInsert}
	case op == logical.OpFill && p.table.lacks(mask):
		verbs = []verb{verbFillSet, verbFillAdd}
	case op == logical.OpFill:
		verbs = []verb{verbFill}
	case p.table.lacks(mask):
		// An INSERT would fail on the column that is absent before it saw that the row is there.
		verbs = []verb{verbPatch, verbAdd}
	}
	for _, v := range verbs {
		if err := x.rows(ctx, b, muts, entries, v, mask); err != nil {
			return err
		}
	}
	return nil
}

// rows adds one statement, or several if there are very many rows. If they are many and probably
// new, it copies them right away.
func (x *tx) rows(ctx context.Context, b *batch, muts []logical.Mutation, entries []entry, v verb, mask []byte) error {
	w := x.w
	p := w.plans[entries[0].last]
	g := p.groupSQL(v, mask)
	if g.sql == "" {
		return nil // nothing but the key is carried
	}
	if done, err := x.tryCopy(ctx, b, muts, entries, g); done || err != nil {
		return err
	}
	for chunk := range slices.Chunk(entries, maxRows) {
		s := statement{sql: g.sql, what: v.String() + " " + p.table.quoted, table: p.table, params: w.spans(len(g.columns))}
		if len(chunk) == 1 && b.prev[chunk[0].last] < 0 {
			s.mutation, s.call = int(chunk[0].last)+1, w.call
		}
		for k, at := range g.columns {
			from := len(w.arena)
			w.arena = appendArrayHead(w.arena, wire(mask[at]-1), len(chunk))
			nulls := false
			for i := range chunk {
				n := len(w.arena)
				w.arena = b.appendElement(w.arena, w, muts, &chunk[i], at)
				nulls = nulls || len(w.arena) == n+4 && w.arena[n] == 0xff
			}
			if nulls {
				w.arena[from+7] = 1
			}
			s.params[k] = span{from, len(w.arena)}
		}
		w.add(s)
	}
	return nil
}

// appendElement appends an entry's value of a column as an element of an array.
func (b *batch) appendElement(dst []byte, w *work, muts []logical.Mutation, e *entry, at int) []byte {
	if at == b.table.overflow {
		return b.appendOverflow(dst, w, muts, e)
	}
	for i := e.last; i >= 0; i = b.prev[i] {
		p := w.plans[i]
		s := &p.sources[at]
		switch s.column {
		case fromEmpty:
			return append(dst, 0, 0, 0, 0)
		case fromName:
			return appendValue(dst, &p.table.columns[at], s, logical.Text(p.relation.Name))
		}
		if s.column < 0 || (muts[i].Op == logical.OpDelete && !p.isKey(at)) {
			continue
		}
		v := muts[i].Values[s.column]
		switch {
		case v.IsNull():
			return appendNull(dst)
		case v.IsAbsent() && s.fill:
			return append(dst, 0, 0, 0, 0)
		case !v.IsAbsent():
			return appendValue(dst, &p.table.columns[at], s, v)
		}
	}
	return appendNull(dst)
}

func appendValue(dst []byte, c *column, s *source, v logical.Value) []byte {
	head := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst, _ = encode(dst, c, s, v) // what it refuses was refused before
	binary.BigEndian.PutUint32(dst[head:], uint32(len(dst)-head-4))
	return dst
}

func appendNull(dst []byte) []byte { return append(dst, 0xff, 0xff, 0xff, 0xff) }

// appendArrayHead appends the beginning of an array's binary form: one dimension, whether there are
// nulls, the type, the length, and the first index.
func appendArrayHead(dst []byte, w wire, n int) []byte {
	dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, typeOf(w).oid)
	dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	return binary.BigEndian.AppendUint32(dst, 1)
}

func (v verb) String() string {
	switch v {
	case verbUpsert, verbSparse, verbLateAdd:
		return "upsert into"
	case verbFill:
		return "fill in"
	case verbInsert, verbAdd, verbFillAdd:
		return "insert into"
	case verbPatch, verbFillSet, verbLateSet:
		return "update"
	case verbDelete:
		return "delete from"
	case verbTruncate:
		return "truncate"
	}
	return "change a key in"
}
