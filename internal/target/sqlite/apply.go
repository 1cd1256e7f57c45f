package sqlite

import (
	"fmt"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// apply applies mutations one after the other.
func (w *writer) apply(muts []logical.Mutation) error {
	var p *plan
	for i := range muts {
		m := &muts[i]
		if p == nil || p.relation != m.Relation {
			var err error
			if p, err = w.plan(m.Relation); err != nil {
				return w.planError(err)
			}
		}
		why, err := w.applyOne(p, m)
		switch {
		case why != "":
			return w.rejected(muts, i, why)
		case err != nil:
			return w.applyError(err, i, m)
		}
	}
	return nil
}

// applyOne applies a mutation, or says why it never can.
func (w *writer) applyOne(p *plan, m *logical.Mutation) (why string, err error) {
	if why := p.refuses(m, &w.scratch); why != "" {
		return why, nil
	}
	s, err := w.shape(p, m)
	if err != nil {
		return "", err
	}
	for i := range s.steps {
		st := &s.steps[i]
		if st.onlyIfNone && w.db.Changes() > 0 {
			break
		}
		for n := range st.args {
			c := p.argument(&st.args[n], m, &w.scratch)
			if err := c.bind(st.stmt, n+1); err != nil {
				return "", w.classify(err, "bind")
			}
		}
		if err := st.stmt.Exec(); err != nil {
			return "", w.classify(err, m.Op.String()+" "+p.table.name)
		}
	}
	return "", nil
}

// argument returns the value of a parameter, which is one that refuses has let pass.
func (p *plan) argument(a *arg, m *logical.Mutation, scratch *[]byte) cell {
	c := &p.columns[a.column]
	v := m.Values[a.column]
	if a.isOld {
		v = m.OldKey[a.old]
	}
	if c.fill && v.IsAbsent() {
		return textCell("")
	}
	return toCell(c.class, v, scratch)
}

// refuses says why the mutation's values cannot be stored; "" if they can.
func (p *plan) refuses(m *logical.Mutation, scratch *[]byte) string {
	if p.refuse != "" {
		return p.refuse
	}
	if m.Op == logical.OpTruncate {
		return ""
	}
	if len(m.Values) != len(p.columns) {
		return fmt.Sprintf("it has %d values for %d columns", len(m.Values), len(p.columns))
	}
	for i := range m.Values {
		c := &p.columns[i]
		if m.Values[i].IsAbsent() || m.Op == logical.OpDelete && !c.key {
			continue
		}
		if c.refuse != "" {
			return p.describe(i, m.Values[i]) + c.refuse
		}
		if c.target < 0 {
			continue
		}
		if cell := toCell(c.class, m.Values[i], scratch); cell.form == 0 {
			return p.describe(i, m.Values[i]) + cell.text
		}
	}
	if m.Op != logical.OpRekey {
		return ""
	}
	if len(m.OldKey) != len(p.keys) {
		return fmt.Sprintf("its old key has %d values for %d key columns", len(m.OldKey), len(p.keys))
	}
	for n, v := range m.OldKey {
		if cell := toCell(p.columns[p.keys[n]].class, v, scratch); cell.form == 0 {
			return p.describe(p.keys[n], v) + cell.text
		}
	}
	return ""
}

// describe names a value by its kind and its place.
func (p *plan) describe(column int, v logical.Value) string {
	place := p.relation.Columns[column].Name
	declared := ""
	if at := p.columns[column].target; at >= 0 {
		declared = " of type " + p.table.columns[at].declared
	}
	return fmt.Sprintf("column %q%s, %s value: ", place, declared, v.Kind())
}

// rejected reports the mutation at i and those after it that cannot be stored either.
func (w *writer) rejected(muts []logical.Mutation, i int, why string) error {
	reason := func(j int, why string) error {
		return errors.Errorf("sqlite: table %q: %s", muts[j].Relation.String(), why)
	}
	list := []logical.Rejection{{Index: i, Reason: reason(i, why)}}
	for j := i + 1; j < len(muts); j++ {
		p := w.catalog.plans[muts[j].Relation]
		if p == nil {
			continue
		}
		if why := p.refuses(&muts[j], &w.scratch); why != "" {
			list = append(list, logical.Rejection{Index: j, Reason: reason(j, why)})
		}
	}
	return &logical.Error{Err: list[0].Reason, Class: logical.ClassReject, Rejected: list}
}

// applyError completes an error of the mutation at i.
func (w *writer) applyError(err error, i int, m *logical.Mutation) error {
	if isSchemaError(err) {
		return w.planError(err)
	}
	var e *logical.Error
	if errors.As(err, &e) && (e.Class == logical.ClassReject || e.Class == logical.ClassConstraint) {
		e.Rejected = []logical.Rejection{{Index: i, Reason: e.Err}}
	}
	return errors.WithMessage(err, m.Relation.String())
}

// planError makes sure that what was planned is planned again.
func (w *writer) planError(err error) error {
	w.catalog.flush()
	return err
}
