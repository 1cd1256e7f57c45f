package sqlite

import (
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Bounds of what is kept prepared. Beyond them everything is forgotten and built again as needed.
const (
	maxPlans  = 4096
	maxShapes = 1024
)

// A catalog remembers the schema of the file and what was planned by it.
type catalog struct {
	version int64 // PRAGMA schema_version at which it was read; -1 if it has to be looked at
	tables  map[string]*table
	plans   map[*logical.Relation]*plan
	shapes  int // statements' shapes over all plans
}

func newCatalog() *catalog {
	c := &catalog{version: -1}
	c.flush()
	return c
}

// flush forgets everything. Statements of shapes that are still in use stay valid.
func (c *catalog) flush() {
	for _, p := range c.plans {
		p.close()
	}
	c.tables = map[string]*table{}
	c.plans = map[*logical.Relation]*plan{}
	c.shapes = 0
	c.version = -1
}

// refresh forgets everything if somebody else has changed the schema. It runs in a transaction.
func (c *catalog) refresh(w *writer) error {
	version, err := w.schemaVersion()
	if err != nil {
		return err
	}
	if c.version != version && c.version != -1 {
		c.flush()
	}
	c.version = version
	return nil
}

// schemaVersion returns a number that every change of the schema raises, whoever makes it.
func (w *writer) schemaVersion() (version int64, err error) {
	err = w.query("PRAGMA schema_version", func(s *sqlite3.Stmt) error {
		version = s.ColumnInt64(0)
		return nil
	})
	return version, err
}

// A table is one that exists in the file.
type table struct {
	name    string
	ours    bool // made by Tailrace
	columns []tableColumn
	// uniques are the sets of columns that are unique, each ascending by position; the primary key
	// is the first.
	uniques [][]int
	records map[string]record // of a table of ours, once they were needed
}

type tableColumn struct {
	name       string
	declared   string
	class      class
	notNull    bool
	hasDefault bool
	emptyText  bool // the default is ''
	pk         int  // position in the primary key, from 1; 0 if it is not part of it
	generated  bool
}

// column finds a column by its name, as SQLite compares names.
func (t *table) column(name string) (int, bool) {
	i := slices.IndexFunc(t.columns, func(c tableColumn) bool { return strings.EqualFold(c.name, name) })
	return i, i >= 0
}

// unique reports whether the given columns, in any order, are exactly those of a unique key.
func (t *table) unique(columns []int) bool {
	sorted := slices.Sorted(slices.Values(columns))
	return slices.ContainsFunc(t.uniques, func(u []int) bool { return slices.Equal(u, sorted) })
}

// table reads a table from the schema; nil if there is none of that name.
func (w *writer) table(name string) (*table, error) {
	if t := w.catalog.tables[name]; t != nil {
		return t, nil
	}
	var kind, found string
	err := w.query("SELECT type, name FROM sqlite_schema WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')",
		func(s *sqlite3.Stmt) error { kind, found = s.ColumnText(0), s.ColumnText(1); return nil }, name)
	if err != nil || found == "" {
		return nil, err
	}
	if kind != "table" {
		return nil, retry(errors.Errorf("sqlite: %q is a %s, not a table", found, kind), "rename it, or map the source's table to another name")
	}
	t := &table{name: found}
	if err := w.readColumns(t); err != nil {
		return nil, err
	}
	if err := w.readUniques(t); err != nil {
		return nil, err
	}
	err = w.query("SELECT 1 FROM _tailrace_tables WHERE target = ?", func(*sqlite3.Stmt) error { t.ours = true; return nil }, found)
	if err != nil {
		return nil, err
	}
	w.catalog.tables[name] = t
	return t, nil
}

func (w *writer) readColumns(t *table) error {
	return w.query(`SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)`, func(s *sqlite3.Stmt) error {
		hidden := s.ColumnInt64(5)
		if hidden == 1 {
			return nil // of a virtual table's own
		}
		def := s.ColumnText(3)
		t.columns = append(t.columns, tableColumn{
			name:       s.ColumnText(0),
			declared:   s.ColumnText(1),
			class:      classOfDeclared(s.ColumnText(1)),
			notNull:    s.ColumnBool(2),
			hasDefault: s.ColumnType(3) != sqlite3.NULL,
			emptyText:  def == "''" || def == `""`,
			pk:         s.ColumnInt(4),
			generated:  hidden == 2 || hidden == 3,
		})
		return nil
	}, t.name)
}

func (w *writer) readUniques(t *table) error {
	var pk []int
	for i := range t.columns {
		if t.columns[i].pk > 0 {
			pk = append(pk, i)
		}
	}
	if pk != nil {
		t.uniques = append(t.uniques, pk)
	}
	byIndex := map[string][]int{}
	err := w.query(`SELECT l.name, i.cid FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i
WHERE l."unique" AND NOT l.partial ORDER BY l.seq`, func(s *sqlite3.Stmt) error {
		name := s.ColumnText(0)
		byIndex[name] = append(byIndex[name], s.ColumnInt(1))
		return nil
	}, t.name)
	for _, columns := range byIndex {
		if columns := slices.Sorted(slices.Values(columns)); columns[0] >= 0 { // -1 and -2 are no columns
			t.uniques = append(t.uniques, columns)
		}
	}
	return err
}
