package postgres

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"sync"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// maxRows bounds the rows of one statement.
const maxRows = 16 << 10

// A verb is what one statement does with rows.
type verb byte

const (
	verbUpsert   verb = 'u' // INSERT … ON CONFLICT DO UPDATE
	verbSparse   verb = 'f' // the same, where a NULL stands for an absent value
	verbInsert   verb = 'i' // INSERT
	verbAdd      verb = 'a' // INSERT … WHERE NOT EXISTS
	verbFill     verb = 'l' // INSERT … ON CONFLICT DO UPDATE of what is NULL
	verbFillAdd  verb = 'L' // verbFill and verbAdd
	verbFillSet  verb = 'n' // UPDATE of what is NULL
	verbPatch    verb = 'p' // UPDATE
	verbDelete   verb = 'd'
	verbFree     verb = 'F' // of a rekey: make room for the new key
	verbMove     verb = 'M' // of a rekey: UPDATE of the key
	verbLateAdd  verb = 'A' // of a rekey whose row was moved before: upsert
	verbLateSet  verb = 'S' // the same: UPDATE
	verbTruncate verb = 't'
)

// A groupSQL is the statement for rows of one table that carry the same columns.
type groupSQL struct {
	sql     string
	columns []int            // of the table, one parameter each
	old     []int            // columns of the key, whose old values follow as parameters
	copy    string           // COPY of the same columns; "" if that cannot be done
	merge   func() *mergeSQL // the way by a temporary table, which is built when it is first needed; nil if there is none
}

// groupSQL returns the statement for a verb and a mask, which the table remembers.
func (p *plan) groupSQL(v verb, mask []byte) *groupSQL {
	key := append([]byte{byte(v)}, mask...)
	for _, at := range p.keys {
		key = binary.AppendUvarint(key, uint64(at))
	}
	if known, ok := p.table.sqls.get(p.table, key); ok {
		return known
	}
	g := &sqlBuilder{plan: p, mask: mask}
	g.build(v)
	made := &groupSQL{sql: string(g.buf), columns: g.columns, old: g.old, copy: p.copySQL(v, mask)}
	if made.copy != "" && v != verbInsert {
		mask := slices.Clone(mask)
		made.merge = sync.OnceValue(func() *mergeSQL { return p.mergeSQL(v, mask) })
	}
	p.table.sqls.put(p.table, key, made)
	return made
}

// A sqlBuilder writes one statement. The rows come as a table expression "u" of arrays: u.c0, u.c1 …
// are the columns, u.o0 … the old key.
type sqlBuilder struct {
	plan    *plan
	mask    []byte
	buf     []byte
	columns []int
	old     []int
	temp    string // where the rows come from, if not from arrays
}

func (g *sqlBuilder) text(s string) { g.buf = append(g.buf, s...) }

func (g *sqlBuilder) name(at int) { g.buf = ident.AppendQuoted(g.buf, g.plan.table.columns[at].name) }

func (g *sqlBuilder) tableName() { g.text(g.plan.table.quoted) }

func (g *sqlBuilder) build(v verb) {
	switch v {
	case verbUpsert, verbSparse, verbFill, verbInsert, verbAdd, verbFillAdd, verbLateAdd:
		g.insert(v)
	case verbPatch, verbFillSet, verbMove, verbLateSet:
		g.update(v)
	case verbDelete, verbFree:
		g.text("DELETE FROM ")
		g.tableName()
		g.text(" AS t USING ")
		g.rows(v, func(at int) bool { return g.plan.isKey(at) })
		g.text(" WHERE ")
		g.match("t", false)
		if v == verbFree {
			g.text(" AND EXISTS (SELECT 1 FROM ")
			g.tableName()
			g.text(" AS o WHERE ")
			g.match("o", true)
			g.text(") AND NOT (")
			g.match("t", true)
			g.text(")")
		}
	case verbTruncate:
		g.text("DELETE FROM ") // TRUNCATE would show the empty table to readers whose snapshot is older (ATOMIC)
		g.tableName()
	}
}

// insert writes the forms of INSERT.
func (g *sqlBuilder) insert(v verb) {
	g.text("INSERT INTO ")
	g.tableName()
	g.text(" AS t (")
	for n, at := range g.carried() {
		g.separate(n, ", ")
		g.name(at)
	}
	g.text(")")
	if g.plan.table.always {
		g.text(" OVERRIDING SYSTEM VALUE")
	}
	g.text(" SELECT ")
	for n, at := range g.carried() {
		g.separate(n, ", ")
		g.value(at, n)
	}
	g.text(" FROM ")
	g.rows(v, func(int) bool { return true })
	if v == verbAdd || v == verbFillAdd || v == verbLateAdd {
		g.text(" WHERE NOT EXISTS (SELECT 1 FROM ")
		g.tableName()
		g.text(" AS o WHERE ")
		g.match("o", v == verbLateAdd)
		g.text(")")
	}
	if v != verbInsert {
		g.onConflict(v)
	}
}

func (g *sqlBuilder) onConflict(v verb) {
	g.text(" ON CONFLICT (")
	for n, at := range g.plan.keys {
		g.separate(n, ", ")
		g.name(at)
	}
	g.text(") DO ")
	count := 0
	for at := range g.mask {
		if !g.sets(at) {
			continue
		}
		if count == 0 {
			g.text("UPDATE SET ")
		}
		g.separate(count, ", ")
		g.name(at)
		g.text(" = ")
		switch {
		case at == g.plan.table.overflow:
			g.mergeOverflow(v, func() { g.text("EXCLUDED."); g.name(at) }, at)
		case v == verbSparse:
			g.coalesce("EXCLUDED.", "t.", at)
		case v == verbFill || v == verbFillAdd:
			g.coalesce("t.", "EXCLUDED.", at)
		default:
			g.text("EXCLUDED.")
			g.name(at)
		}
		count++
	}
	if count == 0 {
		g.text("NOTHING")
	}
}

// coalesce writes the column of the first row, or, if that is NULL, of the second.
func (g *sqlBuilder) coalesce(first, second string, at int) {
	g.text("COALESCE(" + first)
	g.name(at)
	g.text(", " + second)
	g.name(at)
	g.text(")")
}

// mergeOverflow writes the overflow column with the members of both rows: those that come count, except
// where they fill in.
func (g *sqlBuilder) mergeOverflow(v verb, comes func(), at int) {
	is := func() { g.text("t."); g.name(at) }
	if v == verbFill || v == verbFillAdd || v == verbFillSet {
		g.text("COALESCE(")
		comes()
		g.text(" || jsonb_strip_nulls(")
		is()
		g.text("), ")
	} else {
		g.text("COALESCE(")
		is()
		g.text(" || ")
		comes()
		g.text(", ")
	}
	comes()
	g.text(", ")
	is()
	g.text(")")
}

// update writes the forms of UPDATE. It is empty if there is nothing to set.
func (g *sqlBuilder) update(v verb) {
	g.text("UPDATE ")
	g.tableName()
	g.text(" AS t SET ")
	count := 0
	for n, at := range g.carried() {
		if !g.sets(at) && !(v == verbMove && g.plan.isKey(at)) {
			continue
		}
		g.separate(count, ", ")
		g.name(at)
		g.text(" = ")
		if at == g.plan.table.overflow {
			g.mergeOverflow(v, func() { g.value(at, n) }, at)
		} else if v == verbFillSet {
			g.text("COALESCE(t.")
			g.name(at)
			g.text(", ")
			g.value(at, n)
			g.text(")")
		} else {
			g.value(at, n)
		}
		count++
	}
	if count == 0 {
		g.buf = nil
		return
	}
	g.text(" FROM ")
	g.rows(v, func(int) bool { return true })
	g.text(" WHERE ")
	g.match("t", v == verbMove)
	if v == verbLateSet {
		g.text(" AND NOT EXISTS (SELECT 1 FROM ")
		g.tableName()
		g.text(" AS o WHERE ")
		g.match("o", true)
		g.text(")")
	}
}

// carried lists the columns of the mask.
func (g *sqlBuilder) carried() []int {
	var list []int
	for at := range g.mask {
		if g.mask[at] != 0 {
			list = append(list, at)
		}
	}
	return list
}

// sets reports whether the column is changed in a row that is there: not its key, and not what the
// series of a point says.
func (g *sqlBuilder) sets(at int) bool {
	if g.mask[at] == 0 || g.plan.isKey(at) || g.plan.table.columns[at].identity {
		return false
	}
	s := &g.plan.sources[at]
	if s.column >= 0 && g.plan.relation.Points {
		role := g.plan.relation.Columns[s.column].Role
		return role != logical.RoleTag && role != logical.RoleSeries
	}
	return true
}

// rows writes the table expression, and notes the parameters.
func (g *sqlBuilder) rows(v verb, wanted func(at int) bool) {
	if g.temp != "" {
		g.tempRows()
		return
	}
	g.text("unnest(")
	var names []byte
	param := 0
	add := func(name string, w wire) {
		g.separate(param, ", ")
		if param > 0 {
			names = append(names, ", "...)
		}
		param++
		g.text("$" + strconv.Itoa(param) + "::" + typeOf(w).name + "[]")
		names = append(names, name...)
	}
	for n, at := range g.carried() {
		if wanted(at) {
			g.columns = append(g.columns, at)
			add("c"+strconv.Itoa(n), wire(g.mask[at]-1))
		}
	}
	if v == verbFree || v == verbMove || v == verbLateAdd || v == verbLateSet {
		for n, at := range g.plan.keys {
			g.old = append(g.old, at)
			add("o"+strconv.Itoa(n), g.plan.sources[at].wire)
		}
	}
	g.text(") AS u (")
	g.buf = append(g.buf, names...)
	g.text(")")
}

// value writes the n-th carried column of a row as a value of the table's column.
func (g *sqlBuilder) value(at, n int) {
	g.text("u.c" + strconv.Itoa(n))
	g.cast(at, wire(g.mask[at]-1))
}

func (g *sqlBuilder) cast(at int, w wire) {
	if w == wireCast {
		g.text("::" + g.plan.table.columns[at].castName)
	}
}

// match compares the key of a row of the table with the row's key, or with its old key.
func (g *sqlBuilder) match(alias string, old bool) {
	place := map[int]int{}
	for n, at := range g.carried() {
		place[at] = n
	}
	for n, at := range g.plan.keys {
		g.separate(n, " AND ")
		g.text(alias + ".")
		g.name(at)
		if g.plan.table.columns[at].notNull {
			g.text(" = ")
		} else {
			g.text(" IS NOT DISTINCT FROM ")
		}
		if old {
			g.text("u.o" + strconv.Itoa(n))
			g.cast(at, g.plan.sources[at].wire)
		} else {
			g.value(at, place[at])
		}
	}
}

func (g *sqlBuilder) separate(n int, by string) {
	if n > 0 {
		g.text(by)
	}
}

// lacks reports whether rows of the mask cannot be inserted because a column that they do not carry
// must not be NULL.
func (t *table) lacks(mask []byte) bool {
	for at := range t.columns {
		c := &t.columns[at]
		if c.notNull && !c.hasDefault && !c.generated && mask[at] == 0 {
			return true
		}
	}
	return false
}

// union returns, in scratch, the columns that any of the entries carries.
func union(b *batch, entries []entry, scratch []byte) []byte {
	scratch = append(scratch[:0], b.mask(&entries[0])...)
	for i := range entries {
		mask := b.mask(&entries[i])
		if bytes.Equal(mask, scratch) {
			continue
		}
		for at, w := range mask {
			if w != 0 {
				scratch[at] = w
			}
		}
	}
	return scratch
}
