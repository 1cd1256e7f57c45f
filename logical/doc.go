// Package logical is the vocabulary of replication loops: what a source says, what a target must
// be able to do, and what each side promises the other.
//
// A loop reads one stream of transactions from one source through a [Dialect] and applies it to
// one [Target]. The loop itself lives behind a factory; this package declares what it speaks, so
// that you can write a dialect for a source of your own, or a target of your own, against a small
// surface that stays still.
//
//	source ──▶ Dialect.ReadInto ──▶ messages ──▶ Dialect.Process ──▶ Events ──▶ Session, Tx ──▶ target
//
// # Positions
//
// A [Stamp] is a position in the source's history. The loop's consistent point is the newest stamp
// such that every transaction at or before it is in the target. It is stored with the data (see
// [Tx.SetMemo]), and reading always resumes from it.
//
// # Changes
//
// A [Mutation] changes one row, identified by its key. It carries typed [Value]s, aligned with the
// columns of a [Relation], and tells null from absent: an absent column was not sent by the source
// and must be left as it is.
//
// # Modes
//
// While the consistent point is stale, the loop fans mutations out over several target transactions
// at once: order is kept per key, transaction boundaries are not. Once it has caught up it applies
// serially: a reader of the target sees only states that the source had at a transaction boundary.
// Neither a dialect nor a target needs to know which mode is in force.
//
// # Promises
//
// The names of the promises (ORDER, PREFIX, ATOMIC, FENCED, CONVERGE, DRAIN, CALM, BOUNDED,
// ISOLATED, DURABLE THERE, NOTHING SILENT) are used throughout the documentation of this package;
// each method says which one it carries. ARCHITECTURE.md defines them.
package logical
