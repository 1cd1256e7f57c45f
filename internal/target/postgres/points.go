package postgres

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/overflow"
	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

const (
	timeColumn   = "time"
	nanosColumn  = "nanos"
	seriesColumn = "series"
)

// columnSpace is the namespace of a table of points.
func columnSpace() *ident.Space {
	return ident.NewSpace(nameRules(), append(systemColumns(), timeColumn, nanosColumn, seriesColumn)...)
}

// systemColumns are those that every table of PostgreSQL or CockroachDB has besides its own.
func systemColumns() []string {
	return []string{"tableoid", "ctid", "xmin", "xmax", "cmin", "cmax", "crdb_internal_mvcc_timestamp", "crdb_internal_origin_id", "crdb_internal_origin_timestamp"}
}

// A record is what the staging tables say about a column: which name of the source it stands for.
type record struct {
	role, name   string
	target, kind string
}

func (r record) key() string { return r.role + "\x00" + r.name }

func roleName(role logical.Role) string {
	if role == logical.RoleTag {
		return "tag"
	}
	return "field"
}

func recordKey(c *logical.Column) string { return roleName(c.Role) + "\x00" + c.Name }

// planPoints plans for a measurement, if its table is there and has all columns.
func (t *Target) planPoints(ctx context.Context, q querier, rel *logical.Relation) (*plan, error) {
	tab, err := t.pointsTable(ctx, q, rel)
	if err != nil {
		return nil, err
	}
	if tab == nil {
		if full, err := t.tablesFull(ctx, q, rel); err != nil || !full {
			return nil, cmp.Or(err, errNeedsDDL)
		}
		return t.planShared(ctx, q, rel)
	}
	if !tab.ours {
		return t.planForeignPoints(rel, t.catalog.share(tab))
	}
	if err = t.readRecords(ctx, q, tab); err != nil {
		return nil, err
	}
	p := newPlan(rel, t.catalog.share(tab))
	keys := map[int]int{}
	for i := range rel.Columns {
		c := &rel.Columns[i]
		if c.Role == logical.RoleTime || c.Role == logical.RoleSeries {
			if err := p.placeKey(i, keys); err != nil {
				return nil, err
			}
			continue
		}
		r, known := tab.records[recordKey(c)]
		if !known {
			if tab.width() < t.cfg.MaxColumns || adoptable(tab, c) || tab.overflow < 0 {
				return nil, errNeedsDDL
			}
			p.over = append(p.over, i)
			continue
		}
		at, _ := p.table.column(r.target)
		p.sources[at] = source{column: i, wire: p.table.columns[at].wire, tag: c.Role == logical.RoleTag, field: kindNamed(r.kind)}
	}
	p.placeOverflow()
	return p, p.setKeys(keys)
}

// placeKey says where the time and the series of a table of ours go.
func (p *plan) placeKey(i int, keys map[int]int) error {
	names := []string{seriesColumn}
	if p.relation.Columns[i].Role == logical.RoleTime {
		names = []string{timeColumn, nanosColumn}
	}
	for _, name := range names {
		at, ok := p.table.column(name)
		if !ok {
			return retry(errors.Errorf("postgres: table %s has lost its column %q", p.table.name.quoted(), name), "rename the table, so that a new one is made")
		}
		p.sources[at] = source{column: i, wire: p.table.columns[at].wire, nanos: name == nanosColumn}
		keys[at] = i
	}
	return nil
}

// pointsTable finds the table of a measurement: the one that Tailrace made for it, or one that
// somebody else made by its name.
func (t *Target) pointsTable(ctx context.Context, q querier, rel *logical.Relation) (*table, error) {
	var name tableName
	err := q.QueryRow(ctx, "SELECT target_schema, target FROM "+t.staging+"tables WHERE schema_name = $1 AND name = $2",
		[]byte(t.schemaOf(rel)), []byte(rel.Name)).Scan(&name.schema, &name.name)
	if err == nil {
		return t.readTable(ctx, q, name)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	if strings.ContainsRune(rel.Name, 0) || rel.Name != strings.ToValidUTF8(rel.Name, "") {
		return nil, nil // no table can have that name
	}
	tab, err := t.readTable(ctx, q, tableName{t.schemaOf(rel), rel.Name})
	if tab == nil || tab.ours {
		return nil, err // another measurement's is not ours to use
	}
	return tab, err
}

// readRecords reads what the staging tables say about a table's columns. Columns that somebody has
// dropped are left out, and are made again.
func (t *Target) readRecords(ctx context.Context, q querier, tab *table) error {
	rows, err := q.Query(ctx, "SELECT role, name, target, kind FROM "+t.staging+"columns WHERE target_schema = $1 AND target_table = $2",
		tab.name.schema, tab.name.name)
	if err != nil {
		return err
	}
	defer rows.Close()
	tab.records = map[string]record{}
	for rows.Next() {
		var r record
		var name []byte
		if err := rows.Scan(&r.role, &name, &r.target, &r.kind); err != nil {
			return err
		}
		r.name = string(name)
		if at, ok := tab.column(r.target); ok {
			tab.records[r.key()] = r
			if r.role == overflow.Role {
				tab.overflow = at
			}
		}
	}
	return rows.Err()
}

// adoptable reports whether somebody else has added the very column that is needed.
func adoptable(tab *table, c *logical.Column) bool {
	at, ok := tab.column(c.Name)
	if !ok || tab.columns[at].generated || slices.Contains([]string{timeColumn, nanosColumn, seriesColumn}, c.Name) {
		return false
	}
	for _, r := range tab.records {
		if r.target == c.Name {
			return false
		}
	}
	return true
}

// kindNamed is the reverse of Kind.String; KindAbsent if there is none of the name.
func kindNamed(name string) logical.Kind {
	for k := logical.KindNull; k <= logical.KindJSON; k++ {
		if k.String() == name {
			return k
		}
	}
	return logical.KindAbsent
}

// columnKind returns the kind of values that a column of ours is made for.
func columnKind(c *logical.Column) logical.Kind {
	if c.Role == logical.RoleTag {
		return logical.KindText
	}
	return c.Kind
}

// declaredType returns the type of a column of ours.
func declaredType(c *logical.Column) string {
	switch columnKind(c) {
	case logical.KindFloat64:
		return "double precision"
	case logical.KindInt64:
		return "bigint"
	case logical.KindUint64:
		return "numeric(20,0)"
	case logical.KindBool:
		return "boolean"
	case logical.KindDecimal:
		return "numeric"
	case logical.KindTime:
		return "timestamptz"
	case logical.KindBytes:
		return "bytea"
	case logical.KindUUID:
		return "uuid"
	case logical.KindJSON:
		return "jsonb"
	}
	return "text"
}
