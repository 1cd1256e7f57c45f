package sqlite

import (
	"fmt"
	"slices"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// planForeignPoints plans for a table that somebody else made. It is used as it is, and never
// altered: its columns have to be there, and its key has to tell points apart.
func (w *writer) planForeignPoints(p *plan) error {
	timeAt, ok := p.table.column(timeColumn)
	if !ok || p.table.columns[timeAt].class != classInteger {
		return foreignError(p, "it has no INTEGER column \"time\" for nanoseconds since 1970")
	}
	taken := map[int]string{}
	for i := range p.relation.Columns {
		c := &p.relation.Columns[i]
		name := foreignName(p.relation, c)
		at, ok := p.table.column(name)
		if !ok && c.Role == logical.RoleSeries {
			p.columns[i] = planColumn{target: -1}
			continue
		}
		if !ok && w.cfg.IgnoreMissingColumns {
			w.ignore(p, i)
			continue
		}
		if !ok {
			return retry(errors.Errorf("sqlite: table %q, which Tailrace did not make, has no column %q for the %s %q",
				p.table.name, name, roleName(c.Role), c.Name),
				fmt.Sprintf("add it: ALTER TABLE %s ADD COLUMN %s %s", ident.Quote(p.table.name), ident.Quote(name), declaredType(c)))
		}
		if other := taken[at]; other != "" {
			return foreignError(p, fmt.Sprintf("its column %q would hold both %q and %q", p.table.columns[at].name, other, c.Name))
		}
		taken[at] = c.Name
		p.columns[i] = planColumn{target: at, class: p.table.columns[at].class}
	}
	return w.foreignKey(p, timeAt)
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

// foreignKey finds the key: (time, series), or the time and the tags.
func (w *writer) foreignKey(p *plan, timeAt int) error {
	if at, ok := p.table.column(seriesColumn); ok && p.table.unique([]int{timeAt, at}) {
		for i := range p.relation.Columns {
			if role := p.relation.Columns[i].Role; role == logical.RoleTime || role == logical.RoleSeries {
				p.keys = append(p.keys, i)
				p.columns[i].key = true
			}
		}
		return nil
	}
	for _, unique := range p.table.uniques {
		if slices.Contains(unique, timeAt) && w.keyOfTags(p, unique) {
			return nil
		}
	}
	return foreignError(p, "no primary key or unique index of it has the columns \"time\" and \"series\", or \"time\" and all tags, "+
		"each tag being TEXT NOT NULL DEFAULT ''")
}

// keyOfTags makes a unique key the plan's, if it tells the points of the relation apart.
func (w *writer) keyOfTags(p *plan, unique []int) bool {
	var keys []int
	inRelation := map[int]bool{}
	for i := range p.relation.Columns {
		c, at := &p.relation.Columns[i], p.columns[i].target
		switch c.Role {
		case logical.RoleTime:
			keys = append(keys, i)
		case logical.RoleTag:
			if !slices.Contains(unique, at) || !p.table.columns[at].holdsAbsentTag() {
				return false
			}
			keys = append(keys, i)
		case logical.RoleField:
			if slices.Contains(unique, at) {
				return false
			}
		}
		inRelation[at] = true
	}
	var fixed []fixedKey
	for _, at := range unique {
		if !inRelation[at] {
			if !p.table.columns[at].holdsAbsentTag() {
				return false
			}
			fixed = append(fixed, fixedKey{target: at})
		}
	}
	p.keys, p.fixedKeys = keys, fixed
	for _, i := range keys {
		p.columns[i].key = true
		p.columns[i].fill = p.relation.Columns[i].Role == logical.RoleTag
	}
	return true
}

// holdsAbsentTag reports whether a tag that a point does not have can be stored as ”.
func (c *tableColumn) holdsAbsentTag() bool { return c.class == classText && c.notNull && c.emptyText }

func foreignError(p *plan, why string) error {
	return retry(errors.Errorf("sqlite: table %q, which Tailrace did not make, cannot hold the points of measurement %q: %s",
		p.table.name, p.relation.Name, why), "change the table, or rename it so that Tailrace makes one of its own")
}
