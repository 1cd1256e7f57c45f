package postgres

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A batch collects the mutations of one table until they are sent, merged by key: of each key one
// entry remains, which stands for all of its mutations in their order. Its memory is reused.
type batch struct {
	table   *table
	points  bool
	width   int // columns of the table
	entries []entry
	keys    []byte  // of all entries
	masks   []byte  // of all entries: width bytes each, 0 for an absent column, otherwise its wire + 1
	prev    []int32 // by mutation: the one before it of the same key that still counts, or -1
	slots   []int32 // a hash table: entry + 1, or 0
	seed    maphash.Seed
	nulls   bool // some value is null
	varied  bool // the masks are not all the same

	collisions int // of points that the table cannot tell apart
}

// An entry stands for all mutations of one key.
type entry struct {
	hash           uint64
	keyFrom, keyTo int
	mask           int // index of its mask, in units of width
	last           int32
	op             logical.Op
}

func (b *batch) reset(p *plan, mutations int) {
	b.table, b.points, b.width = p.table, p.relation.Points, len(p.table.columns)
	b.entries, b.keys, b.masks = b.entries[:0], b.keys[:0], b.masks[:0]
	b.nulls, b.varied, b.collisions = false, false, 0
	if cap(b.prev) < mutations {
		b.prev = make([]int32, mutations)
	}
	b.prev = b.prev[:mutations]
	size := 16
	for size < 2*mutations {
		size *= 2
	}
	if cap(b.slots) < size {
		b.slots = make([]int32, size)
		b.seed = maphash.MakeSeed()
	}
	b.slots = b.slots[:size]
	clear(b.slots)
}

// add takes the mutation at i, which the plan does not refuse. It returns false if the mutation
// cannot be merged with what is there for its key, and has to wait until that is sent.
func (b *batch) add(i int, muts []logical.Mutation, p *plan) bool {
	m := &muts[i]
	from := len(b.keys)
	b.keys = p.appendKey(b.keys, m)
	key := b.keys[from:]
	hash := maphash.Bytes(b.seed, key)
	at := int(hash) & (len(b.slots) - 1)
	for ; b.slots[at] != 0; at = (at + 1) & (len(b.slots) - 1) {
		e := &b.entries[b.slots[at]-1]
		if e.hash == hash && bytes.Equal(b.keys[e.keyFrom:e.keyTo], key) {
			b.keys = b.keys[:from]
			if p.floor && apart(m, &muts[e.last]) {
				b.collisions++
			}
			return b.merge(e, i, m, p)
		}
	}
	op := m.Op
	if op == logical.OpPatch && b.points {
		op = logical.OpUpsert
	}
	b.slots[at] = int32(len(b.entries) + 1)
	b.prev[i] = -1
	b.entries = append(b.entries, entry{hash: hash, keyFrom: from, keyTo: len(b.keys), mask: len(b.entries), last: int32(i), op: op})
	b.masks = append(b.masks, make([]byte, b.width)...)
	b.mark(&b.entries[len(b.entries)-1], m, p)
	return true
}

// merge lets an entry stand for one more mutation.
func (b *batch) merge(e *entry, i int, m *logical.Mutation, p *plan) bool {
	op := m.Op
	if op == logical.OpPatch && b.points {
		op = logical.OpUpsert
	}
	cut := false // what was there before does not count any more
	switch {
	case op == logical.OpFill || e.op == logical.OpFill:
		return false // what it fills depends on the row
	case op == logical.OpDelete:
		cut = true
	case op == logical.OpReplace:
		cut = true
	case op == logical.OpUpsert && e.op == logical.OpDelete:
		op, cut = logical.OpReplace, true
	case op == logical.OpUpsert && e.op == logical.OpReplace:
		op = logical.OpReplace
	case op == logical.OpUpsert && e.op == logical.OpPatch:
		return false // whether the patch had an effect depends on the row
	case op == logical.OpPatch && e.op == logical.OpDelete:
		return true // there is nothing to patch
	case op == logical.OpPatch:
		op = e.op
	}
	e.op = op
	b.prev[i] = e.last
	if cut {
		b.prev[i] = -1
		clear(b.mask(e))
	}
	e.last = int32(i)
	b.mark(e, m, p)
	return true
}

// apart reports whether two points have different times.
func apart(x, y *logical.Mutation) bool { return timeOf(x) != timeOf(y) }

// timeOf returns the time of a point; an absent value if it has none.
func timeOf(m *logical.Mutation) logical.Value {
	for i := range m.Relation.Columns {
		if m.Relation.Columns[i].Role == logical.RoleTime {
			return m.Values[i]
		}
	}
	return logical.Value{}
}

// mask returns which columns an entry carries.
func (b *batch) mask(e *entry) []byte { return b.masks[e.mask*b.width : (e.mask+1)*b.width] }

// mark adds the columns that a mutation carries to an entry's mask.
func (b *batch) mark(e *entry, m *logical.Mutation, p *plan) {
	mask := b.mask(e)
	for at := range p.sources {
		s := &p.sources[at]
		switch {
		case m.Op == logical.OpDelete && !p.isKey(at):
			continue
		case s.column == fromOver:
			if p.overflows(m) == 0 {
				continue
			}
		case s.column >= 0:
			v := &m.Values[s.column]
			if v.IsAbsent() && !s.fill {
				continue
			}
			b.nulls = b.nulls || v.IsNull()
		case s.column == fromNone && !p.isKey(at):
			continue
		}
		mask[at] = byte(s.wire) + 1
	}
	// Each is compared with the first; when the first itself has changed, with the second.
	other := 0
	if e.mask == 0 {
		other = 1
	}
	if len(b.entries) > other {
		b.varied = b.varied || !bytes.Equal(mask, b.masks[other*b.width:(other+1)*b.width])
	}
}

// sort puts the entries into the order of their keys, so that batches that run at once lock rows in
// one order.
func (b *batch) sort() {
	slices.SortFunc(b.entries, func(x, y entry) int {
		return bytes.Compare(b.keys[x.keyFrom:x.keyTo], b.keys[y.keyFrom:y.keyTo])
	})
}

// appendKey appends the mutation's key in the forms that its columns store.
func (p *plan) appendKey(dst []byte, m *logical.Mutation) []byte {
	for n, at := range p.keys {
		v := logical.Null()
		if i := p.relKeys[n]; i >= 0 {
			v = m.Values[i]
		} else if i == fromName {
			v = logical.Text(p.relation.Name)
		}
		dst = p.appendKeyValue(dst, at, v)
	}
	return dst
}

func (p *plan) appendKeyValue(dst []byte, at int, v logical.Value) []byte {
	if v.IsNull() || v.IsAbsent() {
		return append(dst, 0)
	}
	if v.Kind() == logical.KindFloat64 && v.Float64() == 0 {
		v = logical.Float64(math.Abs(v.Float64())) // -0 is 0
	}
	head := len(dst)
	dst = append(dst, 1, 0, 0, 0, 0)
	dst, _ = encode(dst, &p.table.columns[at], &p.sources[at], v)
	if p.sources[at].wire == wireNumeric && len(dst) >= head+13 {
		dst[head+11], dst[head+12] = 0, 0 // the scale: 1.0 is 1.00
	}
	if p.sources[at].wire == wireTimestamptz {
		dst[head+5] ^= 0x80 // so that times sort
	}
	binary.BigEndian.PutUint32(dst[head+1:], uint32(len(dst)-head-5))
	return dst
}

// refuses says why a mutation cannot be stored; "" if it can. It may use scratch.
func (p *plan) refuses(m *logical.Mutation, scratch *[]byte) string {
	if p.refuse != "" {
		return p.refuse
	}
	if m.Op != logical.OpTruncate && len(m.Values) != len(p.relation.Columns) {
		return "it has the wrong number of values"
	}
	if why := p.refusesOverflow(m); why != "" || m.Op == logical.OpTruncate {
		return why
	}
	for i, why := range p.refused {
		if !m.Values[i].IsAbsent() {
			return p.describe(i, "", m.Values[i]) + why
		}
	}
	for at := range p.sources {
		s := &p.sources[at]
		if s.column < 0 {
			continue
		}
		v := m.Values[s.column]
		k := v.Kind()
		if k == logical.KindAbsent || k == logical.KindNull || fits(s, k) || m.Op == logical.OpDelete && !p.isKey(at) {
			continue
		}
		c := &p.table.columns[at]
		encoded, why := encode((*scratch)[:0], c, s, v)
		*scratch = encoded[:0]
		if why != "" {
			return p.describe(s.column, c.typeName, v) + why
		}
	}
	if m.Op == logical.OpRekey && len(m.OldKey) != len(p.relation.KeyColumns()) {
		return "its old key has the wrong number of values"
	}
	return ""
}

// describe names a value by its kind and its place.
func (p *plan) describe(column int, typeName string, v logical.Value) string {
	text := "column \"" + p.relation.Columns[column].Name + "\""
	if typeName != "" {
		text += " of type " + typeName
	}
	return text + ", " + v.Kind().String() + " value: "
}
