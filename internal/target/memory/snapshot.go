package memory

import (
	"maps"
	"slices"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A Snapshot is what a reader sees who reads all tables in one transaction. It does not change.
type Snapshot struct {
	// Tables by qualified name.
	Tables map[string]Table
	// Memos by the name of the loop.
	Memos map[string]logical.MemoState
}

// A Table of a Snapshot.
type Table struct {
	// Columns of the table, in the order of the rows' values.
	Columns []logical.Column
	// Rows by the encoding of their key, as [logical.Mutation.AppendKey] makes it. A row may be
	// shorter than Columns; what it lacks, and what is absent in it, is the column's default.
	Rows map[string][]logical.Value
	// Raw holds the mutations that carried no values, in the order in which they were committed.
	Raw [][]byte
}

// Value returns a row's value of the named column, and null where it has none. Where a tag and a
// field have one name, it returns that of the one that came first.
func (t Table) Value(row []logical.Value, column string) logical.Value {
	for i, c := range t.Columns {
		if c.Name == column && i < len(row) && !row[i].IsAbsent() {
			return row[i]
		}
	}
	return logical.Null()
}

// Snapshot returns what is committed now.
func (t *Target) Snapshot() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Snapshot{Tables: map[string]Table{}, Memos: map[string]logical.MemoState{}}
	for name, tab := range t.tables {
		s.Tables[name] = Table{
			Columns: slices.Clone(tab.columns),
			Rows:    maps.Clone(tab.rows),
			Raw:     slices.Clone(tab.raw),
		}
	}
	for name, l := range t.loops {
		s.Memos[name] = cloneMemo(l.memo)
	}
	return s
}

// History returns, with Config.Record, what has been applied to the row of m, in order: once for
// each time that a transaction with it was committed.
func (t *Target) History(m *logical.Mutation) []logical.Mutation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.history[string(m.AppendKey(nil))])
}

// Open returns how many transactions have begun and not ended. A test that is over has none.
func (t *Target) Open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, l := range t.loops {
		n += len(l.open)
	}
	return n
}
