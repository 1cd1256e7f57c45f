package logicaltest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A model is what a target should hold, kept in the plainest way: rows by the text of their keys.
type (
	model      map[string]tableModel // by table
	tableModel map[string]Row        // by key
)

// apply changes the model as one mutation says.
func (m model) apply(mut *logical.Mutation) {
	rel := mut.Relation
	table := m[rel.Name]
	if table == nil {
		table = tableModel{}
		m[rel.Name] = table
	}
	if mut.Op == logical.OpTruncate {
		clear(table)
		return
	}
	key := keyText(rel, mut.Values)
	row, exists := table[key]
	switch mut.Op {
	case logical.OpDelete:
		delete(table, key)
	case logical.OpUpsert:
		if !exists {
			row = Row{}
		}
		table[key] = row.with(rel, mut.Values)
	case logical.OpFill:
		late := Row{}.with(rel, mut.Values)
		for name, value := range row {
			late[name] = value
		}
		table[key] = late
	case logical.OpReplace:
		table[key] = Row{}.with(rel, mut.Values)
	case logical.OpPatch:
		if exists || rel.Points {
			if !exists {
				row = Row{}
			}
			table[key] = row.with(rel, mut.Values)
		}
	case logical.OpRekey:
		m.rekey(table, mut, key)
	}
}

// find returns the row of a time.
func (t tableModel) find(time string) Row {
	for _, row := range t {
		if row["time"] == time {
			return row
		}
	}
	return nil
}

// rekey moves a row. One that is not there any more has been moved before, and takes what is carried.
func (m model) rekey(table tableModel, mut *logical.Mutation, key string) {
	rel := mut.Relation
	var old []string
	for _, v := range mut.OldKey {
		old = append(old, v.Kind().String()+valueText(v))
	}
	oldKey := strings.Join(old, "\x00")
	moved, exists := table[oldKey]
	if !exists {
		there, ok := table[key]
		whole := !slices.ContainsFunc(mut.Values, logical.Value.IsAbsent)
		if ok || whole {
			if !ok {
				there = Row{}
			}
			table[key] = there.with(rel, mut.Values)
		}
		return
	}
	delete(table, oldKey)
	table[key] = moved.with(rel, mut.Values)
}

// with returns a copy of the row with the values that are not absent.
func (r Row) with(rel *logical.Relation, values []logical.Value) Row {
	row := maps.Clone(r)
	for i, v := range values {
		switch v.Kind() {
		case logical.KindAbsent:
		case logical.KindNull:
			delete(row, rel.Columns[i].Name)
		default:
			row[rel.Columns[i].Name] = Text(v)
		}
	}
	return row
}

func keyText(rel *logical.Relation, values []logical.Value) string {
	var parts []string
	for i, v := range values {
		if rel.Columns[i].Key {
			parts = append(parts, v.Kind().String()+valueText(v))
		}
	}
	return strings.Join(parts, "\x00")
}

func valueText(v logical.Value) string {
	if v.IsNull() || v.IsAbsent() {
		return ""
	}
	return Text(v)
}

// check compares a table with the model.
func (s *suite) check(t testing.TB, target logical.Target, m model, rel *logical.Relation) {
	t.Helper()
	got := map[string]int{}
	for _, row := range s.opts.Read(t, target, rel) {
		got[row.String()]++
	}
	want := map[string]int{}
	for _, row := range m[rel.Name] {
		want[row.String()]++
	}
	if maps.Equal(got, want) {
		return
	}
	var diff []string
	for row, n := range got {
		if n != want[row] {
			diff = append(diff, fmt.Sprintf("  %s: %d in the target, %d in the model", row, n, want[row]))
		}
	}
	for row, n := range want {
		if got[row] == 0 {
			diff = append(diff, fmt.Sprintf("  %s: missing in the target, %d in the model", row, n))
		}
	}
	slices.Sort(diff)
	t.Fatalf("table %s differs in %d rows:\n%s", rel.Name, len(diff), strings.Join(diff[:min(20, len(diff))], "\n"))
}

// String returns the row's columns in the order of their names.
func (r Row) String() string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(r)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%q", name, r[name])
	}
	return b.String()
}
