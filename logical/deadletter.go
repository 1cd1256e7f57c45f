package logical

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// DeadLetters gives access to what was set aside. Targets that store dead letters implement it. While a loop
// runs, its letters are replayed and discarded through the loop (factory.Loop), which knows the rows that they hold up.
type DeadLetters interface {
	// ListDeadLetters returns up to limit letters of a loop whose ID is greater than after, by ID.
	ListDeadLetters(ctx context.Context, loop string, after int64, limit int) ([]DeadLetter, error)
	// CountDeadLetters returns how many letters of a loop there are, and their size in bytes.
	CountDeadLetters(ctx context.Context, loop string) (n, bytes int64, err error)
	// DiscardDeadLetters removes letters of a loop. A loop that runs does not learn of it.
	DiscardDeadLetters(ctx context.Context, loop string, ids []int64) error
}

// A DeadLetter is a mutation that the target will never accept, set aside with its reason.
type DeadLetter struct {
	// ID is given by the store, and grows.
	ID int64
	// Loop is the loop's identity (Claim.Loop).
	Loop string
	// Stamp is the position of the mutation's transaction, as JSON.
	Stamp json.RawMessage
	// Position is the mutation's place in its transaction, counted from 0. Of one row, letters follow each
	// other by Stamp and Position.
	Position int
	// Table is the relation's qualified name.
	Table string
	// Key is the mutation's key in the canonical encoding of [Mutation.AppendKey].
	Key []byte
	// Op says what the mutation was to do.
	Op Op
	// Payload is Mutation.Raw where the source gave it, otherwise the mutation's values as a JSON
	// object by column name.
	Payload []byte
	// Reason is the target's own message.
	Reason string
	// Time is when the letter was set aside.
	Time time.Time
}

// NewDeadLetter makes the letter for a mutation of the loop, at a position of the transaction with that stamp,
// which the target rejected for a reason.
func NewDeadLetter(m *Mutation, loop string, stamp json.RawMessage, position int, reason error, now time.Time) DeadLetter {
	payload := m.Raw
	if payload == nil {
		payload = m.describe()
	}
	return DeadLetter{
		Loop: loop, Stamp: stamp, Position: position, Table: m.Relation.String(), Key: m.AppendKey(nil), Op: m.Op,
		Payload: payload, Reason: reason.Error(), Time: now,
	}
}

// Fingerprint is equal for letters of one loop that are one and the same: those whose Stamp, Position, Table, Key
// and Payload are equal. After a commit whose outcome was not known a mutation is set aside once more;
// a store keeps one letter of each (Loop, Fingerprint). It stays the same across versions.
func (d *DeadLetter) Fingerprint() [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{d.Stamp, []byte(d.Table), d.Key, d.Payload} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	if d.Position != 0 { // there were letters before there were positions
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(d.Position)))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// Size returns the bytes that the letter counts for against Config.MaxDeadLetterBytes.
func (d *DeadLetter) Size() int64 {
	const row = 64 // identifiers and time
	return int64(row + len(d.Loop) + len(d.Stamp) + len(d.Table) + len(d.Key) + len(d.Payload) + len(d.Reason))
}

// A ReplayError says which dead letter could not be replayed, and why.
type ReplayError struct {
	// ID is the letter's.
	ID int64
	// Err is the reason.
	Err error
}

// Error implements error.
func (e *ReplayError) Error() string { return fmt.Sprintf("dead letter %d: %s", e.ID, e.Err) }

// Unwrap returns the reason.
func (e *ReplayError) Unwrap() error { return e.Err }

// describe returns the values as a JSON object, for people: absent columns are left out, and numbers
// are strings, so that no reader rounds them.
func (m *Mutation) describe() []byte {
	fields := make(map[string]*string, len(m.Values))
	for i, v := range m.Values {
		switch {
		case v.IsAbsent():
		case v.IsNull():
			fields[m.Relation.Columns[i].Name] = nil
		default:
			text := strings.ToValidUTF8(v.String(), "\uFFFD")
			fields[m.Relation.Columns[i].Name] = &text
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return []byte("{}") // a map of strings always encodes
	}
	return text
}
