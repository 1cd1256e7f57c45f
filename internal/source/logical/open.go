package logical

import (
	"cmp"
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tailrace-cdc/tailrace/logical"
)

// openLetters knows the dead letters that are kept: how many there are, and which keys of database rows
// they hold up. Until the letters of a row are replayed or discarded, its later mutations join them, so
// that they come to the target after them or not at all (ORDER). A key change or a truncation that was set aside
// holds up its whole table.
//
// Points do not join: to replay one fills only fields that are null, so it may come after newer ones.
//
// Its methods may be called concurrently.
type openLetters struct {
	holds atomic.Bool // some key is held up

	mu     sync.Mutex
	n      int64
	bytes  int64
	keys   map[string]*keyLetters
	tables map[string]*keyLetters // whose rows are all held up
	within map[string]*keyLetters // in which any row is
}

// A keyLetters is the letters that hold up one thing.
type keyLetters struct {
	letters map[letterID]place
	oldest  place
}

// A place is that of a mutation in the source: the stamp of its transaction, and its position there.
type place struct {
	stamp    logical.Stamp
	position int
}

func (p place) compare(other place) int {
	return cmp.Or(p.stamp.Compare(other.stamp), cmp.Compare(p.position, other.position))
}

// letterID tells letters apart as targets do, which keep one letter once.
type letterID [sha256.Size]byte

func newOpenLetters() *openLetters {
	o := &openLetters{}
	o.clear()
	return o
}

func (o *openLetters) clear() {
	o.keys, o.tables, o.within = map[string]*keyLetters{}, map[string]*keyLetters{}, map[string]*keyLetters{}
	o.n, o.bytes = 0, 0
	o.holds.Store(false)
}

// reset replaces all that is known by what a target keeps: so many letters, of which load adds those
// that hold something up.
func (o *openLetters) reset(n, bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clear()
	o.n, o.bytes = n, bytes
}

// kept returns how many letters there are, and their size.
func (o *openLetters) kept() (n, bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n, o.bytes
}

// Any implements fan.Joins: it reports whether any key is held up.
func (o *openLetters) Any() bool { return o.holds.Load() }

// Joins implements fan.Joins.
func (o *openLetters) Joins(stamp logical.Stamp, position int, m *logical.Mutation) bool {
	return o.joins(place{stamp, position}, m)
}

// joins reports whether a mutation joins the letters of its row, or is one of them, met again.
func (o *openLetters) joins(p place, m *logical.Mutation) bool {
	if m.Relation.Points || !o.Any() {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	table := m.Relation.String()
	if o.tables[table].holds(p) {
		return true
	}
	if m.Op == logical.OpTruncate {
		return o.within[table].holds(p)
	}
	if o.keys[string(m.AppendKey(nil))].holds(p) {
		return true
	}
	return m.Op == logical.OpRekey && o.keys[string(oldKey(m))].holds(p)
}

// oldKey returns the encoding of the key that a key change takes away.
func oldKey(m *logical.Mutation) []byte {
	was := logical.Mutation{Relation: m.Relation, Values: append([]logical.Value(nil), m.Values...)}
	for i, at := range m.Relation.KeyColumns() {
		was.Values[at] = m.OldKey[i]
	}
	return was.AppendKey(nil)
}

// holds reports whether one of the letters is at a place or before it.
func (h *keyLetters) holds(p place) bool { return h != nil && h.oldest.compare(p) <= 0 }

func (h *keyLetters) add(id letterID, p place) (fresh bool) {
	if len(h.letters) == 0 || p.compare(h.oldest) < 0 {
		h.oldest = p
	}
	_, known := h.letters[id]
	h.letters[id] = p
	return !known
}

func (h *keyLetters) remove(id letterID) {
	gone, known := h.letters[id]
	delete(h.letters, id)
	if !known || len(h.letters) == 0 || gone.compare(h.oldest) > 0 {
		return
	}
	left := slices.Collect(maps.Values(h.letters))
	h.oldest = slices.MinFunc(left, place.compare)
}

// settled says that a letter is in the target, whose mutation is of a row or a point.
func (o *openLetters) settled(letter *logical.DeadLetter, stamp logical.Stamp, points bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fresh := true
	if !points {
		fresh = o.hold(letter, stamp)
	}
	if fresh {
		o.n++
		o.bytes += letter.Size()
	}
}

// load adds a letter of a row that the target has kept since before.
func (o *openLetters) load(letter *logical.DeadLetter, stamp logical.Stamp) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hold(letter, stamp)
}

// hold reports whether the letter was not known. Callers hold mu.
func (o *openLetters) hold(letter *logical.DeadLetter, stamp logical.Stamp) (fresh bool) {
	o.holds.Store(true)
	id := letterID(letter.Fingerprint())
	for _, p := range o.places(letter) {
		h := p.in[p.name]
		if h == nil {
			h = &keyLetters{letters: map[letterID]place{}}
			p.in[p.name] = h
		}
		fresh = h.add(id, place{stamp, letter.Position}) || fresh
	}
	return fresh
}

// removed says that a letter is no longer in the target.
func (o *openLetters) removed(letter *logical.DeadLetter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n = max(0, o.n-1)
	o.bytes = max(0, o.bytes-letter.Size())
	id := letterID(letter.Fingerprint())
	for _, p := range o.places(letter) {
		h := p.in[p.name]
		if h == nil {
			continue
		}
		if h.remove(id); len(h.letters) == 0 {
			delete(p.in, p.name)
		}
	}
	o.holds.Store(len(o.keys)+len(o.tables) > 0)
}

// A heldUp is where a letter is found: by the name of a row or a table.
type heldUp struct {
	in   map[string]*keyLetters
	name string
}

// places returns where a letter is found.
func (o *openLetters) places(letter *logical.DeadLetter) [2]heldUp {
	within := heldUp{o.within, letter.Table}
	if letter.Op.Barrier() {
		return [2]heldUp{{o.tables, letter.Table}, within}
	}
	return [2]heldUp{{o.keys, string(letter.Key)}, within}
}
