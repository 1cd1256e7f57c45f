package fan

import (
	"fmt"
	"maps"
	"sort"
	"strconv"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A judge watches what is committed to a target, and knows what the source did. It shares no code
// with the fan or the target: rows are maps, mutations are taken one at a time, keys are texts.
//
// Every mutation of the source carries its own number in the column "v", deletes too (and a truncate
// as its route), so that the judge can tell how far a merged mutation reaches.
type judge struct {
	source   []sourceMutation
	byKey    map[string][]int // what concerns a key, as indexes into source
	barriers []int
	rows     map[string]row // what the target holds
	done     map[string]int // how much of byKey has been applied
	point    int            // the consistent point
	floor    int            // what of source comes before it, and is not applied again
	barrier  int            // the last barrier applied, as an index into barriers, or -1
	quiet    bool           // nothing has been applied since
}

type sourceMutation struct {
	logical.Mutation
	tx int
}

// A row is the values by column. A row that does not exist is nil.
type row map[string]string

func newJudge(txs [][]logical.Mutation) *judge {
	o := &judge{byKey: map[string][]int{}, rows: map[string]row{}, done: map[string]int{}, barrier: -1}
	for tx, muts := range txs {
		for _, m := range muts {
			at := len(o.source)
			o.source = append(o.source, sourceMutation{m, tx + 1})
			if m.Op == logical.OpTruncate || m.Op == logical.OpRekey {
				o.barriers = append(o.barriers, at)
			}
			if m.Op != logical.OpTruncate {
				o.byKey[keyOf(&m)] = append(o.byKey[keyOf(&m)], at)
			}
			if m.Op == logical.OpRekey {
				o.byKey[oldKeyOf(&m)] = append(o.byKey[oldKeyOf(&m)], at)
			}
		}
	}
	return o
}

func keyOf(m *logical.Mutation) string {
	return m.Relation.Name + "/" + strconv.FormatInt(m.Values[0].Int64(), 10)
}

func oldKeyOf(m *logical.Mutation) string {
	return m.Relation.Name + "/" + strconv.FormatInt(m.OldKey[0].Int64(), 10)
}

// change returns a row after one mutation of it.
func change(r row, m *logical.Mutation) row {
	switch {
	case m.Op == logical.OpDelete:
		return nil
	case m.Op == logical.OpPatch && r == nil && !m.Relation.Points:
		return nil
	case m.Op == logical.OpReplace || r == nil:
		r = row{}
	default:
		r = maps.Clone(r)
	}
	for i, c := range m.Relation.Columns {
		switch v := m.Values[i]; {
		case c.Key || v.IsAbsent():
		case v.IsNull():
			delete(r, c.Name)
		default:
			r[c.Name] = strconv.FormatInt(v.Int64(), 10)
		}
	}
	return r
}

// changeAll applies one mutation of any kind to rows.
func changeAll(rows map[string]row, m *logical.Mutation) {
	switch m.Op {
	case logical.OpTruncate:
		for k := range rows {
			if tableOf(k) == m.Relation.Name {
				delete(rows, k)
			}
		}
		return
	case logical.OpRekey:
		moved := rows[oldKeyOf(m)]
		if moved == nil { // it has moved already, before a crash
			moved = rows[keyOf(m)]
		}
		delete(rows, oldKeyOf(m))
		rows[keyOf(m)] = moved
		patch := *m
		patch.Op = logical.OpPatch
		m = &patch
	}
	if r := change(rows[keyOf(m)], m); r == nil {
		delete(rows, keyOf(m))
	} else {
		rows[keyOf(m)] = r
	}
}

func tableOf(key string) string {
	for i := range key {
		if key[i] == '/' {
			return key[:i]
		}
	}
	return key
}

// committed judges one transaction of the target.
func (o *judge) committed(muts []logical.Mutation) error {
	groups := map[string][]logical.Mutation{}
	for _, m := range muts {
		if m.Op == logical.OpTruncate || m.Op == logical.OpRekey {
			if len(muts) > 1 {
				return fmt.Errorf("ORDER: %s is not applied alone", m.Op)
			}
			return o.committedBarrier(&m)
		}
		groups[keyOf(&m)] = append(groups[keyOf(&m)], m)
	}
	for key, group := range groups {
		if err := o.committedKey(key, group); err != nil {
			return err
		}
	}
	o.quiet = o.quiet && len(muts) == 0
	return nil
}

// committedKey judges the mutations of one key in a transaction. They must amount to what the source
// did in one go, from the first that had not been applied, or from an earlier one after the consistent
// point.
func (o *judge) committedKey(key string, muts []logical.Mutation) error {
	got := o.rows[key]
	for i := range muts {
		got = change(got, &muts[i])
	}
	last := &muts[len(muts)-1]
	to := o.find(key, last)
	if to < 0 {
		return fmt.Errorf("ORDER: %s: the source never did %s", key, describe(muts))
	}
	least := o.before(key, o.floor)
	for from := min(o.reached(key), to); from >= least; from-- {
		if !o.between(key, from, to) {
			continue
		}
		want := o.rows[key]
		for _, at := range o.byKey[key][from : to+1] {
			want = change(want, &o.source[at].Mutation)
		}
		if (want == nil) == (got == nil) && maps.Equal(want, got) {
			o.done[key] = to + 1
			o.put(key, got)
			return nil
		}
	}
	return fmt.Errorf("ORDER: %s: %s was applied to %v, which had been taken up to %d of\n%s, the consistent point is %d",
		key, describe(muts), o.rows[key], o.done[key], o.story(key), o.point)
}

func (o *judge) put(key string, r row) {
	if r == nil {
		delete(o.rows, key)
	} else {
		o.rows[key] = r
	}
}

// find returns which mutation of a key it is whose number is in column "v", or -1.
func (o *judge) find(key string, m *logical.Mutation) int {
	for i, at := range o.byKey[key] {
		if numberOf(&o.source[at].Mutation) == numberOf(m) {
			return i
		}
	}
	return -1
}

func numberOf(m *logical.Mutation) int64 {
	if m.Values == nil {
		return int64(m.Route)
	}
	for i, c := range m.Relation.Columns {
		if c.Name == "v" {
			return m.Values[i].Int64()
		}
	}
	return -1
}

// reached returns how much of a key's mutations has been applied, those included that have no effect
// because they patch a row that does not exist.
func (o *judge) reached(key string) int {
	n := o.done[key]
	for o.rows[key] == nil && n < len(o.byKey[key]) {
		m := &o.source[o.byKey[key][n]]
		if m.Op != logical.OpPatch || m.Relation.Points {
			break
		}
		n++
	}
	return n
}

// before returns how many of a key's mutations come before source[end].
func (o *judge) before(key string, end int) int { return sort.SearchInts(o.byKey[key], end) }

// after returns where in source the transaction after a point begins.
func (o *judge) after(point int) int {
	return sort.Search(len(o.source), func(i int) bool { return o.source[i].tx > point })
}

// between reports whether a run of a key's mutations lies between the last barrier and the next.
func (o *judge) between(key string, from, to int) bool {
	if o.barrier >= 0 && o.byKey[key][from] <= o.barriers[o.barrier] {
		return false
	}
	return o.barrier+1 == len(o.barriers) || o.byKey[key][to] < o.barriers[o.barrier+1]
}

// committedBarrier judges a barrier: it is the next one, or the same again and nothing in between,
// and everything before it has been applied.
func (o *judge) committedBarrier(m *logical.Mutation) error {
	n := o.barrier
	if !o.quiet || n < 0 || !o.isBarrier(n, m) {
		n++
	}
	if n == len(o.barriers) || !o.isBarrier(n, m) {
		return fmt.Errorf("ORDER: %s of %s is not the next barrier", m.Op, m.Relation)
	}
	at := o.barriers[n]
	for key := range o.byKey {
		if o.reached(key) < o.before(key, at) {
			return fmt.Errorf("ORDER: %s of %s came before all of %s had been applied", m.Op, m.Relation, key)
		}
	}
	if m.Op == logical.OpRekey {
		if old := oldKeyOf(m); o.rows[old] != nil && o.done[old] > o.before(old, at) {
			return fmt.Errorf("CONVERGE: the key of %s, %v, is changed to %s, but that row is a newer one", old, o.rows[old], keyOf(m))
		}
	}
	changeAll(o.rows, m)
	if m.Op == logical.OpRekey {
		for _, key := range []string{keyOf(m), oldKeyOf(m)} {
			o.done[key] = o.before(key, at) + 1
		}
	} else {
		for key := range o.byKey {
			if tableOf(key) == m.Relation.Name {
				o.done[key] = o.before(key, at)
			}
		}
	}
	o.barrier, o.quiet = n, true
	return nil
}

func (o *judge) isBarrier(n int, m *logical.Mutation) bool {
	b := &o.source[o.barriers[n]]
	return b.Op == m.Op && b.Relation.Name == m.Relation.Name &&
		numberOf(m) == numberOf(&b.Mutation)
}

// advanced judges a new consistent point (PREFIX).
func (o *judge) advanced(point int) error {
	if point <= o.point {
		return fmt.Errorf("PREFIX: the consistent point went from %d to %d", o.point, point)
	}
	o.point, o.floor = point, o.after(point)
	return o.complete()
}

// complete checks that everything before the floor has been applied.
func (o *judge) complete() error {
	for key := range o.byKey {
		if want := o.before(key, o.floor); o.reached(key) < want {
			return fmt.Errorf("PREFIX: the consistent point is %d, and of %s %d of %d have been applied", o.point, key, o.reached(key), want)
		}
	}
	if n := o.barrier + 1; n < len(o.barriers) && o.barriers[n] < o.floor {
		return fmt.Errorf("PREFIX: the consistent point is %d, and %s has not been applied", o.point, o.source[o.barriers[n]].Op)
	}
	return nil
}

// restarted says that reading begins again after a point, and that the first so many mutations of the
// transaction after it will be skipped.
func (o *judge) restarted(point, skip int) error {
	if point > o.point {
		return fmt.Errorf("PREFIX: restarted from %d, the consistent point is %d", point, o.point)
	}
	o.point, o.floor = point, o.after(point)+skip
	if err := o.complete(); err != nil {
		return err
	}
	o.barrier, o.quiet = sort.SearchInts(o.barriers, o.floor)-1, false
	return nil
}

// holds compares what the target should hold with what it holds.
func (o *judge) holds(got map[string]row) error {
	if !maps.EqualFunc(o.rows, got, maps.Equal) {
		return fmt.Errorf("the target holds %v, it should hold %v", got, o.rows)
	}
	return nil
}

// converged compares the target with the source, which has been read to its end.
func (o *judge) converged() error {
	want := map[string]row{}
	for i := range o.source {
		changeAll(want, &o.source[i].Mutation)
	}
	if !maps.EqualFunc(o.rows, want, maps.Equal) {
		return fmt.Errorf("CONVERGE: the target holds\n%v, the source\n%v", o.rows, want)
	}
	return nil
}

// story tells all mutations of a key.
func (o *judge) story(key string) string {
	out := ""
	for _, at := range o.byKey[key] {
		out += fmt.Sprintf("%d:%s ", o.source[at].tx, describe([]logical.Mutation{o.source[at].Mutation}))
	}
	return out
}
