package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An Op says what a Change does.
type Op string

// The operations.
const (
	Upsert   Op = "upsert"   // insert or update the row
	Patch    Op = "patch"    // update some columns, or insert a point
	Delete   Op = "delete"   // remove the row
	Replace  Op = "replace"  // remove the row, and insert it anew
	Rekey    Op = "rekey"    // give the row another key, and update some columns
	Truncate Op = "truncate" // remove all rows of the table
)

// Null is the value of a column that is set to null.
const Null = "\x00null"

// A Change is one change that a source said, or what a target was given.
type Change struct {
	Op    Op
	Table string
	// Key is the row's; for Rekey the new one, and OldKey the one before.
	Key, OldKey string
	// Points says that a patch of a row that does not exist inserts it.
	Points bool
	// Set are the columns that are carried, without those of the key.
	Set Row
	// Number tells which of the source's changes it is, or the last of those that it was made from.
	Number int64
}

func (c *Change) String() string {
	var set []string
	for _, name := range slices.Sorted(maps.Keys(c.Set)) {
		value := c.Set[name]
		if value == Null {
			value = "null"
		}
		set = append(set, name+"="+value)
	}
	key := c.Key
	if c.Op == Rekey {
		key = c.OldKey + "→" + key
	}
	return fmt.Sprintf("#%d %s %s/%s {%s}", c.Number, c.Op, c.Table, key, strings.Join(set, " "))
}

// A Row is the values of a row by column, without those that are null. A row that does not exist is
// nil.
type Row map[string]string

// Rows are the rows of all tables, by table and key as ID returns them.
type Rows map[string]Row

// ID names a row of a table.
func ID(table, key string) string { return table + "/" + key }

func (c *Change) id() string    { return ID(c.Table, c.Key) }
func (c *Change) oldID() string { return ID(c.Table, c.OldKey) }

func (c *Change) barrier() bool { return c.Op == Truncate || c.Op == Rekey }

// after returns the row after a change of it.
func (r Row) after(c *Change) Row {
	switch {
	case c.Op == Delete:
		return nil
	case c.Op == Patch && r == nil && !c.Points:
		return nil
	case c.Op == Replace || r == nil:
		r = Row{}
	default:
		r = maps.Clone(r)
	}
	for name, value := range c.Set {
		if value == Null {
			delete(r, name)
		} else {
			r[name] = value
		}
	}
	return r
}

// Apply changes the rows as one change says.
func (rows Rows) Apply(c *Change) {
	switch c.Op {
	case Truncate:
		maps.DeleteFunc(rows, func(id string, _ Row) bool { return strings.HasPrefix(id, c.Table+"/") })
		return
	case Rekey:
		moved := rows[c.oldID()]
		if moved == nil { // it has moved already, before a crash
			moved = rows[c.id()]
		}
		delete(rows, c.oldID())
		rows[c.id()] = moved
		patch := *c
		patch.Op = Patch
		c = &patch
	}
	rows.put(c.id(), rows[c.id()].after(c))
}

func (rows Rows) put(id string, r Row) {
	if r == nil {
		delete(rows, id)
	} else {
		rows[id] = r
	}
}

// equal compares row by row.
func (rows Rows) equal(other Rows) bool {
	return maps.EqualFunc(rows, other, func(a, b Row) bool { return maps.Equal(a, b) })
}

// diff tells where two states differ.
func (rows Rows) diff(want Rows) string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if w, ok := want[id]; !ok || !maps.Equal(w, rows[id]) {
			out = append(out, fmt.Sprintf("%s is %v, not %v", id, rows[id], w))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if _, ok := rows[id]; !ok {
			out = append(out, fmt.Sprintf("%s is missing, it is %v", id, want[id]))
		}
	}
	return strings.Join(out, "; ")
}
