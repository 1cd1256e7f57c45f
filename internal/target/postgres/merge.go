package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// minMergeValues is from how many values on (rows by columns) the way by a temporary table gains more than it
// costs where rows are there already; docs/sql-targets.md has what was measured.
const minMergeValues = 50_000

// A mergeSQL is the way of many rows of which some are there: they are copied into a temporary table, and
// merged from it with one statement, which costs less than taking arrays apart.
type mergeSQL struct {
	temp   string // the table's name
	create string
	copy   string
	merge  string
}

// mergeSQL returns that way for a verb and a mask.
func (p *plan) mergeSQL(v verb, mask []byte) *mergeSQL {
	var names []string
	for at, w := range mask {
		if w != 0 {
			names = append(names, ident.Quote(p.table.columns[at].name))
		}
	}
	list := strings.Join(names, ", ")
	// A table whose columns have changed gets another one.
	sum := sha256.Sum256([]byte(strconv.FormatUint(uint64(p.table.oid), 10) + list + p.table.columnTypes))
	m := &mergeSQL{temp: "pg_temp.tailrace_" + hex.EncodeToString(sum[:8])}
	m.create = "CREATE TEMPORARY TABLE IF NOT EXISTS " + m.temp + " ON COMMIT DELETE ROWS AS SELECT " + list + " FROM " + p.table.quoted + " WITH NO DATA"
	m.copy = "COPY " + m.temp + " (" + list + ") FROM STDIN (FORMAT binary)"
	g := &sqlBuilder{plan: p, mask: mask, temp: m.temp}
	g.build(v)
	m.merge = string(g.buf)
	return m
}

// tempRows writes the table expression of rows that are in a temporary table.
func (g *sqlBuilder) tempRows() {
	g.text("(SELECT ")
	for n, at := range g.carried() {
		g.separate(n, ", ")
		g.name(at)
		g.text(" AS c" + strconv.Itoa(n))
	}
	g.text(" FROM " + g.temp + ") AS u")
}

// tryMerge copies entries into a temporary table and adds the statement that merges them, and reports whether
// it did: not if they are few, or if the user may not make such tables.
func (x *tx) tryMerge(ctx context.Context, b *batch, muts []logical.Mutation, entries []entry, g *groupSQL) (bool, error) {
	t := x.s.t
	if g.merge == nil || len(entries)*len(g.columns) < t.cfg.mergeValues || t.noTemp.Load() {
		return false, nil
	}
	if err := x.beforeCopy(ctx, b.table); err != nil {
		return false, err
	}
	merge := g.merge()
	if err := x.makeTemp(ctx, b.table, merge); err != nil {
		if sqlState(err) != "42501" {
			return false, err
		}
		t.noTemp.Store(true)
		t.cfg.Logger.Warn("postgres: large batches of changed rows go a slower way: GRANT TEMPORARY ON DATABASE to Tailrace's user", "error", err)
		x.w.add(statement{sql: "ROLLBACK TO SAVEPOINT copy", what: "savepoint"})
		x.w.add(statement{sql: "RELEASE SAVEPOINT copy", what: "savepoint"})
		return false, nil
	}
	rows := &copyReader{b: b, w: x.w, muts: muts, entries: entries, columns: g.columns, buf: append(x.w.copyBuf[:0], copyHead...)}
	_, err := x.conn.Conn().PgConn().CopyFrom(ctx, rows, merge.copy)
	x.w.copyBuf = rows.buf
	if err != nil {
		return false, x.explainCopy(ctx, err, strings.TrimPrefix(merge.temp, "pg_temp."), b, entries)
	}
	x.w.add(statement{sql: merge.merge, what: verbUpsert.String() + " " + b.table.quoted, table: b.table})
	x.w.add(statement{sql: "RELEASE SAVEPOINT copy", what: "savepoint"})
	return true, nil
}

// makeTemp makes sure that the temporary table is there, and empty. A connection keeps it for its next
// transactions, unless it is a pooler's, or
// has very many.
func (x *tx) makeTemp(ctx context.Context, t *table, m *mergeSQL) error {
	create := m.create
	if x.s.t.cfg.Pooled || !preparedOn(x.conn.Conn().PgConn()).keepsTemp(m.temp) {
		create = strings.Replace(create, "ON COMMIT DELETE ROWS", "ON COMMIT DROP", 1)
	}
	x.w.add(statement{sql: create, what: "make a temporary table", table: t})
	if slices.Contains(x.temps, m.temp) {
		x.w.add(statement{sql: "TRUNCATE " + m.temp, what: "empty a temporary table"})
	} else {
		x.temps = append(x.temps, m.temp)
	}
	return x.flush(ctx)
}
