package fan

import (
	"bytes"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A Merger makes of the mutations of a batch as few as have the same effect. It keeps its memory
// from one batch to the next; it is not safe for concurrent use.
//
// Of several mutations of one key it makes one, column by column:
//
//   - A patch or an upsert after an upsert or a patch fills it in; what is absent keeps its value.
//   - A delete, and a replace, discard what precedes them.
//   - An upsert after a delete becomes a replace, and so does a patch of a point. An update-only
//     patch after a delete finds no row: the delete stays as it is.
//   - Barriers are never merged, and nothing is merged across one. A fill is not merged either, and nothing
//     of its key is merged across it.
//   - Mutations that carry nothing but Raw have no key, and are never merged.
//
// The result stands where the first of them stood, so that what other rows refer to does not move
// behind them.
//
// # Shapes
//
// Two mutations of one key may have different relations. For points, that is an everyday matter (two
// lines with different fields of one series and time), and the result gets the union of both
// shapes, which is remembered so that it is always the same Relation. Where a column would need
// two kinds, and for tables of databases, where a shape changes only with the schema, the two stay
// as two mutations in their order.
type Merger struct {
	unions *Unions
	table  []slot
	gen    uint32
	arena  []logical.Value
	owned  []bool // whether Values of result i belong to the arena
	keys   [2][]byte
	one    uint64 // room for a hash that was not given
}

// A slot of the hash table says where the latest result for a key is.
type slot struct {
	hash uint64
	gen  uint32
	at   int32
}

// NewMerger returns a Merger. Mergers that share their unions make the same relations.
func NewMerger(unions *Unions) *Merger { return &Merger{unions: unions} }

// Merge merges muts in place, and returns the part of the slice that holds the result. What the
// result's Values point to is valid until the next call of Merge or Reset; the mutations that came
// in are overwritten, but nothing that they point to is changed.
func (m *Merger) Merge(muts []logical.Mutation) []logical.Mutation { return m.merge(muts, nil) }

// merge is Merge where the hashes of the keys may be known; a zero stands for one that is not.
func (m *Merger) merge(muts []logical.Mutation, hashes []uint64) []logical.Mutation {
	m.start(len(muts))
	out := muts[:0]
	for i := range muts {
		b := &muts[i]
		if b.Values != nil && !b.Op.Barrier() {
			var h uint64
			if hashes != nil {
				h = hashes[i]
			}
			s := m.find(b, h, out)
			if s.gen == m.gen && m.combine(out, int(s.at), b) {
				continue
			}
			s.hash, s.gen, s.at = m.one, m.gen, int32(len(out))
		} else if b.Op.Barrier() {
			m.forget()
		}
		if len(out) < i {
			out = append(out, *b)
		} else {
			out = muts[:i+1]
		}
		m.owned = append(m.owned, false)
	}
	clear(muts[len(out):])
	return out
}

// Reset lets go of what the last result pointed to.
func (m *Merger) Reset() {
	clear(m.arena)
	m.arena = m.arena[:0]
}

// start makes room for n mutations.
func (m *Merger) start(n int) {
	size := 16
	for size < 2*n {
		size *= 2
	}
	if len(m.table) < size {
		m.table, m.gen = make([]slot, size), 0
	}
	m.owned = m.owned[:0]
	m.Reset()
	m.forget()
}

// forget empties the hash table.
func (m *Merger) forget() {
	if m.gen++; m.gen == 0 {
		clear(m.table)
		m.gen = 1
	}
}

// find returns the slot of b's key, or a free one for it, and leaves the hash in m.one.
func (m *Merger) find(b *logical.Mutation, h uint64, out []logical.Mutation) *slot {
	if h == 0 {
		m.keys[0] = b.AppendKey(m.keys[0][:0])
		h = hash(m.keys[0])
	}
	m.one = h
	mask := uint64(len(m.table) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		s := &m.table[i]
		if s.gen != m.gen || s.hash == h && m.same(b, &out[s.at]) {
			return s
		}
	}
}

// same reports whether two mutations have one key.
func (m *Merger) same(a, b *logical.Mutation) bool {
	m.keys[0] = a.AppendKey(m.keys[0][:0])
	m.keys[1] = b.AppendKey(m.keys[1][:0])
	return bytes.Equal(m.keys[0], m.keys[1])
}

// combine makes of the result at index i, and of b after it, one mutation in that place. It reports
// whether it could.
func (m *Merger) combine(out []logical.Mutation, i int, b *logical.Mutation) bool {
	a := &out[i]
	switch {
	case a.Op == logical.OpFill || b.Op == logical.OpFill:
		return false
	case b.Op == logical.OpDelete || b.Op == logical.OpReplace:
		*a, m.owned[i] = *b, false
		return true
	case a.Op == logical.OpDelete:
		if b.Op == logical.OpUpsert || b.Relation.Points {
			*a, m.owned[i] = *b, false
			a.Op = logical.OpReplace
		}
		return true
	case a.Relation != b.Relation:
		return m.unite(out, i, b)
	}
	op := combined(a.Op, b.Op)
	if !anyAbsent(b.Values) {
		*a, m.owned[i] = *b, false
	} else {
		m.own(a, i)
		for c, v := range b.Values {
			if !v.IsAbsent() {
				a.Values[c] = v
			}
		}
		a.Raw = nil
	}
	a.Op = op
	return true
}

// combined returns what a and then b amount to, where neither is a delete.
func combined(a, b logical.Op) logical.Op {
	if a == logical.OpPatch {
		return b
	}
	return a
}

// unite is combine for two shapes.
func (m *Merger) unite(out []logical.Mutation, i int, b *logical.Mutation) bool {
	a := &out[i]
	u := m.unions.of(a.Relation, b.Relation)
	if u.relation == nil {
		return false
	}
	if u.relation != a.Relation {
		wide := m.alloc(len(u.relation.Columns))
		for c, v := range a.Values {
			wide[u.first[c]] = v
		}
		a.Values, a.Relation, m.owned[i] = wide, u.relation, true
	} else {
		m.own(a, i)
	}
	for c, v := range b.Values {
		if !v.IsAbsent() {
			a.Values[u.second[c]] = v
		}
	}
	a.Op = combined(a.Op, b.Op)
	a.Raw = nil
	return true
}

// own makes the Values of result i our own, so that they can be changed.
func (m *Merger) own(a *logical.Mutation, i int) {
	if !m.owned[i] {
		own := m.alloc(len(a.Values))
		copy(own, a.Values)
		a.Values, m.owned[i] = own, true
	}
}

// alloc returns n absent values. Results that were given out keep theirs when the arena grows: they
// refer to the array of before.
func (m *Merger) alloc(n int) []logical.Value {
	at := len(m.arena)
	if at+n > cap(m.arena) {
		m.arena = make([]logical.Value, 0, max(2*cap(m.arena), n, 64))
		at = 0
	}
	m.arena = m.arena[:at+n]
	return m.arena[at : at+n : at+n]
}

func anyAbsent(values []logical.Value) bool {
	for i := range values {
		if values[i].IsAbsent() {
			return true
		}
	}
	return false
}
