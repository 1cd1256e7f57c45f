package sqlite

import (
	"fmt"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A plan says how the mutations of one relation are put into one table.
type plan struct {
	relation *logical.Relation
	table    *table
	columns  []planColumn // by position in the relation
	keys     []int        // positions in the relation of the columns that make the table's key
	// fixedKeys are columns of the table's key that the relation does not have: the tags that its points
	// do not carry, stored as '', or the measurement in a table that several share.
	fixedKeys []fixedKey
	overflow  int    // position in the table of the column for values that have none of their own; -1 if there is none
	shared    bool   // the table is that of all measurements that have none of their own
	refuse    string // why no mutation of the relation can be stored; "" if they can
	ignores   bool   // values of some columns are left out

	shapes map[string]*shape
	last   *shape
}

// A fixedKey is a column of the key that is the same for all mutations of a plan.
type fixedKey struct {
	target int
	value  string
}

// A planColumn says where the values of one column of the relation go.
type planColumn struct {
	target  int // position in the table; -1 if values are not stored
	class   class
	key     bool
	fill    bool   // an absent value is stored as ''
	over    bool   // values go into the overflow column
	ignored bool   // values are left out, and counted
	refuse  string // why no value can be stored; "" if they can
}

// plan returns how a relation is stored, making or extending its table if it is one of points. It
// runs in a transaction.
func (w *writer) plan(rel *logical.Relation) (*plan, error) {
	if p := w.catalog.plans[rel]; p != nil {
		return p, nil
	}
	if len(w.catalog.plans) >= maxPlans {
		w.catalog.flush()
	}
	p := &plan{relation: rel, overflow: -1, columns: make([]planColumn, len(rel.Columns)), shapes: map[string]*shape{}}
	var err error
	if rel.Points {
		err = w.planPoints(p)
	} else {
		err = w.planTable(p)
	}
	if err != nil {
		return nil, err
	}
	w.catalog.plans[rel] = p
	return p, nil
}

// planTable plans for a table of a database, which has to be there.
func (w *writer) planTable(p *plan) error {
	name := w.cfg.tableName(p.relation)
	t, err := w.table(name)
	if err != nil {
		return err
	}
	if t == nil {
		return retry(errors.Errorf("sqlite: there is no table %q in %s", name, w.cfg.Path), "create it; Tailrace makes tables for points alone")
	}
	if err := w.own(t, p.relation); err != nil {
		return err
	}
	p.table = t
	var keys []int
	for i := range p.relation.Columns {
		c := &p.relation.Columns[i]
		at, ok := t.column(c.Name)
		if !ok && w.cfg.IgnoreMissingColumns && !c.Key {
			w.ignore(p, i)
			continue
		}
		if !ok {
			return missingColumn(t, c)
		}
		p.columns[i] = planColumn{target: at, class: t.columns[at].class, key: c.Key}
		switch {
		case c.Key:
			keys = append(keys, at)
			p.keys = append(p.keys, i)
		case t.columns[at].generated:
			p.columns[i].target = -1
		}
	}
	if !t.unique(keys) {
		return retry(errors.Errorf("sqlite: table %q has no primary key or unique index on exactly the key columns of %s: %s",
			t.name, p.relation, columnNames(p.relation, p.keys)), "create a unique index on them")
	}
	return nil
}

// ignore leaves a column of the relation out (NOTHING SILENT).
func (w *writer) ignore(p *plan, column int) {
	p.columns[column] = planColumn{target: -1, ignored: true}
	p.ignores = true
	name := p.relation.Columns[column].Name
	if key := p.table.name + "\x00" + name; !w.warned[key] {
		w.warned[key] = true
		w.cfg.Logger.Warn("sqlite: the table has no column for these values: they are left out", "table", p.table.name, "column", name)
	}
}

func missingColumn(t *table, c *logical.Column) error {
	return retry(errors.Errorf("sqlite: table %q has no column %q", t.name, c.Name),
		fmt.Sprintf("add it: ALTER TABLE %s ADD COLUMN %s …", ident.Quote(t.name), ident.Quote(c.Name)))
}

// tableName returns the name that a relation's table has where nothing stands in the way.
func (c *Config) tableName(rel *logical.Relation) string {
	if c.isDefault(rel.Schema) {
		return rel.Name
	}
	return rel.Schema + "." + rel.Name
}

func columnNames(rel *logical.Relation, columns []int) string {
	var b []byte
	for i, c := range columns {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = ident.AppendQuoted(b, rel.Columns[c].Name)
	}
	return string(b)
}

// close closes the plan's statements.
func (p *plan) close() {
	for _, s := range p.shapes {
		s.close()
	}
	clear(p.shapes)
	p.last = nil
}
