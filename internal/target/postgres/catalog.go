package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// maxPlans bounds the relations that are remembered. Beyond it all are forgotten and looked up again.
const maxPlans = 4096

// A catalog remembers tables and what was planned by them, for all loops of the target.
type catalog struct {
	mu     sync.RWMutex
	tables map[tableName]*table
	plans  map[*logical.Relation]*plan

	changes atomic.Int64 // of tables that were known
}

type tableName struct{ schema, name string }

func (n tableName) quoted() string { return ident.Quote(n.schema) + "." + ident.Quote(n.name) }

func newCatalog() *catalog {
	c := &catalog{}
	c.forget()
	return c
}

// forget makes everything be read again.
func (c *catalog) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tables = map[tableName]*table{}
	c.plans = map[*logical.Relation]*plan{}
	c.changes.Add(1)
}

func (c *catalog) plan(rel *logical.Relation) *plan {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.plans[rel]
}

// keep remembers a plan. Plans share a table as long as it is the same; the newer one counts if not.
func (c *catalog) keep(p *plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.plans) >= maxPlans {
		c.plans = map[*logical.Relation]*plan{}
	}
	if p.table == nil || c.tables[p.table.name] == p.table { // otherwise somebody has read a newer one meanwhile
		c.plans[p.relation] = p
	}
}

// share returns the table that is known by the name of t if it is the same, and otherwise makes t
// the one that is known.
func (c *catalog) share(t *table) *table {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.tables[t.name]; known != nil && known.same(t) {
		return known
	}
	if c.tables[t.name] != nil {
		c.changes.Add(1)
	}
	c.tables[t.name] = t
	for rel, p := range c.plans {
		if p.table != nil && p.table.name == t.name {
			delete(c.plans, rel)
		}
	}
	return t
}

// A table is one that exists in the database.
type table struct {
	name    tableName
	quoted  string // the name, for SQL
	oid     uint32
	ours    bool // made by Tailrace
	columns []column
	uniques [][]int // sets of columns that are unique, each ascending, the primary key first
	// risky says that the order of mutations of different keys may matter, or that keys may be equal
	// although their bytes differ; then a batch that fails is applied one by one.
	risky bool
	// copyable says that COPY may write to it directly.
	copyable bool
	foreign  bool // it takes part in foreign keys
	actions  []action
	always   bool // it has a column that is GENERATED ALWAYS AS IDENTITY

	records  map[string]record // of columns, if it is ours
	overflow int               // the column for values that have none of their own; -1 if there is none

	columnNames string // of all columns, as a text[]; see beforeCopy
	columnTypes string // the same with their types
	sqls        *sqls  // of all tables of the target
	copies      copyState
	warned      atomic.Bool // of collisions
	doubted     time.Time   // when it was read again in doubt; guarded by the catalog's mu
	ignored     sync.Map    // names of columns that are left out, and were named
}

type column struct {
	name       string
	typeOID    uint32 // of the base type, for a domain
	typeName   string // for messages
	castName   string // the same in the server's own words: "character" would cut to one
	wire       wire
	maxChars   int // of varchar(n); 0 if there is no limit
	notNull    bool
	hasDefault bool
	emptyText  bool // the default is ''
	generated  bool
	identity   bool // GENERATED ALWAYS AS IDENTITY
	inexact    bool // equal values may differ in their bytes
}

func (t *table) column(name string) (int, bool) {
	i := slices.IndexFunc(t.columns, func(c column) bool { return c.name == name })
	return i, i >= 0
}

func (t *table) unique(columns []int) bool {
	sorted := slices.Sorted(slices.Values(columns))
	return slices.ContainsFunc(t.uniques, func(u []int) bool { return slices.Equal(u, sorted) })
}

// same reports whether plans for one table hold for the other.
func (t *table) same(o *table) bool {
	return t.oid == o.oid && t.ours == o.ours && t.overflow == o.overflow && t.risky == o.risky && t.copyable == o.copyable && t.foreign == o.foreign &&
		slices.EqualFunc(t.actions, o.actions, action.same) && slices.Equal(t.columns, o.columns) && slices.EqualFunc(t.uniques, o.uniques, slices.Equal)
}

// querier is what both a pool and a transaction can do.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// readTable reads a table from the system's catalog; nil if there is none of that name.
func (t *Target) readTable(ctx context.Context, q querier, name tableName) (*table, error) {
	tab := &table{name: name, quoted: name.quoted(), overflow: -1, sqls: t.sqls}
	var kind string
	var rowSecurity, hasRules bool
	err := q.QueryRow(ctx, `SELECT c.oid, c.relkind::text, c.relrowsecurity, c.relhasrules,
	EXISTS (SELECT 1 FROM pg_constraint AS f WHERE f.contype = 'f' AND (f.conrelid = c.oid OR f.confrelid = c.oid)),
	EXISTS (SELECT 1 FROM `+t.staging+`tables WHERE target_schema = n.nspname AND target = c.relname)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')`, name.schema, name.name).
		Scan(&tab.oid, &kind, &rowSecurity, &hasRules, &tab.foreign, &tab.ours)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if kind == "m" {
		return nil, retry(errors.Errorf("postgres: %s is a materialized view", name.quoted()), "name a table")
	}
	tab.copyable = (kind == "r" || kind == "p") && !rowSecurity && !hasRules && !t.crdb.Load()
	if err := t.readColumns(ctx, q, tab); err != nil {
		return nil, err
	}
	if err := readUniques(ctx, q, tab); err != nil {
		return nil, err
	}
	return tab, readActions(ctx, q, tab)
}

func (t *Target) readColumns(ctx context.Context, q querier, tab *table) error {
	rows, err := q.Query(ctx, `SELECT a.attname, a.atttypid, CASE WHEN y.typtype = 'd' THEN y.typbasetype ELSE y.oid END,
	format_type(a.atttypid, a.atttypmod), quote_ident(m.nspname) || '.' || quote_ident(y.typname), a.atttypmod, a.attnotnull, a.atthasdef OR a.attidentity <> '', a.attgenerated <> '', a.attidentity = 'a',
	coalesce(pg_get_expr(d.adbin, d.adrelid), ''), y.typtype = 'd', a.attcollation
FROM pg_attribute AS a JOIN pg_type AS y ON y.oid = a.atttypid JOIN pg_namespace AS m ON m.oid = y.typnamespace LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, tab.oid)
	if err != nil {
		return err
	}
	defer rows.Close()
	var names, types []string
	for rows.Next() {
		var c column
		var modifier int32
		var def string
		var domain bool
		var typeOID, collation uint32
		if err := rows.Scan(&c.name, &typeOID, &c.typeOID, &c.typeName, &c.castName, &modifier, &c.notNull, &c.hasDefault, &c.generated, &c.identity, &def, &domain, &collation); err != nil {
			return err
		}
		c.wire = wireOf(c.typeOID)
		if domain {
			tab.copyable = tab.copyable && c.wire != wireCast
		}
		if c.typeOID == 1043 && modifier > 4 && !domain {
			c.maxChars = int(modifier) - 4
		}
		c.emptyText = strings.HasPrefix(def, "''")
		// Collations other than the default, "C" and "POSIX" may hold texts equal that are not.
		c.inexact = c.wire == wireCast || c.wire == wireFloat4 || c.wire == wireFloat8 || collation > 1000
		tab.always = tab.always || c.identity
		names, types = append(names, c.name), append(types, fmt.Sprintf("%s %d", c.name, typeOID))
		tab.columns = append(tab.columns, c)
	}
	tab.columnNames, tab.columnTypes = textArray(names), textArray(types)
	return rows.Err()
}

func readUniques(ctx context.Context, q querier, tab *table) error {
	rows, err := q.Query(ctx, `SELECT (i.indkey::int2[])[0:i.indnkeyatts - 1], i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indisvalid,
	coalesce((to_jsonb(i) ->> 'indnullsnotdistinct')::bool, false),
	ARRAY(SELECT a.attnum FROM pg_attribute AS a WHERE a.attrelid = i.indrelid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
FROM pg_index AS i WHERE i.indrelid = $1 AND (i.indisunique OR i.indisexclusion) ORDER BY i.indisprimary DESC, i.indexrelid`, tab.oid)
	if err != nil {
		return err
	}
	defer rows.Close()
	count := 0
	for rows.Next() {
		var key, numbers []int16
		var usable, nullsEqual bool
		if err := rows.Scan(&key, &usable, &nullsEqual, &numbers); err != nil {
			return err
		}
		count++
		var columns []int
		for _, number := range key {
			at := slices.Index(numbers, number)
			usable = usable && at >= 0 && (tab.columns[at].notNull || nullsEqual)
			columns = append(columns, at)
		}
		if usable {
			tab.uniques = append(tab.uniques, slices.Sorted(slices.Values(columns)))
		}
	}
	tab.risky = count > 1 || tab.foreign
	return rows.Err()
}
