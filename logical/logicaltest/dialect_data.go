package logicaltest

import (
	"fmt"
	"strings"

	"github.com/tailrace-cdc/tailrace/logical"
)

// wellFormed looks at each mutation by itself, and at the relations.
func (r *reading) wellFormed() {
	shapes := map[string]*logical.Relation{}
	for _, x := range r.whole() {
		for i := range x.muts {
			m := &x.muts[i]
			if m.Relation == nil {
				r.Fatalf("%s: a mutation without a relation", x.stored)
			}
			if what := malformed(m); what != "" {
				r.Errorf("%s: %s: %s", x.stored, tellMutation(m), what)
			}
			shape := fmt.Sprintf("%+v", *m.Relation)
			if known := shapes[shape]; known == nil {
				shapes[shape] = m.Relation
			} else if known != m.Relation {
				r.Errorf("%s has a new Relation for a shape that had one: a target plans anew for each", m.Relation)
			}
		}
	}
}

// malformed says what is wrong with a mutation, or nothing.
func malformed(m *logical.Mutation) string {
	columns := m.Relation.Columns
	switch {
	case m.Op < logical.OpUpsert || strings.HasPrefix(m.Op.String(), "op("):
		return "an operation that does not exist"
	case m.Relation.Name == "":
		return "a relation without a name"
	case m.Op == logical.OpTruncate && m.Values != nil:
		return "a truncate with values"
	case m.Values == nil && m.Op != logical.OpTruncate && m.Raw == nil:
		return "neither values nor raw"
	case m.Values == nil:
		return ""
	case len(m.Values) != len(columns):
		return fmt.Sprintf("%d values for %d columns", len(m.Values), len(columns))
	case m.Op == logical.OpRekey && len(m.OldKey) != len(m.Relation.KeyColumns()):
		return fmt.Sprintf("%d values of the old key for %d key columns", len(m.OldKey), len(m.Relation.KeyColumns()))
	case m.Op != logical.OpRekey && m.OldKey != nil:
		return "an old key although the key does not change"
	case len(m.Relation.KeyColumns()) == 0:
		return "a relation without a key"
	}
	for i, v := range m.Values {
		c := columns[i]
		switch {
		case c.Key && (v.IsAbsent() || v.IsNull()):
			return "no value of the key column " + c.Name
		case m.Op == logical.OpUpsert && v.IsAbsent():
			return "an upsert carries the whole row, and has nothing for " + c.Name
		case !v.IsAbsent() && !v.IsNull() && v.Kind() != c.Kind:
			return fmt.Sprintf("the column %s is declared as %s and has a %s", c.Name, c.Kind, v.Kind())
		}
	}
	return ""
}

// ownership: what the mutations point to is not changed after OnData.
func (r *reading) ownership() {
	for _, x := range r.whole() {
		for i := range x.muts {
			if now := tellMutation(&x.muts[i]); now != x.texts[i] {
				r.Errorf("what was handed over as\n  %s\nhas become\n  %s", x.texts[i], now)
				return
			}
		}
	}
}
