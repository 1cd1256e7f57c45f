package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/overflow"
	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// width returns how many columns a table of ours has that count against the limit.
func (t *table) width() int {
	if t.overflow >= 0 {
		return len(t.columns) - 1
	}
	return len(t.columns)
}

// placeOverflow says where the values go that have no column of their own.
func (p *plan) placeOverflow() {
	if len(p.over) > 0 {
		p.sources[p.table.overflow] = source{column: fromOver, wire: p.table.columns[p.table.overflow].wire}
	}
}

// overflows returns how many values of a mutation have no column of their own.
func (p *plan) overflows(m *logical.Mutation) (n int) {
	if m.Op == logical.OpDelete || m.Op == logical.OpTruncate {
		return 0
	}
	for _, i := range p.over {
		if !m.Values[i].IsAbsent() {
			n++
		}
	}
	return n
}

// refusesOverflow says why a value that has no column of its own cannot be stored; "" if all can.
func (p *plan) refusesOverflow(m *logical.Mutation) string {
	if p.shared && m.Op == logical.OpTruncate {
		return "it would empty the table of all measurements that have none of their own"
	}
	if m.Op == logical.OpDelete || m.Op == logical.OpTruncate {
		return ""
	}
	for _, i := range p.over {
		if why := overflow.Refuses(&p.relation.Columns[i], m.Values[i]); why != "" && !m.Values[i].IsAbsent() {
			return p.describe(i, "", m.Values[i]) + why
		}
	}
	return ""
}

// appendOverflow appends the overflow column of an entry as an element of an array: the members that its
// mutations carry, the last of each counting.
func (b *batch) appendOverflow(dst []byte, w *work, muts []logical.Mutation, e *entry) []byte {
	w.object.Reset()
	for i := e.last; i >= 0; i = b.prev[i] {
		if muts[i].Op == logical.OpDelete {
			continue
		}
		p := w.plans[i]
		for _, c := range p.over {
			if v := muts[i].Values[c]; !v.IsAbsent() {
				w.object.Add(&p.relation.Columns[c], v)
			}
		}
	}
	if w.object.Empty() {
		return appendNull(dst)
	}
	return appendValue(dst, &b.table.columns[b.table.overflow], &source{wire: b.table.columns[b.table.overflow].wire}, logical.JSON(string(w.object.JSON())))
}

// tablesFull reports whether the schema has as many tables of ours as are allowed.
func (t *Target) tablesFull(ctx context.Context, q querier, rel *logical.Relation) (bool, error) {
	var n int
	err := q.QueryRow(ctx, "SELECT count(*) FROM "+t.staging+"tables WHERE target_schema = $1 AND name <> $2", t.schemaOf(rel), []byte(overflow.TableKey)).Scan(&n)
	return n >= t.cfg.MaxTables, err
}

// sharedTable finds the table of the measurements of a schema that have none of their own.
func (t *Target) sharedTable(ctx context.Context, q querier, rel *logical.Relation) (*table, error) {
	var name tableName
	err := q.QueryRow(ctx, "SELECT target_schema, target FROM "+t.staging+"tables WHERE schema_name = $1 AND name = $2",
		[]byte(t.schemaOf(rel)), []byte(overflow.TableKey)).Scan(&name.schema, &name.name)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tab, err := t.readTable(ctx, q, name)
	if tab == nil || err != nil {
		return nil, err
	}
	return tab, t.readRecords(ctx, q, tab)
}

// planShared plans for a measurement that has no table of its own.
func (t *Target) planShared(ctx context.Context, q querier, rel *logical.Relation) (*plan, error) {
	tab, err := t.sharedTable(ctx, q, rel)
	if err != nil {
		return nil, err
	}
	if tab == nil || tab.overflow < 0 {
		return nil, errNeedsDDL
	}
	p := newPlan(rel, t.catalog.share(tab))
	p.shared = true
	keys := map[int]int{}
	for i := range rel.Columns {
		if role := rel.Columns[i].Role; role == logical.RoleTime || role == logical.RoleSeries {
			if err := p.placeKey(i, keys); err != nil {
				return nil, err
			}
			continue
		}
		p.over = append(p.over, i)
	}
	at, ok := p.table.column(overflow.MeasurementColumn)
	if !ok {
		return nil, retry(errors.Errorf("postgres: table %s has lost its column %q", tab.name.quoted(), overflow.MeasurementColumn), "rename the table, so that a new one is made")
	}
	p.sources[at] = source{column: fromName, wire: wireText}
	keys[at] = fromName
	if overflow.Refuses(&logical.Column{Name: rel.Name}, logical.Null()) != "" {
		p.refuse = "the measurement would need a table, there are as many as are allowed, and its name is not UTF-8 or has a NUL"
	}
	p.placeOverflow()
	return p, p.setKeys(keys)
}

// makeShared makes the table of the measurements of a schema that have none of their own.
func (t *Target) makeShared(ctx context.Context, tx pgx.Tx, rel *logical.Relation) error {
	if tab, err := t.sharedTable(ctx, tx, rel); err != nil || tab != nil && tab.overflow >= 0 {
		return err
	}
	name, err := t.makeTable(ctx, tx, newTable{
		schema: t.schemaOf(rel), source: overflow.TableKey, name: overflow.Table, suffix: overflow.TableSuffix,
		columns: []string{ident.Quote(overflow.MeasurementColumn) + " text NOT NULL", ident.Quote(overflow.Column) + " jsonb"},
		key:     []string{overflow.MeasurementColumn},
	})
	if err != nil {
		return err
	}
	t.cfg.Logger.Warn("postgres: there are as many tables as are allowed: other measurements share one", "tables", t.cfg.MaxTables, "table", name.quoted())
	return t.remember(ctx, tx, name, []record{{role: overflow.Role, target: overflow.Column, kind: logical.KindJSON.String()}})
}
