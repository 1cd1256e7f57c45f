package postgres

import (
	"github.com/tailrace-cdc/tailrace/internal/target/tally"
	"github.com/tailrace-cdc/tailrace/logical"
)

// noted is what a transaction did to points that nobody may miss.
type noted struct{ collisions, ignored, overflowed int }

// add notes what is done to a mutation.
func (n *noted) add(p *plan, m *logical.Mutation) {
	if p.ignored != nil {
		n.ignored += p.leavesOut(m)
	}
	if p.over != nil {
		n.overflowed += p.overflows(m)
	}
}

// count adds it to the tally, once it is committed.
func (n noted) count(t *tally.Tally) {
	t.Collisions.Add(int64(n.collisions))
	t.Ignored.Add(int64(n.ignored))
	t.Overflowed.Add(int64(n.overflowed))
}

// leavesOut returns how many values of a mutation have no column.
func (p *plan) leavesOut(m *logical.Mutation) (n int) {
	if m.Op == logical.OpDelete || m.Op == logical.OpTruncate {
		return 0
	}
	for _, i := range p.ignored {
		if i < len(m.Values) && !m.Values[i].IsAbsent() {
			n++
		}
	}
	return n
}

// collide notes the collisions of a batch, and warns when a table has its first.
func (x *tx) collide(b *batch) {
	x.noted.collisions += b.collisions
	if !b.table.warned.Swap(true) {
		x.s.t.cfg.Logger.Warn("postgres: points are merged whose times the table cannot tell apart; a column \"time\" of full precision, and \"nanos\" of type smallint in the key, would",
			"table", b.table.quoted)
	}
}
