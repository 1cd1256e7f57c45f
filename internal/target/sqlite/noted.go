package sqlite

import (
	"github.com/tailrace-cdc/tailrace/internal/target/tally"
	"github.com/tailrace-cdc/tailrace/logical"
)

// noted is what a transaction did to points that nobody may miss.
type noted struct{ ignored int }

// count adds it to the tally, once it is committed.
func (n noted) count(t *tally.Tally) { t.Ignored.Add(int64(n.ignored)) }

// note notes what is done to mutations of a plan.
func (w *writer) note(p *plan, muts []logical.Mutation) {
	if !p.ignores {
		return
	}
	for k := range muts {
		if m := &muts[k]; m.Op != logical.OpDelete {
			for i := range m.Values {
				if p.columns[i].ignored && !m.Values[i].IsAbsent() {
					w.noted.ignored++
				}
			}
		}
	}
}
