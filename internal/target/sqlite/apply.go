package sqlite

import (
	"fmt"

	"github.com/ncruces/go-sqlite3"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// apply applies mutations one after the other. Neighbours of one shape that insert share a statement
// of several rows; SQLite takes its rows in order, and one key may be among them twice.
func (w *writer) apply(muts []logical.Mutation) error {
	for i := 0; i < len(muts); {
		p, err := w.plan(muts[i].Relation)
		if err != nil {
			return w.planError(err)
		}
		n, why, err := w.applyRun(p, muts[i:])
		w.note(p, muts[i:i+n])
		i += n
		switch {
		case why != "":
			return w.rejected(muts, i, why)
		case err != nil:
			return w.applyError(err, i, &muts[i])
		}
	}
	return nil
}

// applyRun applies the mutations at the beginning that have one shape, and returns how many it did.
// Of the next one it says why it can never be stored, or what went wrong.
func (w *writer) applyRun(p *plan, muts []logical.Mutation) (n int, why string, err error) {
	if why := p.malformed(&muts[0]); why != "" {
		return 0, why, nil
	}
	s, err := w.shape(p, &muts[0])
	if err != nil || s.refuse != "" {
		return 0, s.refusal(), err
	}
	run := 1
	for run < len(muts) && muts[run].Relation == p.relation && p.malformed(&muts[run]) == "" && s.fits(&muts[run]) {
		run++
	}
	for s.rows > 1 && run-n >= s.rows {
		done, err := w.applyMany(p, s, muts[n:n+s.rows])
		if err != nil {
			return n, "", err
		}
		if !done {
			break
		}
		n += s.rows
	}
	for ; n < run; n++ {
		if why, err := w.applyOne(p, s, &muts[n]); why != "" || err != nil {
			return n, why, err
		}
	}
	return n, "", nil
}

// applyMany applies as many mutations as one statement takes. It does nothing, and returns false, if
// they have to be applied one by one to find what is wrong with one of them.
func (w *writer) applyMany(p *plan, s *shape, muts []logical.Mutation) (bool, error) {
	if s.many == nil {
		if err := w.prepareMany(p, s); err != nil {
			return false, err
		}
	}
	args, param := s.steps[0].args, 0
	for i := range muts {
		for n := range args {
			param++
			if why, err := w.bind(s.many, param, p, &args[n], &muts[i]); why != "" || err != nil {
				return false, err
			}
		}
	}
	err := s.many.Exec()
	if errors.Is(err, sqlite3.CONSTRAINT) {
		return false, nil
	}
	return err == nil, w.classify(err, muts[0].Op.String()+" "+p.table.name)
}

// applyOne applies a mutation, or says why it never can.
func (w *writer) applyOne(p *plan, s *shape, m *logical.Mutation) (why string, err error) {
	for i := range s.steps {
		st := &s.steps[i]
		if st.onlyIfNone && w.db.Changes() > 0 {
			break
		}
		for n := range st.args {
			if why, err := w.bind(st.stmt, n+1, p, &st.args[n], m); why != "" || err != nil {
				return why, err
			}
		}
		if err := st.stmt.Exec(); err != nil {
			return "", w.classify(err, m.Op.String()+" "+p.table.name)
		}
	}
	return "", nil
}

// bind puts the value of a parameter into a statement, or says why it cannot be stored.
func (w *writer) bind(stmt *sqlite3.Stmt, param int, p *plan, a *arg, m *logical.Mutation) (why string, err error) {
	if a.over {
		value := w.overflowCell(p, m)
		if value.form == 0 {
			return value.text, nil
		}
		return "", w.classify(value.bind(stmt, param), "bind")
	}
	c := &p.columns[a.column]
	if !a.isOld {
		// What most values of most columns are.
		switch v := &m.Values[a.column]; {
		case v.Kind() == logical.KindFloat64 && c.class == classFieldFloat && v.Float64() == v.Float64():
			return "", w.classify(stmt.BindFloat(param, v.Float64()), "bind")
		case v.Kind() == logical.KindInt64 && c.class == classFieldInt:
			return "", w.classify(stmt.BindInt64(param, v.Int64()), "bind")
		case v.Kind() == logical.KindText && c.class == classFieldString:
			return "", w.classify(stmt.BindText(param, v.Text()), "bind")
		}
	}
	value := p.argument(a, m, &w.scratch)
	if value.form == 0 {
		v := m.Values[a.column]
		if a.isOld {
			v = m.OldKey[a.old]
		}
		return p.describe(a.column, v) + value.text, nil
	}
	return "", w.classify(value.bind(stmt, param), "bind")
}

// argument returns the value of a parameter; its form is 0 if it cannot be stored.
func (p *plan) argument(a *arg, m *logical.Mutation, scratch *[]byte) cell {
	c := &p.columns[a.column]
	v := m.Values[a.column]
	if a.isOld {
		v = m.OldKey[a.old]
	}
	if c.fill && v.IsAbsent() {
		return textCell("")
	}
	if c.key && v.IsNull() {
		return refused("NULL cannot be a key in SQLite: it is equal to nothing")
	}
	return toCell(c.class, v, scratch)
}

// malformed says what is wrong with the mutation's form; "" if nothing is.
func (p *plan) malformed(m *logical.Mutation) string {
	switch {
	case p.refuse != "":
		return p.refuse
	case p.shared && m.Op == logical.OpTruncate:
		return "it would empty the table of all measurements that have none of their own"
	case m.Op == logical.OpTruncate:
		return ""
	case len(m.Values) != len(p.columns):
		return fmt.Sprintf("it has %d values for %d columns", len(m.Values), len(p.columns))
	case m.Op == logical.OpRekey && len(m.OldKey) != len(p.keys):
		return fmt.Sprintf("its old key has %d values for %d key columns", len(m.OldKey), len(p.keys))
	}
	return ""
}

// refuses says why the mutation can never be stored; "" if it can.
func (w *writer) refuses(p *plan, m *logical.Mutation) string {
	if why := p.malformed(m); why != "" {
		return why
	}
	s, err := w.shape(p, m)
	if err != nil || s.refuse != "" {
		return s.refusal()
	}
	for i := range s.steps {
		for n := range s.steps[i].args {
			a := &s.steps[i].args[n]
			c := cell{}
			if a.over {
				c = w.overflowCell(p, m)
			} else {
				c = p.argument(a, m, &w.scratch)
			}
			if c.form == 0 {
				return c.text
			}
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
		if why := w.refuses(p, &muts[j]); why != "" {
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
