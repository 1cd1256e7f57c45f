package oracle

import (
	"fmt"
	"maps"
	"sort"
	"strings"
)

// A Judge follows one loop. Its methods are called in the order in which things happened, by one goroutine.
type Judge struct {
	source   []sourced
	ends     []int            // how much of source there is up to each transaction; ends[0] is 0
	byKey    map[string][]int // what concerns a row, as indexes into source
	barriers []int            // truncations and key changes, the same

	rows    Rows           // what the target holds
	done    map[string]int // how much of byKey has been applied
	point   int            // the consistent point: a transaction, counted from 1
	floor   int            // what of source comes before it, and is not applied again
	barrier int            // the last barrier applied, as an index into barriers, or -1
	quiet   bool           // nothing has been applied since
	letters letters
}

type sourced struct {
	Change
	tx int
}

// New returns the judge of a loop whose source has these transactions, and whose target is empty.
func New(txs [][]Change) *Judge {
	j := &Judge{ends: []int{0}, byKey: map[string][]int{}, rows: Rows{}, done: map[string]int{}, barrier: -1, letters: letters{aside: map[int]bool{}}}
	for tx, changes := range txs {
		for _, c := range changes {
			at := len(j.source)
			j.source = append(j.source, sourced{c, tx + 1})
			if c.barrier() {
				j.barriers = append(j.barriers, at)
			}
			if c.Op != Truncate {
				j.byKey[c.id()] = append(j.byKey[c.id()], at)
			}
			if c.Op == Rekey && c.OldKey != c.Key {
				j.byKey[c.oldID()] = append(j.byKey[c.oldID()], at)
			}
		}
		j.ends = append(j.ends, len(j.source))
	}
	return j
}

// Point returns the consistent point.
func (j *Judge) Point() int { return j.point }

// Rows returns what the target should hold. It must not be changed.
func (j *Judge) Rows() Rows { return j.rows }

// Fanned judges one target transaction of fan mode.
func (j *Judge) Fanned(changes []Change) error {
	groups := map[string][]Change{}
	for i := range changes {
		c := &changes[i]
		if c.barrier() {
			if len(changes) > 1 {
				return fmt.Errorf("ORDER: %s is not applied alone", c)
			}
			return j.passBarrier(c)
		}
		groups[c.id()] = append(groups[c.id()], *c)
	}
	for id, group := range groups {
		if err := j.row(id, group); err != nil {
			return err
		}
	}
	j.quiet = j.quiet && len(changes) == 0
	return nil
}

// row judges the changes of one row in a transaction. They must amount to what the source did in one go,
// from the first that had not been applied, or from an earlier one after the consistent point.
func (j *Judge) row(id string, changes []Change) error {
	got := j.rows[id]
	for i := range changes {
		got = got.after(&changes[i])
	}
	to := j.find(id, changes[len(changes)-1].Number)
	if to < 0 {
		return fmt.Errorf("ORDER: %s: the source never did %s", id, tell(changes))
	}
	if at := j.byKey[id][to]; j.waits(at) || j.letters.aside[at] {
		return fmt.Errorf("ORDER: %s was applied, although what it comes after, or it itself, is set aside:\n%s", tell(changes), j.story(id))
	}
	least := j.before(id, j.floor)
	for from := min(j.reached(id), to); from >= least; from-- {
		if !j.between(id, from, to) {
			continue
		}
		want := j.rows[id]
		for _, at := range j.byKey[id][from : to+1] {
			want = want.after(&j.source[at].Change)
		}
		if (want == nil) == (got == nil) && maps.Equal(want, got) {
			j.done[id] = to + 1
			j.rows.put(id, got)
			return nil
		}
	}
	return fmt.Errorf("ORDER: %s: %s was applied to %v, which had been taken up to %d of\n%s\nthe consistent point is %d",
		id, tell(changes), j.rows[id], j.done[id], j.story(id), j.point)
}

// Serial judges one target transaction of serial mode, which makes to the consistent point: it must carry
// exactly what the source did after the point before (ATOMIC), except for what it sets aside.
func (j *Judge) Serial(changes []Change, aside []Place, to int) error {
	if to < j.point || to >= len(j.ends) {
		return fmt.Errorf("PREFIX: the consistent point went from %d to %d", j.point, to)
	}
	for id := range j.byKey {
		if j.done[id] > j.before(id, j.floor) {
			return fmt.Errorf("DRAIN: serial mode goes on from %d, and of %s %d changes have been applied, of %d up to there\n%s",
				j.point, id, j.done[id], j.before(id, j.floor), j.story(id))
		}
	}
	want := j.source[j.floor:max(j.floor, j.ends[to])]
	if len(want) != len(changes)+len(aside) {
		return fmt.Errorf("ATOMIC: %d changes were committed, and %d set aside, for the %d of transactions %d to %d:\n%s",
			len(changes), len(aside), len(want), j.point+1, to, tell(changes))
	}
	for i := range want {
		if len(aside) > 0 && j.ends[aside[0].Tx-1]+aside[0].Position == j.floor+i {
			at, err := j.at(aside[0])
			if err != nil {
				return err
			}
			j.letters.aside[at], aside = true, aside[1:]
			continue
		}
		if j.waits(j.floor + i) {
			return fmt.Errorf("ORDER: %s was applied, although what it comes after is set aside", &want[i].Change)
		}
		if len(changes) == 0 {
			return fmt.Errorf("ORDER: what transactions %d to %d set aside is not in order", j.point+1, to)
		}
		if got, want := changes[0].String(), want[i].String(); got != want {
			return fmt.Errorf("ATOMIC, ORDER: transactions %d to %d were committed with %s, and not with %s", j.point+1, to, got, want)
		}
		j.rows.Apply(&want[i].Change)
		changes = changes[1:]
	}
	j.moveTo(to, 0)
	for id := range j.byKey {
		j.done[id] = j.before(id, j.floor)
	}
	j.barrier, j.quiet = sort.SearchInts(j.barriers, j.floor)-1, false
	return nil
}

func (j *Judge) moveTo(point, skip int) { j.point, j.floor = point, j.ends[point]+skip }

// find returns which change of a row it is that has the number, or -1.
func (j *Judge) find(id string, number int64) int {
	for i, at := range j.byKey[id] {
		if j.source[at].Number == number {
			return i
		}
	}
	return -1
}

// reached returns how many of a row's changes have been applied, those included that have no effect
// because they patch a row that does not exist.
func (j *Judge) reached(id string) int {
	n := j.done[id]
	for j.rows[id] == nil && n < len(j.byKey[id]) {
		if c := &j.source[j.byKey[id][n]]; c.Op != Patch || c.Points {
			break
		}
		n++
	}
	return n
}

// before returns how many of a row's changes come before source[end].
func (j *Judge) before(id string, end int) int { return sort.SearchInts(j.byKey[id], end) }

// between reports whether a run of a row's changes lies between the last barrier and the next.
func (j *Judge) between(id string, from, to int) bool {
	if j.barrier >= 0 && j.byKey[id][from] <= j.barriers[j.barrier] {
		return false
	}
	return j.barrier+1 == len(j.barriers) || j.byKey[id][to] < j.barriers[j.barrier+1]
}

// passBarrier judges a barrier: it is the next one, or the same again and nothing in between, and
// everything before it has been applied.
func (j *Judge) passBarrier(c *Change) error {
	n := j.barrier
	if !j.quiet || n < 0 || !j.isBarrier(n, c) {
		n++
	}
	if n == len(j.barriers) || !j.isBarrier(n, c) {
		return fmt.Errorf("ORDER: %s is not the next truncation or key change", c)
	}
	at := j.barriers[n]
	if j.waits(at) || j.letters.aside[at] {
		return fmt.Errorf("ORDER: %s was applied, although what it comes after, or it itself, is set aside", c)
	}
	for id := range j.byKey {
		if j.reached(id) < j.before(id, at) {
			return fmt.Errorf("ORDER: %s came before all of %s had been applied", c, id)
		}
	}
	if c.Op == Rekey {
		if old := c.oldID(); j.rows[old] != nil && j.done[old] > j.before(old, at) {
			return fmt.Errorf("CONVERGE: %s, but %s is a newer row, %v", c, old, j.rows[old])
		}
	}
	j.rows.Apply(c)
	if c.Op == Rekey {
		for _, id := range []string{c.id(), c.oldID()} {
			j.done[id] = j.before(id, at) + 1
		}
	} else {
		for id := range j.byKey {
			if strings.HasPrefix(id, c.Table+"/") {
				j.done[id] = j.before(id, at)
			}
		}
	}
	j.barrier, j.quiet = n, true
	return nil
}

func (j *Judge) isBarrier(n int, c *Change) bool {
	b := &j.source[j.barriers[n]]
	return b.Op == c.Op && b.Table == c.Table && b.Number == c.Number
}

// Stored judges a consistent point that was stored, with how many changes of the transaction after it
// are in the target (PREFIX). One that stays where it was is in order; of its changes there may then be fewer than
// before.
func (j *Judge) Stored(point, skip int) error {
	if point < j.point || point >= len(j.ends) {
		return fmt.Errorf("PREFIX: the consistent point went from %d to %d", j.point, point)
	}
	j.moveTo(point, skip)
	return j.complete()
}

// Restarted says that reading begins again after a point, and that the first so many changes of the
// transaction after it are skipped.
func (j *Judge) Restarted(point, skip int) error {
	if point > j.point {
		return fmt.Errorf("PREFIX: restarted from %d, the consistent point is %d", point, j.point)
	}
	j.moveTo(point, skip)
	if err := j.complete(); err != nil {
		return err
	}
	j.barrier, j.quiet = sort.SearchInts(j.barriers, j.floor)-1, false
	return nil
}

// complete checks that everything before the floor has been applied.
func (j *Judge) complete() error {
	for id := range j.byKey {
		if want := j.before(id, j.floor); j.reached(id) < want {
			return fmt.Errorf("PREFIX: the consistent point is %d, and of %s %d of %d changes have been applied:\n%s",
				j.point, id, j.reached(id), want, j.story(id))
		}
	}
	if n := j.barrier + 1; n < len(j.barriers) && j.barriers[n] < j.floor {
		return fmt.Errorf("PREFIX: the consistent point is %d, and %s has not been applied", j.point, &j.source[j.barriers[n]].Change)
	}
	return nil
}

// Outstanding returns the changes that have not reached the target, of those from the floor up to a transaction
// and one of its changes, by their places in the source. Only fan mode leaves some out in the middle.
func (j *Judge) Outstanding(tx, upTo int) []int {
	var out []int
	for at := j.floor; at < j.ends[tx-1]+upTo; at++ {
		c := &j.source[at].Change
		if c.Op == Truncate {
			if j.barrier < 0 || j.barriers[j.barrier] < at {
				out = append(out, at)
			}
		} else if id := c.id(); j.reached(id) <= j.before(id, at) {
			out = append(out, at)
		}
	}
	return out
}

// Holds compares what a target holds with what it was given.
func (j *Judge) Holds(got Rows) error {
	if !j.rows.equal(got) {
		return fmt.Errorf("the target does not hold what it was given: %s", got.diff(j.rows))
	}
	return nil
}

// At returns the state of the source after a transaction.
func (j *Judge) At(point int) Rows {
	rows := Rows{}
	for i := range j.source[:j.ends[point]] {
		rows.Apply(&j.source[i].Change)
	}
	return rows
}

// Snapshot judges what a reader sees in one snapshot, together with a consistent point that says that the
// target is consistent (ATOMIC). Rows of which something is set aside are left out.
func (j *Judge) Snapshot(got Rows, point int) error {
	got = j.sure(got)
	if want := j.sure(j.At(point)); !want.equal(got) {
		return fmt.Errorf("ATOMIC: the consistent point is %d, and %s", point, got.diff(want))
	}
	return nil
}

// Converged judges what the target holds when the source has been read to its end.
func (j *Judge) Converged(got Rows) error {
	got = j.sure(got)
	if want := j.sure(j.At(len(j.ends) - 1)); !want.equal(got) {
		return fmt.Errorf("CONVERGE: %s", got.diff(want))
	}
	return nil
}

// story tells all changes of a row.
func (j *Judge) story(id string) string {
	var out []string
	for _, at := range j.byKey[id] {
		out = append(out, fmt.Sprintf("%d: %s", j.source[at].tx, &j.source[at].Change))
	}
	return strings.Join(out, "\n")
}

func tell(changes []Change) string {
	var out []string
	for i := range changes {
		out = append(out, changes[i].String())
	}
	return strings.Join(out, "; ")
}
