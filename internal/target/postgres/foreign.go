package postgres

import (
	"fmt"
	"slices"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// planForeignPoints plans for a table that somebody else made. It is used as it is, and never
// altered: its columns have to be there, and its key has to tell points apart.
func (t *Target) planForeignPoints(rel *logical.Relation, tab *table) (*plan, error) {
	p := newPlan(rel, tab)
	timeAt, ok := tab.column(timeColumn)
	if !ok || tab.columns[timeAt].wire != wireTimestamptz && tab.columns[timeAt].wire != wireTimestamp {
		return nil, foreignError(p, "it has no column \"time\" of type timestamptz")
	}
	nanosAt, hasNanos := tab.column(nanosColumn)
	p.floor = !hasNanos || tab.columns[timeAt].timeUnit > 1
	for i := range rel.Columns {
		c := &rel.Columns[i]
		name := foreignName(rel, c)
		at, ok := tab.column(name)
		if !ok && c.Role == logical.RoleSeries {
			continue
		}
		if !ok && t.cfg.IgnoreMissingColumns {
			t.ignore(p, i)
			continue
		}
		if !ok {
			return nil, retry(errors.Errorf("postgres: table %s, which Tailrace did not make, has no column %q for the %s %q",
				tab.name.quoted(), name, roleName(c.Role), c.Name),
				fmt.Sprintf("add it: ALTER TABLE %s ADD COLUMN %s %s", tab.name.quoted(), ident.Quote(name), declaredType(c)))
		}
		p.sources[at] = source{column: i, wire: p.table.columns[at].wire, tag: c.Role == logical.RoleTag}
		if c.Role == logical.RoleTime && hasNanos {
			p.sources[nanosAt] = source{column: i, wire: p.table.columns[nanosAt].wire, nanos: true}
		}
	}
	return p, p.foreignKey(timeAt)
}

// foreignName returns the name that a column must have in a table that somebody else made.
func foreignName(rel *logical.Relation, c *logical.Column) string {
	switch c.Role {
	case logical.RoleTime:
		return timeColumn
	case logical.RoleSeries:
		return seriesColumn
	}
	space := columnSpace()
	if c.Role == logical.RoleField {
		for i := range rel.Columns {
			if other := &rel.Columns[i]; other.Role == logical.RoleTag {
				space.Take(other.Name)
			}
		}
	}
	return space.Assign(c.Name, "_"+roleName(c.Role))
}

// foreignKey finds a unique key of the time, the nanos if they are there, and the series or all tags.
func (p *plan) foreignKey(timeAt int) error {
	for _, unique := range p.table.uniques {
		if slices.Contains(unique, timeAt) {
			if keys, ok := p.keyOfPoints(unique); ok {
				return p.setKeys(keys)
			}
		}
	}
	return foreignError(p, "no primary key or unique index of it has the columns \"time\" (and \"nanos\", if there is one) and \"series\", "+
		"or these and all tags, each tag being NOT NULL DEFAULT '' or the index UNIQUE NULLS NOT DISTINCT")
}

// keyOfPoints returns the columns of a unique key with where they come from, if the key tells the
// points of the relation apart.
func (p *plan) keyOfPoints(unique []int) (map[int]int, bool) {
	keys := map[int]int{}
	bySeries, nanos, tags := false, false, 0
	for _, at := range unique {
		from := p.sources[at]
		c := &p.table.columns[at]
		role := logical.RoleNone
		if from.column >= 0 {
			role = p.relation.Columns[from.column].Role
		}
		switch {
		case role == logical.RoleTime:
			nanos = nanos || from.nanos
		case role == logical.RoleSeries:
			bySeries = true
		case role == logical.RoleTag:
			tags++
			p.sources[at].fill = c.notNull
			if c.notNull && !(c.emptyText && c.wire == wireText) {
				return nil, false
			}
		case role == logical.RoleNone && c.notNull && c.emptyText: // a tag that these points do not have
			from.column, from.wire = fromEmpty, c.wire
			p.sources[at] = from
		case role == logical.RoleNone && !c.notNull: // the same, stored as NULL
			p.sources[at].wire = c.wire
		default:
			return nil, false
		}
		keys[at] = from.column
	}
	all := 0
	for i := range p.relation.Columns {
		if p.relation.Columns[i].Role == logical.RoleTag {
			all++
		}
	}
	return keys, (bySeries || tags == all) && (nanos || !p.hasNanos())
}

func foreignError(p *plan, why string) error {
	return retry(errors.Errorf("postgres: table %s, which Tailrace did not make, cannot hold the points of measurement %q: %s",
		p.table.name.quoted(), p.relation.Name, why), "change the table, or rename it so that Tailrace makes one of its own")
}

// hasNanos reports whether the table has a column for nanoseconds.
func (p *plan) hasNanos() bool {
	_, ok := p.table.column(nanosColumn)
	return ok
}
