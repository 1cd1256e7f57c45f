package queue

import "slices"

// Disown is SkipTo for a number that somebody knows as a position in this queue and that this queue has not
// given to any block: it was restored from a backup, or copied, and what is in it now is not what led up to
// that position. The numbers up to seq that are still to be given are disowned for ever, durably before it
// returns, so that they are not taken for positions later, when greater ones are in use; seq itself is, also
// if it has been given to a block meanwhile.
func (q *Queue) Disown(seq Sequence) error {
	return q.skipTo(seq, func(next Sequence) error { return q.disown(min(next, seq), seq) })
}

// Disowned reports whether a number was disowned.
func (q *Queue) Disowned(seq Sequence) bool {
	q.books.mu.Lock()
	defer q.books.mu.Unlock()
	return within(q.books.ledger.Disowned, seq)
}

// disown records a range durably.
func (q *Queue) disown(first, last Sequence) error {
	q.books.mu.Lock()
	defer q.books.mu.Unlock()
	if within(q.books.ledger.Disowned, first) && within(q.books.ledger.Disowned, last) {
		return nil
	}
	next := q.books.ledger.clone()
	// Whoever knows a position up to the cursor goes on from the cursor in any case.
	next.Disowned = slices.DeleteFunc(next.Disowned, func(r [2]Sequence) bool { return r[1] <= q.Cursor() })
	next.Disowned = append(next.Disowned, [2]Sequence{first, last})
	if err := q.saveLedger(&next); err != nil {
		return err
	}
	q.books.ledger, q.books.dirty = next, false
	return nil
}

func within(ranges [][2]Sequence, seq Sequence) bool {
	return slices.ContainsFunc(ranges, func(r [2]Sequence) bool { return r[0] <= seq && seq <= r[1] })
}
