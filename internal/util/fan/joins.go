package fan

import "github.com/tailrace-cdc/tailrace/logical"

// Joins knows which keys have open dead letters. Its methods may be called concurrently.
type Joins interface {
	// Any reports whether there are any. It is called for every transaction.
	Any() bool
	// Joins reports whether a mutation, at a position of the transaction with that stamp, joins the dead letters
	// of its key. Where there are any, it is called for every mutation before it is applied.
	Joins(stamp logical.Stamp, position int, m *logical.Mutation) bool
}
