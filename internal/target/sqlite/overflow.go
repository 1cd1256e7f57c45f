package sqlite

import (
	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/internal/target/overflow"
	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// mergeOverflow writes the setting of the overflow column to the members of both rows: those that come
// count, except where they fill in. json_patch takes a member that is null for one that goes.
func (q *query) mergeOverflow(s *shape, comes func()) {
	is := func() { q.column(q.plan.overflow) }
	first, second := is, comes
	if s.op == logical.OpFill {
		first, second = comes, is
	}
	is()
	q.text(" = coalesce(json_patch(")
	first()
	q.text(", ")
	second()
	q.text("), ")
	comes()
	q.text(", ")
	is()
	q.text(")")
}

// overflowCell returns the object of the values that have no column of their own. It lives until the next call.
func (w *writer) overflowCell(p *plan, m *logical.Mutation) cell {
	w.object.Reset()
	for i := range m.Values {
		if !p.columns[i].over || m.Values[i].IsAbsent() {
			continue
		}
		if why := overflow.Refuses(&p.relation.Columns[i], m.Values[i]); why != "" {
			return refused(p.describe(i, m.Values[i]) + why)
		}
		w.object.Add(&p.relation.Columns[i], m.Values[i])
	}
	return textCell(string(w.object.JSON()))
}

// width returns how many columns a table of ours has that count against the limit.
func (t *table) width(records map[string]record) int {
	if _, ok := records[overflowKey]; ok {
		return len(t.columns) - 1
	}
	return len(t.columns)
}

// overflowKey is the key of the record of an overflow column.
const overflowKey = overflow.Role + "\x00"

func overflowRecord(space *ident.Space) record {
	return record{role: overflow.Role, target: space.Assign(overflow.Column, overflow.Suffix), kind: logical.KindJSON.String()}
}

// planShared plans for a measurement that has no table of its own.
func (w *writer) planShared(p *plan) error {
	t, err := w.sharedTable(p.relation.Schema)
	if err != nil {
		return err
	}
	p.table, p.shared = t, true
	p.overflow = p.mustColumn(overflow.Column)
	for i := range p.relation.Columns {
		switch p.relation.Columns[i].Role {
		case logical.RoleTime:
			p.columns[i] = planColumn{target: p.mustColumn(timeColumn), class: classInteger, key: true}
			p.keys = append(p.keys, i)
		case logical.RoleSeries:
			p.columns[i] = planColumn{target: p.mustColumn(seriesColumn), class: classBlob, key: true}
			p.keys = append(p.keys, i)
		default:
			p.columns[i] = planColumn{target: -1, over: true}
		}
	}
	if overflow.Refuses(&logical.Column{Name: p.relation.Name}, logical.Null()) != "" {
		p.refuse = "the measurement would need a table, there are as many as are allowed, and its name is not UTF-8 or has a NUL"
	}
	p.fixedKeys = []fixedKey{{p.mustColumn(overflow.MeasurementColumn), p.relation.Name}}
	return nil
}

// sharedTable finds or makes the table of the measurements of a schema that have none of their own.
func (w *writer) sharedTable(schema string) (*table, error) {
	name := ""
	err := w.query("SELECT target FROM _tailrace_tables WHERE schema_name = ? AND name = ?",
		func(s *sqlite3.Stmt) error { name = s.ColumnText(0); return nil }, schema, overflow.TableKey)
	if err != nil {
		return nil, err
	}
	if name != "" {
		if t, err := w.table(name); t != nil || err != nil {
			return t, err
		}
		if err := w.forgetTable(name); err != nil { // somebody dropped it
			return nil, err
		}
	}
	tables, err := w.tableSpace()
	if err != nil {
		return nil, err
	}
	name = tables.Assign(w.cfg.tableName(&logical.Relation{Schema: schema, Name: overflow.Table}), overflow.TableSuffix)
	err = w.change(name, "CREATE TABLE "+ident.Quote(name)+` (
	"time" INTEGER NOT NULL, "series" BLOB NOT NULL, "measurement" TEXT NOT NULL, "overflow" TEXT,
	PRIMARY KEY ("time", "series", "measurement")
) STRICT, WITHOUT ROWID`)
	if err != nil {
		return nil, err
	}
	if err := w.exec("INSERT INTO _tailrace_tables (schema_name, name, target) VALUES (?, ?, ?)", schema, overflow.TableKey, name); err != nil {
		return nil, err
	}
	if err := w.remember(name, []record{{role: overflow.Role, target: overflow.Column, kind: logical.KindJSON.String()}}); err != nil {
		return nil, err
	}
	w.cfg.Logger.Warn("sqlite: there are as many tables as are allowed: other measurements share one", "tables", w.cfg.MaxTables, "table", name)
	return w.table(name)
}
