// Package memory opens a target that keeps everything in memory: for tests, examples, and for looking at
// what a dialect does before it is given a database. What it holds ends with the process.
//
// It behaves as the other targets do: transactions are atomic, the consistent point is stored with the
// data, leases and epochs keep others out. Tables need not be made.
package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A Target is a database in memory. Its methods may be called concurrently.
type Target struct {
	inner *memory.Target
}

var (
	_ logical.Target      = (*Target)(nil)
	_ logical.DeadLetters = (*Target)(nil)
)

// Open returns an empty target.
func Open() *Target { return &Target{inner: memory.Open(memory.Config{})} }

// Rows returns what is committed of a table, which is named as [logical.Relation.String] names it, in the
// order of the keys' encodings. Columns that are null or have no value are left out.
func (t *Target) Rows(table string) []map[string]logical.Value {
	tab := t.inner.Snapshot().Tables[table]
	rows := make([]map[string]logical.Value, 0, len(tab.Rows))
	for _, key := range slices.Sorted(maps.Keys(tab.Rows)) {
		row := map[string]logical.Value{}
		for i, v := range tab.Rows[key] {
			if !v.IsNull() && !v.IsAbsent() {
				row[tab.Columns[i].Name] = v
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// Memo returns what is stored of a loop's progress, which is named by its identity.
func (t *Target) Memo(loop string) logical.MemoState { return t.inner.Snapshot().Memos[loop] }

// Traits implements [logical.Target].
func (t *Target) Traits() logical.Traits { return t.inner.Traits() }

// Take implements [logical.Target].
func (t *Target) Take(ctx context.Context, claim logical.Claim) (logical.Session, error) {
	return t.inner.Take(ctx, claim)
}

// Close implements [logical.Target].
func (t *Target) Close() error { return t.inner.Close() }

// ListDeadLetters implements [logical.DeadLetters].
func (t *Target) ListDeadLetters(ctx context.Context, loop string, after int64, limit int) ([]logical.DeadLetter, error) {
	return t.inner.ListDeadLetters(ctx, loop, after, limit)
}

// CountDeadLetters implements [logical.DeadLetters].
func (t *Target) CountDeadLetters(ctx context.Context, loop string) (n, bytes int64, err error) {
	return t.inner.CountDeadLetters(ctx, loop)
}

// DiscardDeadLetters implements [logical.DeadLetters].
func (t *Target) DiscardDeadLetters(ctx context.Context, loop string, ids []int64) error {
	return t.inner.DiscardDeadLetters(ctx, loop, ids)
}
