package queue

import (
	"slices"

	"github.com/pkg/errors"
)

// maxUnused bounds the gaps that the ledger names. Of older ones the headers of the
// segments behind them tell, as long as those are good.
const maxUnused = 1024

// noteUnused records durably that no block has a number between prev, the last valid
// one, and first, which begins a segment that does not exist yet. So whoever finds
// nothing left of the segments around them still knows that these are no loss.
func (q *Queue) noteUnused(prev, first Sequence) error {
	q.books.mu.Lock()
	defer q.books.mu.Unlock()
	next := q.books.ledger.clone()
	if !next.skip(prev, first) {
		return nil
	}
	if err := q.saveLedger(&next); err != nil {
		return errors.WithMessage(err, "numbers that are passed over")
	}
	q.books.ledger, q.books.dirty = next, false
	return nil
}

// skip makes the numbers between prev and first the last gap. It reports whether
// that changes anything.
func (l *ledger) skip(prev, first Sequence) bool {
	// What was noted of prev or behind it was for a segment that never became valid.
	n := len(l.Unused)
	for n > 0 && l.Unused[n-1][1] >= prev {
		n--
	}
	var want [][2]Sequence
	if first > prev+1 {
		want = [][2]Sequence{{prev + 1, first - 1}}
	}
	if slices.Equal(l.Unused[n:], want) {
		return false
	}
	l.Unused = append(l.Unused[:n:n], want...)
	l.Unused = l.Unused[max(len(l.Unused)-maxUnused, 0):]
	return true
}

// used returns the parts of [first, last] that are not known to be unused.
func (l *ledger) used(first, last Sequence) [][2]Sequence { return without(l.Unused, first, last) }

// lastUsed returns the last number up to seq that is not known to be unused.
func (l *ledger) lastUsed(seq Sequence) Sequence {
	for _, u := range slices.Backward(l.Unused) {
		if u[0] <= seq && seq <= u[1] {
			seq = u[0] - 1
		}
	}
	return seq
}

// lastBelow returns the last sequence of a segment behind which there was another one
// that is gone, as the cursor tells, and whether there was.
func (l *ledger) lastBelow(c cursor, seg *segment) (Sequence, bool) {
	if c.MarkFirst <= seg.first {
		return 0, false
	}
	return l.lastUsed(c.MarkFirst - 1), true
}

// without returns what is left of [first, last] without the ranges, which are in order.
func without(ranges [][2]Sequence, first, last Sequence) [][2]Sequence {
	var out [][2]Sequence
	for _, r := range ranges {
		if r[1] < first {
			continue
		}
		if r[0] > last {
			break
		}
		if r[0] > first {
			out = append(out, [2]Sequence{first, r[0] - 1})
		}
		if r[1] >= last {
			return out
		}
		first = r[1] + 1
	}
	if first <= last {
		out = append(out, [2]Sequence{first, last})
	}
	return out
}
