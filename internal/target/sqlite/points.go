package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/tailrace-cdc/tailrace/internal/target/overflow"
	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

const (
	timeColumn   = "time"
	seriesColumn = "series"
)

// nameRules are SQLite's; the prefixes are its own and ours.
func nameRules() ident.Rules {
	return ident.Rules{FoldCase: true, ReservedPrefixes: []string{"sqlite_", "_tailrace_"}}
}

// reserved reports whether a table's name is not for measurements.
func reserved(name string) bool {
	return slices.ContainsFunc(nameRules().ReservedPrefixes, func(prefix string) bool {
		return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
	})
}

// columnSpace is the namespace of a table of points.
func columnSpace() *ident.Space {
	return ident.NewSpace(nameRules(), timeColumn, "nanos", seriesColumn)
}

// A record is what the staging tables say about a column: which name of the source it stands for.
type record struct {
	role, name   string
	target, kind string
}

func roleName(role logical.Role) string {
	if role == logical.RoleTag {
		return "tag"
	}
	return "field"
}

// planPoints plans for a measurement, whose table is made or extended as needed.
func (w *writer) planPoints(p *plan) error {
	t, err := w.pointsTable(p.relation)
	if err != nil {
		return err
	}
	if t == nil {
		full, err := w.tablesFull(p.relation.Schema)
		if err != nil {
			return err
		}
		if full {
			return w.planShared(p)
		}
		if t, err = w.createPoints(p.relation); err != nil {
			return err
		}
	}
	if !t.ours {
		p.table = t
		return w.planForeignPoints(p)
	}
	records, err := w.records(t)
	if err != nil {
		return err
	}
	if t, err = w.extendPoints(p.relation, t, records); err != nil {
		return err
	}
	p.table = t
	w.placePoints(p, records)
	return nil
}

// pointsTable finds the table of a measurement: the one that Tailrace made for it, or one that
// somebody else made by its name.
func (w *writer) pointsTable(rel *logical.Relation) (*table, error) {
	name := ""
	err := w.query("SELECT target FROM _tailrace_tables WHERE schema_name = ? AND name = ?",
		func(s *sqlite3.Stmt) error { name = s.ColumnText(0); return nil }, rel.Schema, rel.Name)
	if err != nil {
		return nil, err
	}
	if name != "" {
		t, err := w.table(name)
		if t == nil && err == nil { // somebody dropped it
			err = w.forgetTable(name)
		}
		return t, err
	}
	if reserved(w.cfg.tableName(rel)) {
		return nil, nil // a table of that name is SQLite's, or our own
	}
	t, err := w.table(w.cfg.tableName(rel))
	if t == nil || t.ours || t.name != w.cfg.tableName(rel) {
		return nil, err // one that differs by case, or is another measurement's, is not ours to use
	}
	return t, err
}

func (w *writer) forgetTable(name string) error {
	w.ddl = true
	if err := w.exec("DELETE FROM _tailrace_columns WHERE target_table = ?", name); err != nil {
		return err
	}
	return w.exec("DELETE FROM _tailrace_tables WHERE target = ?", name)
}

// tablesFull reports whether a schema has as many tables of ours as are allowed.
func (w *writer) tablesFull(schema string) (full bool, err error) {
	err = w.query("SELECT count(*) FROM _tailrace_tables WHERE schema_name = ? AND name <> ?", func(s *sqlite3.Stmt) error {
		full = s.ColumnInt64(0) >= int64(w.cfg.MaxTables)
		return nil
	}, schema, overflow.TableKey)
	return full, err
}

// tableSpace is the namespace of the file.
func (w *writer) tableSpace() (*ident.Space, error) {
	tables := ident.NewSpace(nameRules())
	err := w.query("SELECT name FROM sqlite_schema", func(s *sqlite3.Stmt) error { tables.Take(s.ColumnText(0)); return nil })
	return tables, err
}

// createPoints makes the table of a measurement, with the columns that the relation has.
func (w *writer) createPoints(rel *logical.Relation) (*table, error) {
	tables, err := w.tableSpace()
	if err != nil {
		return nil, err
	}
	name := tables.Assign(w.cfg.tableName(rel), "")
	columns, ddl := columnSpace(), strings.Builder{}
	fmt.Fprintf(&ddl, "CREATE TABLE %s (\n\t\"time\" INTEGER NOT NULL,\n\t\"series\" BLOB NOT NULL,\n", ident.Quote(name))
	count, over := 2, false
	var records []record
	for _, role := range []logical.Role{logical.RoleTag, logical.RoleField} { // tags first: they keep their names
		for i := range rel.Columns {
			if c := &rel.Columns[i]; c.Role == role {
				if over = count >= w.cfg.MaxColumns; over {
					continue
				}
				r := newRecord(c, columns)
				fmt.Fprintf(&ddl, "\t%s %s,\n", ident.Quote(r.target), declaredType(c))
				records = append(records, r)
				count++
			}
		}
	}
	if over {
		r := overflowRecord(columns)
		fmt.Fprintf(&ddl, "\t%s TEXT,\n", ident.Quote(r.target))
		records = append(records, r)
		w.warnOverflow(rel, r)
	}
	ddl.WriteString("\tPRIMARY KEY (\"time\", \"series\")\n) STRICT, WITHOUT ROWID")
	if err := w.change(name, ddl.String()); err != nil {
		return nil, err
	}
	if err := w.exec("INSERT INTO _tailrace_tables (schema_name, name, target) VALUES (?, ?, ?)", rel.Schema, rel.Name, name); err != nil {
		return nil, err
	}
	if err := w.remember(name, records); err != nil {
		return nil, err
	}
	w.cfg.Logger.Info("sqlite: table created", "measurement", rel.String(), "table", name)
	return w.table(name)
}

// extendPoints adds the columns that the relation has and the table lacks, and records them.
func (w *writer) extendPoints(rel *logical.Relation, t *table, records map[string]record) (*table, error) {
	space, count, over := columnSpace(), t.width(records), false
	owned := map[string]bool{}
	for _, r := range records {
		space.Take(r.target)
		owned[r.target] = true
	}
	var added []record
	for _, role := range []logical.Role{logical.RoleTag, logical.RoleField} {
		for i := range rel.Columns {
			c := &rel.Columns[i]
			if _, known := records[recordKey(c.Role, c.Name)]; known || c.Role != role {
				continue
			}
			r, adopted := w.adopt(t, c, owned)
			if !adopted {
				if count >= w.cfg.MaxColumns {
					over = true
					continue
				}
				for k := range t.columns {
					space.Take(t.columns[k].name)
				}
				r = newRecord(c, space)
				ddl := fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", ident.Quote(t.name), ident.Quote(r.target), declaredType(c))
				if err := w.change(t.name, ddl); err != nil {
					return nil, err
				}
				count++
			}
			space.Take(r.target)
			owned[r.target] = true
			added = append(added, r)
			records[recordKey(c.Role, c.Name)] = r
		}
	}
	if _, known := records[overflowKey]; over && !known {
		for k := range t.columns {
			space.Take(t.columns[k].name)
		}
		r := overflowRecord(space)
		if err := w.change(t.name, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s TEXT", ident.Quote(t.name), ident.Quote(r.target))); err != nil {
			return nil, err
		}
		w.warnOverflow(rel, r)
		added = append(added, r)
		records[overflowKey] = r
	}
	if added == nil {
		return t, nil
	}
	if err := w.remember(t.name, added); err != nil {
		return nil, err
	}
	return w.table(t.name)
}

func (w *writer) warnOverflow(rel *logical.Relation, r record) {
	w.cfg.Logger.Warn("sqlite: the table has as many columns as are allowed: other values share one", "measurement", rel.String(),
		"columns", w.cfg.MaxColumns, "column", r.target)
}

// adopt takes a column for a source's that somebody else has added to one of our tables.
func (w *writer) adopt(t *table, c *logical.Column, owned map[string]bool) (record, bool) {
	at, ok := t.column(c.Name)
	if !ok || t.columns[at].name != c.Name || owned[c.Name] || t.columns[at].pk > 0 || t.columns[at].generated {
		return record{}, false
	}
	return record{role: roleName(c.Role), name: c.Name, target: c.Name}, true
}

// placePoints says where the values go in a table of ours.
func (w *writer) placePoints(p *plan, records map[string]record) {
	for i := range p.relation.Columns {
		c, pc := &p.relation.Columns[i], &p.columns[i]
		switch c.Role {
		case logical.RoleTime:
			*pc = planColumn{target: p.mustColumn(timeColumn), class: classInteger, key: true}
			p.keys = append(p.keys, i)
		case logical.RoleSeries:
			*pc = planColumn{target: p.mustColumn(seriesColumn), class: classBlob, key: true}
			p.keys = append(p.keys, i)
		default:
			r, ok := records[recordKey(c.Role, c.Name)]
			at := -1
			if ok {
				at, ok = p.table.column(r.target)
			}
			if !ok {
				*pc = planColumn{target: -1, over: true}
				p.overflow = p.mustColumn(records[overflowKey].target)
				continue
			}
			*pc = planColumn{target: at, class: p.table.columns[at].class}
			// A column that somebody has given another type since takes what that type takes.
			if class, declared := classOfField(kindNamed(r.kind)); r.kind != "" && strings.EqualFold(declared, p.table.columns[at].declared) {
				pc.class = class
			}
		}
	}
}

// mustColumn returns the position of a column that our own tables always have; -1 if somebody has
// taken it away, which the statements then report.
func (p *plan) mustColumn(name string) int {
	at, _ := p.table.column(name)
	return at
}

func newRecord(c *logical.Column, space *ident.Space) record {
	role := roleName(c.Role)
	return record{role: role, name: c.Name, target: space.Assign(c.Name, "_"+role), kind: columnKind(c).String()}
}

// columnKind returns the kind of values that a column of ours is made for.
func columnKind(c *logical.Column) logical.Kind {
	if c.Role == logical.RoleTag {
		return logical.KindText
	}
	return c.Kind
}

func declaredType(c *logical.Column) string {
	_, declared := classOfField(columnKind(c))
	return declared
}

func recordKey(role logical.Role, name string) string { return roleName(role) + "\x00" + name }

// records reads what the staging tables say about a table's columns.
func (w *writer) records(t *table) (map[string]record, error) {
	if t.records != nil {
		return t.records, nil
	}
	records := map[string]record{}
	err := w.query("SELECT role, name, target, kind FROM _tailrace_columns WHERE target_table = ?", func(s *sqlite3.Stmt) error {
		r := record{role: s.ColumnText(0), name: s.ColumnText(1), target: s.ColumnText(2), kind: s.ColumnText(3)}
		if _, ok := t.column(r.target); ok { // otherwise somebody dropped it, and it is made again
			records[r.role+"\x00"+r.name] = r
		}
		return nil
	}, t.name)
	t.records = records
	return records, err
}

func (w *writer) remember(tableName string, records []record) error {
	for _, r := range records {
		err := w.exec("INSERT OR REPLACE INTO _tailrace_columns (target_table, role, name, target, kind) VALUES (?, ?, ?, ?, ?)",
			tableName, r.role, r.name, r.target, r.kind)
		if err != nil {
			return err
		}
	}
	return nil
}

// change runs a statement that makes or alters a table.
func (w *writer) change(tableName, ddl string) error {
	w.ddl = true
	delete(w.catalog.tables, tableName)
	return w.classify(w.db.Exec(ddl), ddl)
}
