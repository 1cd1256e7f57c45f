package postgres

import (
	"context"
	"strconv"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// barrier adds the statements of a truncate or of the change of a key.
func (x *tx) barrier(muts []logical.Mutation, i int) {
	p, m := x.w.plans[i], &muts[i]
	if m.Op == logical.OpTruncate {
		g := p.groupSQL(verbTruncate, nil)
		x.w.add(statement{sql: g.sql, what: verbTruncate.String() + " " + p.table.quoted, table: p.table, mutation: i + 1, call: x.calls})
		return
	}
	mask := make([]byte, len(p.sources))
	whole := true
	for at := range p.sources {
		s := &p.sources[at]
		if s.column >= 0 {
			if m.Values[s.column].IsAbsent() {
				whole = false
				continue
			}
			mask[at] = byte(s.wire) + 1
		}
	}
	// A row that is no longer there under its old key has been moved before, and takes what is
	// carried. One that is there may have come back, and replaces the one that it was moved to before.
	late := verbLateSet
	if whole {
		late = verbLateAdd
	}
	for _, v := range []verb{late, verbFree, verbMove} {
		x.rekeyStep(p, m, i, v, mask)
	}
}

func (x *tx) rekeyStep(p *plan, m *logical.Mutation, i int, v verb, mask []byte) {
	w := x.w
	g := p.groupSQL(v, mask)
	if g.sql == "" {
		return
	}
	s := statement{sql: g.sql, what: v.String() + " " + p.table.quoted, table: p.table, mutation: i + 1, call: x.calls}
	element := func(at int, v logical.Value) {
		from := len(w.arena)
		w.arena = appendArrayHead(w.arena, p.sources[at].wire, 1)
		if v.IsNull() {
			w.arena[from+7] = 1
			w.arena = appendNull(w.arena)
		} else {
			w.arena = appendValue(w.arena, &p.table.columns[at], &p.sources[at], v)
		}
		s.params = append(s.params, span{from, len(w.arena)})
	}
	for _, at := range g.columns {
		element(at, m.Values[p.sources[at].column])
	}
	for _, at := range g.old {
		element(at, p.oldValue(m, at))
	}
	w.add(s)
}

// oldValue returns the value that a column of the key had.
func (p *plan) oldValue(m *logical.Mutation, at int) logical.Value {
	n := 0
	for i := range p.relation.Columns {
		if i == p.sources[at].column {
			return m.OldKey[n]
		}
		if p.relation.Columns[i].Key {
			n++
		}
	}
	return logical.Null()
}

// guarded applies mutations put together, behind a savepoint. If that fails in a way that may come of
// their order, they are applied one by one, as they came.
func (x *tx) guarded(ctx context.Context, muts []logical.Mutation, from, to int) error {
	w := x.w
	x.guard = true
	defer func() { x.guard = false }()
	copied, temps := len(x.copied), len(x.temps)
	w.add(statement{sql: "SAVEPOINT tailrace", what: "savepoint", guards: true})
	err := x.together(ctx, muts, from, to)
	if err == nil {
		w.add(statement{sql: "RELEASE SAVEPOINT tailrace", what: "savepoint"})
		err = x.flush(ctx)
	}
	var failed *guardedError
	if err == nil || !errors.As(err, &failed) {
		return err
	}
	x.guard = false
	x.w.sent()
	w.add(statement{sql: "ROLLBACK TO SAVEPOINT tailrace", what: "savepoint"})
	// With the savepoint go the locks that were taken behind it, and the temporary tables.
	x.copied, x.temps = x.copied[:copied], x.temps[:temps]
	for i := from; i < to; i++ {
		if err := x.together(ctx, muts, i, i+1); err != nil {
			return err
		}
		if w.size() >= deferBytes {
			if err := x.flush(ctx); err != nil {
				return err
			}
		}
	}
	w.add(statement{sql: "RELEASE SAVEPOINT tailrace", what: "savepoint"})
	return x.flush(ctx)
}

// A guardedError is one after which the transaction can go on at its savepoint.
type guardedError struct{ error }

func (e *guardedError) Unwrap() error { return e.error }

// orderMatters reports whether a statement may succeed when its mutations are applied one by one.
func orderMatters(code string) bool {
	switch code {
	case "21000", "23505", "23503", "23P01":
		return true
	}
	return false
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
