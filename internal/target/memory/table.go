package memory

import (
	"strings"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A table holds committed rows. A row is a slice with a value per column; it may be shorter than
// columns, and what it lacks is absent. Rows are never changed, only replaced, so that a snapshot can
// share them.
type table struct {
	name    string
	columns []logical.Column
	index   map[columnID]int
	plans   map[*logical.Relation][]int
	rows    map[string][]logical.Value
	raw     [][]byte
	unique  []*unique
}

// columnID tells columns apart: a tag and a field may have one name.
type columnID struct {
	name string
	role logical.Role
}

// A unique is a secondary unique constraint of a table, with the key of the row that has each value.
type unique struct {
	columns []string
	owner   map[string]string
}

// maxPlans bounds the cache of plans; relations come and go with schema changes.
const maxPlans = 1024

// table returns the table of a relation, and makes it if it is not there. Callers hold mu.
func (t *Target) table(r *logical.Relation) *table {
	name := r.String()
	tab := t.tables[name]
	if tab == nil {
		tab = &table{
			name:  name,
			index: map[columnID]int{},
			plans: map[*logical.Relation][]int{},
			rows:  map[string][]logical.Value{},
		}
		for _, u := range t.cfg.Unique {
			if u.Table == name {
				tab.unique = append(tab.unique, &unique{columns: u.Columns, owner: map[string]string{}})
			}
		}
		t.tables[name] = tab
	}
	return tab
}

// prepare makes sure that the relation's table has its columns. Callers hold mu.
func (t *Target) prepare(r *logical.Relation) error {
	tab := t.table(r)
	for _, c := range r.Columns {
		i, ok := tab.index[columnID{c.Name, c.Role}]
		switch {
		case !ok:
			tab.index[columnID{c.Name, c.Role}] = len(tab.columns)
			tab.columns = append(tab.columns, c)
		case r.Points && tab.columns[i].Kind != c.Kind:
			return classed(logical.ClassReject, errors.Errorf(
				"memory: column %s of %s holds %s, not %s", c.Name, tab.name, tab.columns[i].Kind, c.Kind))
		}
	}
	return nil
}

// plan returns, for each column of a relation, where it stands in the table's rows. Callers hold mu.
func (tab *table) plan(r *logical.Relation) ([]int, error) {
	if p, ok := tab.plans[r]; ok {
		return p, nil
	}
	p := make([]int, len(r.Columns))
	for i, c := range r.Columns {
		at, ok := tab.index[columnID{c.Name, c.Role}]
		if !ok {
			return nil, errors.Errorf("memory: table %s has no column %s", tab.name, c.Name)
		}
		if r.Points && tab.columns[at].Kind != c.Kind {
			return nil, classed(logical.ClassReject, errors.Errorf(
				"memory: column %s of %s holds %s, not %s", c.Name, tab.name, tab.columns[at].Kind, c.Kind))
		}
		p[i] = at
	}
	if len(tab.plans) >= maxPlans {
		clear(tab.plans)
	}
	tab.plans[r] = p
	return p, nil
}

// fill returns a copy of old that has the values which are not absent.
func (tab *table) fill(old []logical.Value, plan []int, values []logical.Value) []logical.Value {
	row := make([]logical.Value, len(tab.columns))
	copy(row, old)
	for i, v := range values {
		if !v.IsAbsent() {
			row[plan[i]] = clone(v)
		}
	}
	return row
}

// lacking returns the values for which the old row has none, the others being absent.
func lacking(old []logical.Value, plan []int, values []logical.Value) []logical.Value {
	lacks := make([]logical.Value, len(values))
	for i, v := range values {
		if at := plan[i]; at >= len(old) || old[at].IsNull() || old[at].IsAbsent() {
			lacks[i] = v
		}
	}
	return lacks
}

// valueOf returns the encoding of a constraint's columns in a row, or "" where the constraint does
// not bind it.
func (u *unique) valueOf(tab *table, row []logical.Value) string {
	if row == nil {
		return ""
	}
	rel := logical.Relation{Name: tab.name, Columns: make([]logical.Column, len(u.columns))}
	values := make([]logical.Value, len(u.columns))
	for i, name := range u.columns {
		rel.Columns[i].Key = true
		for id, at := range tab.index {
			if id.name == name && at < len(row) {
				values[i] = row[at]
			}
		}
		if values[i].IsAbsent() || values[i].IsNull() {
			return ""
		}
	}
	m := logical.Mutation{Relation: &rel, Values: values}
	return strings.Join(u.columns, ",") + "=" + string(m.AppendKey(nil))
}
