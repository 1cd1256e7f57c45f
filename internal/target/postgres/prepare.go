package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/lease"
	"github.com/tailrace-cdc/tailrace/internal/target/overflow"
	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// ddlTries is how often making tables is tried while others hold locks on them or do the same.
const ddlTries = 10

// Prepare makes tables and columns for relations of points that need them, in short transactions of
// its own.
func (s *session) Prepare(ctx context.Context, relations []*logical.Relation) error {
	var missing []*logical.Relation
	for _, rel := range relations {
		_, err := s.t.plan(ctx, rel)
		switch {
		case errors.Is(err, errNeedsDDL):
			missing = append(missing, rel)
		case err != nil:
			return err
		}
	}
	if missing == nil {
		return nil
	}
	if err := s.define(ctx, missing); err != nil {
		return s.noteFenced(err)
	}
	for _, rel := range missing {
		if _, err := s.t.plan(ctx, rel); err != nil {
			if errors.Is(err, errNeedsDDL) {
				err = retry(errors.Errorf("postgres: the table of measurement %q was changed by somebody else meanwhile", rel), "")
			}
			return err
		}
	}
	return nil
}

// define makes and extends the tables of relations. A transaction makes any number of new tables, which
// nobody else uses yet, and extends at most one: it would deadlock with data if it held one table's lock
// while it waits for another's.
func (s *session) define(ctx context.Context, relations []*logical.Relation) error {
	groups := byTable(relations)
	wait := firstLockWait
	for try := 1; ; try++ {
		var rest [][]*logical.Relation
		err := s.t.transactSlowly(ctx, s.t.ddl, min(wait, s.t.cfg.LockTimeout), func(tx pgx.Tx) (err error) {
			rest, err = s.defineIn(ctx, tx, groups)
			return err
		})
		if err == nil {
			if len(rest) == 0 {
				return nil
			}
			groups, try, wait = rest, 0, firstLockWait
			continue
		}
		if try == ddlTries || !mayHeal(err) {
			return err
		}
		if wait *= 2; s.t.ddl.crowded() {
			wait = min(wait, crowdedLockWait)
		}
		// Whoever wants the table meanwhile gets it: the waiting is outside of any lock.
		delay := time.Duration(rand.Int64N(int64(50*time.Millisecond) << min(try, 5)))
		if err := lease.Wait(ctx, delay); err != nil {
			return errors.Wrap(err, "postgres: waiting for a lock on a table")
		}
	}
}

// mayHeal reports whether another try at once may succeed.
func mayHeal(err error) bool {
	switch sqlState(err) {
	case "55P03", "40P01", "40001", "23505", "42P07", "42701", "42710", "42P06", "XX000": // locks, and the same made by others
		return true
	}
	return false
}

// defineIn makes tables, and extends one; it returns the groups that need another transaction.
func (s *session) defineIn(ctx context.Context, tx pgx.Tx, groups [][]*logical.Relation) (rest [][]*logical.Relation, err error) {
	locked, err := s.t.lockBefore(ctx, tx, groups)
	if err != nil {
		return nil, err
	}
	// The one row is the lock that makes and alters tables of this database one after the other. Whoever has it
	// waits for nobody's data.
	var version int64
	if err := tx.QueryRow(ctx, "SELECT version FROM "+s.t.staging+"version FOR UPDATE").Scan(&version); err != nil {
		return nil, err
	}
	if err := s.check(ctx, tx); err != nil {
		return nil, err
	}
	extended := false
	for _, group := range groups {
		tab, err := s.t.pointsTable(ctx, tx, group[0])
		if err != nil {
			return nil, err
		}
		if tab != nil && (extended || tab.ours && locked != (tableName{}) && locked != tab.name) {
			rest = append(rest, group)
			continue
		}
		altered, err := s.t.definePoints(ctx, tx, tab, group)
		if err != nil {
			return nil, err
		}
		extended = extended || altered
	}
	return rest, nil
}

// lockBefore locks the table that is going to be extended: others may use it for long, and who waits for it
// should have nothing that loops with other tables need.
func (t *Target) lockBefore(ctx context.Context, tx pgx.Tx, groups [][]*logical.Relation) (locked tableName, err error) {
	if t.crdb.Load() {
		return locked, nil // it has no such lock, and alters tables without one
	}
	for _, group := range groups {
		tab, err := t.pointsTable(ctx, tx, group[0])
		if err != nil {
			return locked, err
		}
		if tab != nil && tab.ours {
			_, err = tx.Exec(ctx, "LOCK TABLE "+tab.quoted+" IN ACCESS EXCLUSIVE MODE")
			return tab.name, err
		}
	}
	return locked, nil
}

// byTable groups relations of one measurement, so that its table is altered once.
func byTable(relations []*logical.Relation) [][]*logical.Relation {
	var groups [][]*logical.Relation
	places := map[tableName]int{}
	for _, rel := range relations {
		name := tableName{rel.Schema, rel.Name}
		at, ok := places[name]
		if !ok {
			at = len(groups)
			places[name] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], rel)
	}
	return groups
}

// definePoints makes the table of a measurement, or adds what it lacks if it is there. It reports whether
// it has altered a table.
func (t *Target) definePoints(ctx context.Context, tx pgx.Tx, tab *table, relations []*logical.Relation) (altered bool, err error) {
	rel := relations[0]
	if tab != nil && !tab.ours {
		return false, nil // somebody else made it meanwhile
	}
	if tab == nil {
		if full, err := t.tablesFull(ctx, tx, rel); err != nil || full {
			return false, cmp.Or(err, t.makeShared(ctx, tx, rel))
		}
	}
	space, count := columnSpace(), 3
	records := map[string]record{}
	if tab != nil {
		if err = t.readRecords(ctx, tx, tab); err != nil {
			return false, err
		}
		records, count = tab.records, tab.width()
		for i := range tab.columns {
			space.Take(tab.columns[i].name)
		}
	}
	var added []record
	var columns []string
	over := false
	for _, c := range newColumns(relations, records) {
		if tab != nil && adoptable(tab, c) {
			r := record{role: roleName(c.Role), name: c.Name, target: c.Name}
			records[r.key()] = r // or a field would adopt the column of its tag
			added = append(added, r)
			continue
		}
		if count >= t.cfg.MaxColumns {
			over = true
			continue
		}
		count++
		r := record{role: roleName(c.Role), name: c.Name, target: space.Assign(c.Name, "_"+roleName(c.Role)), kind: columnKind(c).String()}
		added = append(added, r)
		columns = append(columns, ident.Quote(r.target)+" "+declaredType(c))
	}
	if over && (tab == nil || tab.overflow < 0) {
		r := record{role: overflow.Role, target: space.Assign(overflow.Column, overflow.Suffix), kind: logical.KindJSON.String()}
		added = append(added, r)
		columns = append(columns, ident.Quote(r.target)+" jsonb")
		t.cfg.Logger.Warn("postgres: the table has as many columns as are allowed: other values share one", "measurement", rel.String(),
			"columns", t.cfg.MaxColumns, "column", r.target)
	}
	var name tableName
	if tab != nil {
		name = tab.name
		err = t.addColumns(ctx, tx, name, columns)
	} else {
		name, err = t.makeTable(ctx, tx, newTable{schema: t.schemaOf(rel), source: rel.Name, name: rel.Name, columns: columns})
		if err == nil {
			err = t.indexTags(ctx, tx, name, added)
		}
	}
	if err != nil {
		return false, err
	}
	return tab != nil && len(columns) > 0, t.remember(ctx, tx, name, added)
}

// newColumns lists the tags and fields that have no record, each once, tags first: they keep their
// names.
func newColumns(relations []*logical.Relation, records map[string]record) []*logical.Column {
	var list []*logical.Column
	seen := map[string]bool{}
	for _, role := range []logical.Role{logical.RoleTag, logical.RoleField} {
		for _, rel := range relations {
			for i := range rel.Columns {
				c := &rel.Columns[i]
				if _, known := records[recordKey(c)]; c.Role != role || known || seen[recordKey(c)] {
					continue
				}
				seen[recordKey(c)] = true
				list = append(list, c)
			}
		}
	}
	return list
}

func (t *Target) addColumns(ctx context.Context, tx pgx.Tx, name tableName, columns []string) error {
	if len(columns) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, "ALTER TABLE "+name.quoted()+" ADD COLUMN "+strings.Join(columns, ", ADD COLUMN "))
	if err == nil {
		t.cfg.Logger.Info("postgres: columns added", "table", name.quoted(), "columns", strings.Join(columns, ", "))
	}
	return err
}

// A newTable is one that is to be made.
type newTable struct {
	schema  string
	source  string   // what the staging tables know it by
	name    string   // unless it is taken
	suffix  string   // behind the name if that is taken
	columns []string // their definitions, beside those of the time and the series
	key     []string // what else makes the key
}

// makeTable makes a table and returns its name.
func (t *Target) makeTable(ctx context.Context, tx pgx.Tx, made newTable) (tableName, error) {
	name := tableName{schema: made.schema}
	space := ident.NewSpace(nameRules())
	// A table is a type, too. The types of arrays that the server names itself give way.
	rows, err := tx.Query(ctx, `SELECT c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1
UNION SELECT y.typname FROM pg_type AS y JOIN pg_namespace AS n ON n.oid = y.typnamespace
WHERE n.nspname = $1 AND NOT EXISTS (SELECT 1 FROM pg_type AS e WHERE e.typarray = y.oid)`, name.schema)
	if err != nil {
		return name, err
	}
	taken, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return name, err
	}
	for _, other := range taken {
		space.Take(other)
	}
	name.name = space.Assign(made.name, made.suffix)
	var exists bool
	if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", name.schema).Scan(&exists); err != nil {
		return name, err
	}
	if !exists {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+ident.Quote(name.schema)); err != nil {
			return name, err
		}
	}
	key := `PRIMARY KEY ("time", "series", "nanos"`
	if t.crdb.Load() { // keys that begin with the time would all go to one node
		key = `PRIMARY KEY ("series", "time", "nanos"`
	}
	for _, column := range made.key {
		key += ", " + ident.Quote(column)
	}
	key += ")"
	all := append([]string{`"time" timestamptz NOT NULL`, `"series" uuid NOT NULL`, `"nanos" smallint NOT NULL`}, made.columns...)
	if _, err := tx.Exec(ctx, "CREATE TABLE "+name.quoted()+" (\n\t"+strings.Join(append(all, key), ",\n\t")+"\n)"); err != nil {
		return name, err
	}
	// Somebody may have dropped a table of that name, which was another measurement's.
	if _, err := tx.Exec(ctx, "DELETE FROM "+t.staging+"tables WHERE target_schema = $1 AND target = $2", name.schema, name.name); err != nil {
		return name, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO `+t.staging+`tables AS t (schema_name, name, target_schema, target) VALUES ($1, $2, $3, $4)
ON CONFLICT (schema_name, name) DO UPDATE SET target_schema = excluded.target_schema, target = excluded.target`,
		[]byte(name.schema), []byte(made.source), name.schema, name.name)
	if err != nil {
		return name, err
	}
	t.cfg.Logger.Info("postgres: table created", "measurement", made.source, "table", name.quoted())
	_, err = tx.Exec(ctx, "DELETE FROM "+t.staging+"columns WHERE target_schema = $1 AND target_table = $2", name.schema, name.name)
	return name, err
}

// indexTags makes the indexes that were asked for.
func (t *Target) indexTags(ctx context.Context, tx pgx.Tx, name tableName, records []record) error {
	for _, tag := range t.cfg.IndexTags {
		for _, r := range records {
			if r.role != "tag" || r.name != tag {
				continue
			}
			if _, err := tx.Exec(ctx, fmt.Sprintf("CREATE INDEX ON %s (%s, \"time\" DESC)", name.quoted(), ident.Quote(r.target))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Target) remember(ctx context.Context, tx pgx.Tx, name tableName, records []record) error {
	for _, r := range records {
		_, err := tx.Exec(ctx, `INSERT INTO `+t.staging+`columns (target_schema, target_table, role, name, target, kind) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (target_schema, target_table, role, name) DO UPDATE SET target = excluded.target, kind = excluded.kind`,
			name.schema, name.name, r.role, []byte(r.name), r.target, r.kind)
		if err != nil {
			return err
		}
	}
	return nil
}
