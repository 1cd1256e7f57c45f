package oracle

import "fmt"

// A Place is that of a change in the source: its transaction, counted from 1, and its position there, from 0.
type Place struct{ Tx, Position int }

// letters are the changes that have been set aside, as indexes into the source.
type letters struct {
	refused func(*Change) bool
	aside   map[int]bool
}

// Refuses says which changes the target does not accept. These may be set aside, and so must be, from then on,
// what comes after them and concerns the same row of a table: but not of a measurement, whose points do not wait for
// each other. A key change or a truncation that is set aside concerns all rows of its table.
//
// A change that is refused need not be set aside where others of its row came at once and what they amount to is accepted.
func (j *Judge) Refuses(refused func(*Change) bool) { j.letters.refused = refused }

// SetAside judges letters of a target transaction of fan mode, after its changes.
func (j *Judge) SetAside(places []Place) error {
	for _, p := range places {
		at, err := j.at(p)
		if err != nil {
			return err
		}
		if c := &j.source[at].Change; c.barrier() {
			err = j.barrierAside(at)
		} else {
			err = j.rowAside(at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *Judge) at(p Place) (int, error) {
	if p.Tx < 1 || p.Tx >= len(j.ends) || p.Position < 0 || j.ends[p.Tx-1]+p.Position >= j.ends[p.Tx] {
		return 0, fmt.Errorf("NOTHING SILENT: there is no change at %+v, and it was set aside", p)
	}
	at := j.ends[p.Tx-1] + p.Position
	if c := &j.source[at].Change; !(j.letters.refused != nil && j.letters.refused(c)) && !j.waits(at) {
		return 0, fmt.Errorf("NOTHING SILENT: %s was set aside for no reason", c)
	}
	return at, nil
}

// rowAside takes note of a change of one row that was set aside: as if it had been applied, except that it has no
// effect.
func (j *Judge) rowAside(at int) error {
	c := &j.source[at].Change
	id := c.id()
	i := j.before(id, at)
	if i > j.reached(id) || !j.between(id, i, i) {
		return fmt.Errorf("ORDER: %s was set aside, and %s had been taken up to %d of\n%s", c, id, j.done[id], j.story(id))
	}
	j.done[id] = max(j.done[id], i+1)
	j.letters.aside[at], j.quiet = true, false
	return nil
}

// barrierAside is the same for a truncation or a key change, before which everything has been applied or set aside.
func (j *Judge) barrierAside(at int) error {
	c := &j.source[at].Change
	n := j.barrier
	if n < 0 || j.barriers[n] != at {
		n++
	}
	if n == len(j.barriers) || j.barriers[n] != at {
		return fmt.Errorf("ORDER: %s is not the next truncation or key change, and was set aside", c)
	}
	for id := range j.byKey {
		if j.reached(id) < j.before(id, at) {
			return fmt.Errorf("ORDER: %s was set aside before all of %s had been applied", c, id)
		}
	}
	if c.Op == Rekey {
		for _, id := range []string{c.id(), c.oldID()} {
			j.done[id] = max(j.done[id], j.before(id, at)+1)
		}
	}
	j.barrier, j.quiet, j.letters.aside[at] = n, false, true
	return nil
}

// waits reports whether a change comes after a letter that concerns the same row.
func (j *Judge) waits(at int) bool {
	c := &j.source[at].Change
	if c.Points || len(j.letters.aside) == 0 {
		return false
	}
	for l := range j.letters.aside {
		if l < at && concerns(&j.source[l].Change, c) {
			return true
		}
	}
	return false
}

// concerns reports whether two changes of tables are of one row.
func concerns(a, b *Change) bool {
	switch {
	case a.Table != b.Table || a.Points:
		return false
	case a.barrier() || b.Op == Truncate:
		return true
	}
	return a.Key == b.Key || b.Op == Rekey && a.Key == b.OldKey
}

// unsure reports whether a row is not what the source says, because of what was set aside.
func (j *Judge) unsure(id string) bool {
	for at := range j.letters.aside {
		c := &j.source[at].Change
		if c.id() == id || c.barrier() && ID(c.Table, "") == id[:len(c.Table)+1] {
			return true
		}
	}
	return false
}

// sure returns the rows that nothing set aside concerns.
func (j *Judge) sure(rows Rows) Rows {
	if len(j.letters.aside) == 0 {
		return rows
	}
	left := Rows{}
	for id, r := range rows {
		if !j.unsure(id) {
			left[id] = r
		}
	}
	return left
}

// Replayed judges a change that was set aside and is applied after all: once, and after those that it came after.
func (j *Judge) Replayed(number int64) error {
	for at := range j.letters.aside {
		c := &j.source[at].Change
		if c.Number != number {
			continue
		}
		if j.waits(at) {
			return fmt.Errorf("ORDER: %s was replayed before what it comes after", c)
		}
		delete(j.letters.aside, at)
		j.rows.Apply(c)
		return nil
	}
	return fmt.Errorf("NOTHING SILENT: change #%d was replayed, and is not set aside", number)
}

// Aside returns how many changes are set aside.
func (j *Judge) Aside() int { return len(j.letters.aside) }
