package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A plan says how the mutations of one relation are put into one table.
type plan struct {
	relation *logical.Relation
	table    *table
	// sources says, for each column of the table, where its value comes from.
	sources []source
	keys    []int  // columns of the table that make its key, ascending
	keyAt   []bool // by column of the table
	relKeys []int  // the columns of the relation that they come from, in the same order; -1 for constants
	refuse  string
	refused map[int]string // columns of the relation that cannot be stored, and why
	floor   bool           // there is no nanos column: nanoseconds are cut off
	ignored []int          // columns of the relation that are left out
	over    []int          // columns of the relation whose values go into the overflow column
	shared  bool           // the table is that of all measurements that have none of their own
}

// A source says where a column's value comes from.
type source struct {
	column int // of the relation; one of the constants below if from none
	wire   wire
	nanos  bool
	field  logical.Kind // for fields of our own tables, the kind that the column is made for
	fill   bool         // an absent value is stored as ''
	tag    bool         // what the series says; it does not change
}

const (
	fromNone  = -1
	fromEmpty = -2 // always ''
	fromOver  = -3 // the values that have no column of their own
	fromName  = -4 // the measurement
)

// errNeedsDDL says that a table of points has to be made or extended first.
var errNeedsDDL = errors.New("postgres: the table has to be made or extended")

// plan returns how a relation is stored.
func (t *Target) plan(ctx context.Context, rel *logical.Relation) (*plan, error) {
	if p := t.catalog.plan(rel); p != nil {
		return p, nil
	}
	var p *plan
	err := t.lookUp(ctx, func(q querier) error {
		var err error
		if rel.Points {
			p, err = t.planPoints(ctx, q, rel)
		} else {
			p, err = t.planTable(ctx, q, rel)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	t.catalog.keep(p)
	return p, nil
}

// lookUp reads the catalog on a connection that is not for data.
func (t *Target) lookUp(ctx context.Context, fn func(q querier) error) error {
	if err := t.open(); err != nil {
		return err
	}
	err := fn(t.control)
	if errors.Is(err, errNeedsDDL) {
		return err
	}
	t.restage(err)
	return classify(ctx, err)
}

// planTable plans for a table of a database, which has to be there.
func (t *Target) planTable(ctx context.Context, q querier, rel *logical.Relation) (*plan, error) {
	name := tableName{t.schemaOf(rel), rel.Name}
	tab, err := t.readTable(ctx, q, name)
	if err != nil {
		return nil, err
	}
	if tab == nil {
		return nil, retry(errors.Errorf("postgres: there is no table %s", name.quoted()), "create it; Tailrace makes tables for points alone")
	}
	p := newPlan(rel, t.catalog.share(tab))
	keys := map[int]int{}
	for i := range rel.Columns {
		c := &rel.Columns[i]
		at, ok := p.table.column(c.Name)
		switch {
		case !ok && t.cfg.IgnoreMissingColumns && !c.Key:
			t.ignore(p, i)
			continue
		case !ok:
			return nil, retry(errors.Errorf("postgres: table %s has no column %q", name.quoted(), c.Name),
				fmt.Sprintf("add it: ALTER TABLE %s ADD COLUMN %s …", name.quoted(), ident.Quote(c.Name)))
		case p.table.columns[at].generated && !c.Key:
			continue
		}
		p.sources[at] = source{column: i, wire: textWire(c.Kind, p.table.columns[at].wire)}
		if c.Key {
			keys[at] = i
		}
	}
	if err := p.setKeys(keys); err != nil {
		return nil, err
	}
	return p, nil
}

// ignore leaves a column of the relation out (NOTHING SILENT).
func (t *Target) ignore(p *plan, column int) {
	p.ignored = append(p.ignored, column)
	name := p.relation.Columns[column].Name
	if _, known := p.table.ignored.LoadOrStore(name, true); !known {
		t.cfg.Logger.Warn("postgres: the table has no column for these values: they are left out", "table", p.table.quoted, "column", name)
	}
}

func newPlan(rel *logical.Relation, tab *table) *plan {
	p := &plan{relation: rel, table: tab, refused: map[int]string{}}
	if tab != nil {
		p.sources = make([]source, len(tab.columns))
		for i := range p.sources {
			p.sources[i].column = fromNone
		}
	}
	return p
}

// textWire returns the wire of a column whose values may come as the source's text form of a type
// that has no kind of its own.
func textWire(kind logical.Kind, w wire) wire {
	switch w {
	case wireText, wireBytes, wireJSON, wireJSONB:
		return w
	}
	if kind == logical.KindText {
		return wireCast
	}
	return w
}

// setKeys makes the given columns of the table, each with its column of the relation, the key.
func (p *plan) setKeys(keys map[int]int) error {
	p.keyAt = make([]bool, len(p.table.columns))
	for at := range p.table.columns {
		if from, ok := keys[at]; ok {
			p.keyAt[at] = true
			p.keys = append(p.keys, at)
			p.relKeys = append(p.relKeys, from)
		}
	}
	if !p.table.unique(p.keys) {
		var names []byte
		for i, at := range p.keys {
			if i > 0 {
				names = append(names, ", "...)
			}
			names = ident.AppendQuoted(names, p.table.columns[at].name)
		}
		return retry(errors.Errorf("postgres: table %s has no primary key or unique index on exactly the key columns of %s: %s",
			p.table.name.quoted(), p.relation, names),
			fmt.Sprintf("create one whose columns are NOT NULL: CREATE UNIQUE INDEX ON %s (%s)", p.table.name.quoted(), names))
	}
	return nil
}

// fillable reports whether a NULL may stand for an absent value in a row that is inserted.
func (p *plan) fillable() bool {
	for at := range p.table.columns {
		c := &p.table.columns[at]
		if !p.keyAt[at] && !c.generated && (c.notNull || c.hasDefault) {
			return false
		}
	}
	return true
}

// risky reports whether a batch that fails has to be applied one by one.
func (p *plan) risky() bool {
	return p.table.risky || slices.ContainsFunc(p.keys, func(at int) bool { return p.table.columns[at].inexact })
}

// isKey reports whether the column of the table is part of the key.
func (p *plan) isKey(at int) bool { return p.keyAt[at] }

// schemaOf returns the name of the schema that a relation's table is in.
func (t *Target) schemaOf(rel *logical.Relation) string {
	if rel.Schema == "" {
		return t.cfg.Schema
	}
	return schemaSpace().Assign(rel.Schema, "")
}

// nameRules are PostgreSQL's: names are cut at 63 bytes.
func nameRules() ident.Rules { return ident.Rules{MaxBytes: 63} }

// schemaSpace is the namespace of schemas, of which the servers keep some for themselves.
func schemaSpace() *ident.Space {
	return ident.NewSpace(ident.Rules{MaxBytes: 63, ReservedPrefixes: []string{"pg_"}}, "information_schema", "crdb_internal")
}
