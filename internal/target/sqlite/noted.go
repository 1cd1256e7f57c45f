package sqlite

import (
	"github.com/tailrace-cdc/tailrace/internal/target/tally"
	"github.com/tailrace-cdc/tailrace/logical"
)

// noted is what a transaction did to points that nobody may miss.
type noted struct{ ignored, overflowed int }

// count adds it to the tally, once it is committed.
func (n noted) count(t *tally.Tally) {
	t.Ignored.Add(int64(n.ignored))
	t.Overflowed.Add(int64(n.overflowed))
}

// note notes what is done to mutations of a plan.
func (w *writer) note(p *plan, muts []logical.Mutation) {
	if !p.ignores && p.overflow < 0 {
		return
	}
	for k := range muts {
		if m := &muts[k]; m.Op != logical.OpDelete {
			for i := range m.Values {
				switch {
				case m.Values[i].IsAbsent():
				case p.columns[i].ignored:
					w.noted.ignored++
				case p.columns[i].over:
					w.noted.overflowed++
				}
			}
		}
	}
}
