package logical

import (
	"strconv"
	"unsafe"
)

// Op says what a Mutation does.
type Op uint8

// The operations. Upsert, Patch and Delete are what most dialects send; Replace is made by merging,
// Fill by replaying dead letters.
const (
	// OpUpsert carries the whole row: insert it, or overwrite the one that has its key.
	OpUpsert Op = iota + 1
	// OpPatch carries some columns, the others are absent: update the row that has the key. If there
	// is none, a point (Relation.Points) is inserted; for a table of a database nothing happens.
	OpPatch
	// OpDelete carries the key: remove the row, if it is there.
	OpDelete
	// OpReplace is a delete followed by an insert of what it carries: columns that are absent get
	// the target's default.
	OpReplace
	// OpRekey is an update that changes the key from OldKey to the key in Values. Other columns may
	// be absent, and then keep their values. It is a barrier in fan mode. Applied again, as after an
	// unknown commit, it must change nothing: a row that has the new key already gives way to the
	// one that has the old key; if none has that, the row with the new key is patched; if there is
	// none either, nothing happens.
	OpRekey
	// OpTruncate removes all rows of the relation. It is a barrier in fan mode.
	OpTruncate
	// OpFill brings a point (Relation.Points) that is late, because it was set aside: insert the row,
	// or, if there is one with the key, fill those of its columns that are null. What the row has got
	// meanwhile stays, and so does what is absent. It is never merged with other mutations.
	OpFill
)

var opNames = [...]string{"", "upsert", "patch", "delete", "replace", "rekey", "truncate", "fill"}

// String returns the operation's name in lower case.
func (o Op) String() string {
	if o > 0 && int(o) < len(opNames) {
		return opNames[o]
	}
	return "op(" + strconv.Itoa(int(o)) + ")"
}

// OpNamed returns the operation whose String is name, or 0.
func OpNamed(name string) Op {
	for op := OpUpsert; int(op) < len(opNames); op++ {
		if opNames[op] == name {
			return op
		}
	}
	return 0
}

// Barrier reports whether everything before the operation must be applied first, and everything
// after it later, also in fan mode.
func (o Op) Barrier() bool { return o == OpRekey || o == OpTruncate }

// A Mutation is a change of one row (or, for OpTruncate, of all rows of a relation).
type Mutation struct {
	Op Op
	// Relation describes Values.
	Relation *Relation
	// Values has one entry per column of the Relation, or is nil where Raw alone is carried. For
	// OpDelete all but the key may be absent. It is nil for OpTruncate.
	Values []Value
	// OldKey has one entry per key column, in column order, for OpRekey; otherwise nil.
	OldKey []Value
	// Route, if not zero, takes the place of the hash of the key when a shard is chosen: mutations
	// of one key must have one Route, and mutations that must keep their order although their keys
	// differ (the points of a series on their way to an HTTP remote) are given the same.
	Route uint64
	// Raw is the mutation in the source's own encoding (for InfluxDB its line, without the line
	// end), or nil. A target of the same kind may forward it, and a dead letter keeps it.
	Raw []byte
}

// Size returns the bytes of memory that the mutation occupies, what it points to included (the
// shared Relation aside). BOUNDED is counted in this measure.
func (m *Mutation) Size() int {
	n := int(unsafe.Sizeof(*m)) + len(m.Raw)
	for i := range m.Values {
		n += m.Values[i].Size()
	}
	for i := range m.OldKey {
		n += m.OldKey[i].Size()
	}
	return n
}
