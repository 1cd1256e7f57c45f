package postgres

import (
	"context"
	"slices"

	"github.com/tailrace-cdc/tailrace/logical"
)

// An action is what a foreign key of another table, or of the same, does to the rows that refer to one of this
// table: CASCADE, SET NULL or SET DEFAULT.
type action struct {
	onDelete bool
	onUpdate bool
	columns  []string // that are referred to
}

func (a action) same(o action) bool {
	return a.onDelete == o.onDelete && a.onUpdate == o.onUpdate && slices.Equal(a.columns, o.columns)
}

// readActions reads them from the system's catalog. Those of partitions are the partitioned table's too.
func readActions(ctx context.Context, q querier, tab *table) error {
	if !tab.foreign {
		return nil
	}
	rows, err := q.Query(ctx, `SELECT f.confdeltype IN ('c', 'n', 'd'), f.confupdtype IN ('c', 'n', 'd'),
	ARRAY(SELECT a.attname::text FROM pg_attribute AS a WHERE a.attrelid = f.confrelid AND a.attnum = ANY (f.confkey) ORDER BY a.attnum)
FROM pg_constraint AS f WHERE f.contype = 'f' AND f.confrelid = $1
AND (f.confdeltype IN ('c', 'n', 'd') OR f.confupdtype IN ('c', 'n', 'd')) ORDER BY f.oid`, tab.oid)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var a action
		if err := rows.Scan(&a.onDelete, &a.onUpdate, &a.columns); err != nil {
			return err
		}
		tab.actions = append(tab.actions, a)
	}
	return rows.Err()
}

// reaches reports whether an operation may change rows that refer to its own: in the order of the source alone it
// changes the right ones (ORDER).
func (p *plan) reaches(op logical.Op) bool {
	if p.table == nil {
		return false
	}
	return slices.ContainsFunc(p.table.actions, func(a action) bool {
		switch op {
		case logical.OpDelete:
			return a.onDelete
		case logical.OpReplace, logical.OpRekey, logical.OpTruncate:
			return true
		}
		// The key stays; another column that is referred to may change.
		return a.onUpdate && slices.ContainsFunc(a.columns, func(name string) bool {
			at, ok := p.table.column(name)
			return ok && !p.isKey(at)
		})
	})
}

var _ logical.Reacher = (*session)(nil)

// Reaches reports whether a mutation may change rows that refer to its own.
func (s *session) Reaches(ctx context.Context, m *logical.Mutation) bool {
	if m.Relation.Points {
		return false
	}
	p, err := s.t.plan(ctx, m.Relation)
	return err != nil || p.reaches(m.Op)
}
