package sqlite

import (
	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// manyRows is how many rows one statement inserts where that is possible: measured, more gains no
// more. SQLite takes at most maxParams parameters.
const (
	manyRows  = 20
	maxParams = 32766
)

// A shape is what mutations of one relation have in common that do the same and carry the same
// columns: the statements that apply them.
type shape struct {
	op      logical.Op
	present []bool // by position in the relation
	over    bool   // values are carried that have no column of their own
	steps   []step
	refuse  string // why no mutation of the shape can be stored; "" if they can

	many *sqlite3.Stmt // applies several rows at once; nil until it is needed
	rows int           // how many; 0 if that cannot be done
}

// refusal is refuse, also of no shape.
func (s *shape) refusal() string {
	if s == nil {
		return ""
	}
	return s.refuse
}

// A step is one statement of a shape.
type step struct {
	stmt *sqlite3.Stmt
	args []arg
	// onlyIfNone says that the statement runs only if the one before it changed no row.
	onlyIfNone bool
}

// An arg says where a parameter's value comes from.
type arg struct {
	column int  // position in the relation
	old    int  // position in Mutation.OldKey, if isOld
	isOld  bool // the value is one of OldKey
	over   bool // it is the object of the values that have no column of their own
}

// fits reports whether a mutation has the shape.
func (s *shape) fits(m *logical.Mutation) bool {
	if s.op != m.Op {
		return false
	}
	if m.Op == logical.OpDelete || m.Op == logical.OpTruncate {
		return true
	}
	for i := range m.Values {
		if s.present[i] == m.Values[i].IsAbsent() {
			return false
		}
	}
	return true
}

func (s *shape) close() {
	for i := range s.steps {
		_ = s.steps[i].stmt.Close() // It repeats the error of the statement's last run.
	}
	_ = s.many.Close() // The same.
}

// shape returns the shape of a mutation.
func (w *writer) shape(p *plan, m *logical.Mutation) (*shape, error) {
	if p.last != nil && p.last.fits(m) {
		return p.last, nil
	}
	key := append(w.keyBuf[:0], byte(m.Op))
	if m.Op != logical.OpDelete && m.Op != logical.OpTruncate {
		for i := range m.Values {
			if m.Values[i].IsAbsent() {
				key = append(key, '-')
			} else {
				key = append(key, '+')
			}
		}
	}
	w.keyBuf = key
	s := p.shapes[string(key)]
	if s == nil {
		if w.catalog.shapes >= maxShapes {
			for _, other := range w.catalog.plans {
				other.close()
			}
			w.catalog.shapes = 0
		}
		var err error
		if s, err = w.newShape(p, m); err != nil {
			return nil, err
		}
		p.shapes[string(key)] = s
		w.catalog.shapes++
	}
	p.last = s
	return s, nil
}

func (w *writer) newShape(p *plan, m *logical.Mutation) (*shape, error) {
	s := &shape{op: m.Op, present: make([]bool, len(p.relation.Columns))}
	for i := range m.Values {
		s.present[i] = !m.Values[i].IsAbsent()
		s.over = s.over || s.present[i] && p.columns[i].over
		if c := &p.columns[i]; s.present[i] && c.refuse != "" && (c.key || m.Op != logical.OpDelete) {
			s.refuse = p.describe(i, m.Values[i]) + c.refuse
			return s, nil
		}
	}
	for _, q := range p.statements(s) {
		stmt, _, err := w.db.PrepareFlags(q.sql(), sqlite3.PREPARE_PERSISTENT)
		if err != nil {
			s.close()
			return nil, w.classify(err, q.sql())
		}
		s.steps = append(s.steps, step{stmt: stmt, args: q.args, onlyIfNone: q.onlyIfNone})
	}
	if len(s.steps) == 1 && (s.op == logical.OpUpsert || s.op == logical.OpFill || s.op == logical.OpPatch && p.relation.Points) {
		s.rows = min(manyRows, maxParams/len(s.steps[0].args))
	}
	return s, nil
}

// prepareMany prepares the statement that inserts several rows at once.
func (w *writer) prepareMany(p *plan, s *shape) error {
	sql := p.insert(s, true, s.rows).sql()
	stmt, _, err := w.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return w.classify(err, sql)
	}
	s.many = stmt
	return nil
}

// statements builds the SQL that applies mutations of a shape.
func (p *plan) statements(s *shape) []*query {
	switch s.op {
	case logical.OpUpsert:
		return []*query{p.insert(s, true, 1)}
	case logical.OpPatch, logical.OpFill:
		return p.patch(s)
	case logical.OpDelete:
		return []*query{p.delete()}
	case logical.OpReplace:
		return []*query{p.delete(), p.insert(s, false, 1)}
	case logical.OpRekey:
		return p.rekey(s)
	case logical.OpTruncate:
		return []*query{p.newQuery("DELETE FROM ")}
	}
	return nil
}

// patch of a point inserts or updates, of a database's row only updates. A fill inserts or fills in.
func (p *plan) patch(s *shape) []*query {
	update := p.update(s)
	inserts := p.relation.Points || s.op == logical.OpFill
	switch {
	case inserts && !p.lacksNotNull(s):
		return []*query{p.insert(s, true, 1)}
	case inserts && update != nil:
		// An INSERT would fail on the absent column before it saw that the row is there.
		insert := p.insert(s, true, 1)
		insert.onlyIfNone = true
		return []*query{update, insert}
	case inserts:
		return []*query{p.insert(s, true, 1)}
	case update == nil:
		return nil
	}
	return []*query{update}
}

// lacksNotNull reports whether an INSERT of the shape would leave out a column that must not be NULL.
func (p *plan) lacksNotNull(s *shape) bool {
	carried := map[int]bool{}
	for i := range p.columns {
		if p.stored(s, i) {
			carried[p.columns[i].target] = true
		}
	}
	for at := range p.table.columns {
		c := &p.table.columns[at]
		if c.notNull && !c.hasDefault && !c.generated && !carried[at] {
			return true
		}
	}
	return false
}

// stored reports whether the shape writes a value into the column's place.
func (p *plan) stored(s *shape, column int) bool {
	c := &p.columns[column]
	return c.target >= 0 && (s.present[column] || c.fill)
}

// insert is INSERT of one or more rows, with ON CONFLICT if they may be there.
func (p *plan) insert(s *shape, upsert bool, rows int) *query {
	q := p.newQuery("INSERT INTO ")
	q.text(" (")
	count := 0
	for i := range p.columns {
		if p.stored(s, i) {
			q.separate(count, ", ")
			q.column(p.columns[i].target)
			count++
		}
	}
	for _, k := range p.fixedKeys {
		q.text(", ")
		q.column(k.target)
	}
	if s.over {
		q.text(", ")
		q.column(p.overflow)
	}
	q.text(") VALUES ")
	for row := range rows {
		q.separate(row, ", ")
		q.text("(")
		count = 0
		for i := range p.columns {
			if p.stored(s, i) {
				q.separate(count, ", ")
				q.value(i)
				count++
			}
		}
		for _, k := range p.fixedKeys {
			q.text(", ")
			q.literal(k.value)
		}
		if s.over {
			q.text(", ")
			q.overflow()
		}
		q.text(")")
	}
	if !upsert {
		return q
	}
	q.text(" ON CONFLICT (")
	for n, i := range p.keys {
		q.separate(n, ", ")
		q.column(p.columns[i].target)
	}
	for _, k := range p.fixedKeys {
		q.text(", ")
		q.column(k.target)
	}
	q.text(") DO ")
	count = 0
	for i := range p.columns {
		if p.sets(s, i) {
			if count == 0 {
				q.text("UPDATE SET ")
			}
			q.separate(count, ", ")
			q.column(p.columns[i].target)
			q.text(" = ")
			if s.op == logical.OpFill {
				q.text("coalesce(")
				q.column(p.columns[i].target)
				q.text(", excluded.")
				q.column(p.columns[i].target)
				q.text(")")
			} else {
				q.text("excluded.")
				q.column(p.columns[i].target)
			}
			count++
		}
	}
	if s.over {
		if count == 0 {
			q.text("UPDATE SET ")
		}
		q.separate(count, ", ")
		q.mergeOverflow(s, func() { q.text("excluded."); q.column(p.overflow) })
		count++
	}
	if count == 0 {
		q.text("NOTHING")
	}
	return q
}

// sets reports whether the shape changes the column of a row that is there. The tags of a point are
// what its series says, and cannot change.
func (p *plan) sets(s *shape, column int) bool {
	c := &p.columns[column]
	return c.target >= 0 && s.present[column] && !c.key &&
		p.relation.Columns[column].Role != logical.RoleTag && p.relation.Columns[column].Role != logical.RoleSeries
}

// update is UPDATE of the columns carried; nil if there are none.
func (p *plan) update(s *shape) *query {
	q := p.newQuery("UPDATE ")
	count := 0
	for i := range p.columns {
		if p.sets(s, i) {
			if count == 0 {
				q.text(" SET ")
			}
			q.separate(count, ", ")
			q.column(p.columns[i].target)
			q.text(" = ")
			if s.op == logical.OpFill {
				q.text("coalesce(")
				q.column(p.columns[i].target)
				q.text(", ")
				q.value(i)
				q.text(")")
			} else {
				q.value(i)
			}
			count++
		}
	}
	if s.over {
		q.text([]string{" SET ", ", "}[min(count, 1)])
		q.mergeOverflow(s, q.overflow)
		count++
	}
	if count == 0 {
		return nil
	}
	q.where()
	return q
}

func (p *plan) delete() *query {
	q := p.newQuery("DELETE FROM ")
	q.where()
	return q
}

// rekey moves a row to a new key. After a crash it may be applied again: then the row is there
// already, and takes what is carried; or it has come back under its old key, and replaces the one
// that it was moved to before.
func (p *plan) rekey(s *shape) []*query {
	free := p.newQuery("DELETE FROM ")
	free.where()
	free.text(" AND EXISTS (SELECT 1 FROM ")
	free.text(ident.Quote(p.table.name))
	free.whereOld()
	free.text(") AND NOT (")
	for n, i := range p.keys {
		free.separate(n, " AND ")
		free.column(p.columns[i].target)
		free.text(" IS ")
		free.oldValue(n)
	}
	free.text(")")

	move := p.newQuery("UPDATE ")
	move.text(" SET ")
	count := 0
	for i := range p.columns {
		if p.sets(s, i) || p.columns[i].key {
			move.separate(count, ", ")
			move.column(p.columns[i].target)
			move.text(" = ")
			move.value(i)
			count++
		}
	}
	move.whereOld()
	queries := []*query{free, move}

	rest := p.update(s)
	if p.whole(s) {
		rest = p.insert(s, true, 1)
	}
	if rest != nil {
		rest.onlyIfNone = true
		queries = append(queries, rest)
	}
	return queries
}

// whole reports whether the shape carries every column that can be stored.
func (p *plan) whole(s *shape) bool {
	for i := range p.columns {
		if p.columns[i].target >= 0 && !s.present[i] {
			return false
		}
	}
	return true
}
