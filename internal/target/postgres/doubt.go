package postgres

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// How often a table is read again because a value of it was refused or violates a constraint, or was left out:
// somebody may have altered the table. Most often nobody has.
const (
	doubtRefusal = time.Second
	doubtIgnored = 5 * time.Second
)

// errPlanAgain says that a table was found to have changed.
var errPlanAgain = errors.New("postgres: the table has changed")

// lookAgain reads a table again, unless that was done lately, and reports whether it has changed, or may have.
func (t *Target) lookAgain(ctx context.Context, tab *table, every time.Duration) bool {
	before := t.catalog.changes.Load()
	rel := t.catalog.doubt(tab, every)
	if rel == nil {
		return false
	}
	_, err := t.plan(ctx, rel)
	return err != nil || t.catalog.changes.Load() != before
}

// doubt forgets the plans for a table, if that was not done lately, and returns the relation of one of them.
func (c *catalog) doubt(tab *table, every time.Duration) (of *logical.Relation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tab == nil || time.Since(tab.doubted) < every {
		return nil
	}
	tab.doubted = time.Now()
	for rel, p := range c.plans {
		if p.table == tab {
			of = rel
			delete(c.plans, rel)
		}
	}
	return of
}

// suspects reports whether somebody may have made room for what a mutation's plan refuses or leaves out.
func (x *tx) suspects(ctx context.Context, p *plan, m *logical.Mutation, refused bool) bool {
	switch {
	case refused:
		return x.s.t.lookAgain(ctx, p.table, doubtRefusal)
	case p.ignored != nil && p.leavesOut(m) > 0:
		return x.s.t.lookAgain(ctx, p.table, doubtIgnored)
	}
	return false
}

// doubtOrder looks again at a table where mutations violate a constraint that none of its known indexes or foreign keys
// checks. If there is a new one they are applied anew, in their order.
func (x *tx) doubtOrder(ctx context.Context, err error) error {
	if x.suspect == nil || !x.s.t.lookAgain(ctx, x.suspect, doubtRefusal) {
		return err
	}
	return retry(errors.WithMessagef(err, "postgres: table %s has changed", x.suspect.quoted), hintSchema)
}

// suspectOf notes the table of a statement that failed.
func (x *tx) suspectOf(tab *table, code string) {
	if tab != nil && !tab.risky && orderMatters(code) {
		x.suspect = tab
	}
}
