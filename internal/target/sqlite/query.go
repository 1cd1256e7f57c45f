package sqlite

import (
	"strings"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
)

// A query is a statement of a plan while it is built.
type query struct {
	plan       *plan
	buf        []byte
	args       []arg
	onlyIfNone bool
}

// newQuery starts a statement with a verb and the table's name.
func (p *plan) newQuery(verb string) *query {
	return &query{plan: p, buf: ident.AppendQuoted([]byte(verb), p.table.name)}
}

func (q *query) sql() string { return string(q.buf) }

func (q *query) text(s string) { q.buf = append(q.buf, s...) }

// separate writes what stands between the elements of a list, before all but the first.
func (q *query) separate(n int, by string) {
	if n > 0 {
		q.text(by)
	}
}

// column writes the name of the table's column.
func (q *query) column(at int) { q.buf = ident.AppendQuoted(q.buf, q.plan.table.columns[at].name) }

// value writes a parameter for the value of the relation's column.
func (q *query) value(column int) {
	q.text("?")
	q.args = append(q.args, arg{column: column})
}

// overflow writes a parameter for the values that have no column of their own.
func (q *query) overflow() {
	q.text("?")
	q.args = append(q.args, arg{column: -1, over: true})
}

// literal writes a text.
func (q *query) literal(s string) { q.text("'" + strings.ReplaceAll(s, "'", "''") + "'") }

// oldValue writes a parameter for the n-th value of the old key.
func (q *query) oldValue(n int) {
	q.text("?")
	q.args = append(q.args, arg{column: q.plan.keys[n], old: n, isOld: true})
}

// where selects the row by its key.
func (q *query) where() {
	q.selectRow(func(n int) { q.value(q.plan.keys[n]) })
}

// whereOld selects the row by its old key.
func (q *query) whereOld() {
	q.selectRow(q.oldValue)
}

func (q *query) selectRow(value func(n int)) {
	q.text(" WHERE ")
	for n, i := range q.plan.keys {
		q.separate(n, " AND ")
		at := q.plan.columns[i].target
		q.column(at)
		if q.plan.table.columns[at].notNull || q.plan.table.columns[at].pk > 0 {
			q.text(" = ")
		} else {
			q.text(" IS ") // NULL is a key like any other
		}
		value(n)
	}
	for _, k := range q.plan.fixedKeys {
		q.text(" AND ")
		q.column(k.target)
		q.text(" = ")
		q.literal(k.value)
	}
}
