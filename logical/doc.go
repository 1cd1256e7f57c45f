// Package logical is the vocabulary of replication loops: what a source says, what a target must
// be able to do, and what each side promises the other.
//
// A loop reads one stream of transactions from one source through a [Dialect] and applies it to one
// [Target]. To embed loops in a program you write a dialect for your source, open a target, and hand both
// to a factory:
//
//	source ──▶ Dialect.ReadInto ──▶ messages ──▶ Dialect.Process ──▶ Events ──▶ Session, Tx ──▶ target
//	            └──────────── yours ──────────────────────────┘      └─── the loop ───┘
//
// What belongs to it:
//
//   - package logical/factory makes loops and looks after them;
//   - packages logical/target/memory, …/sqlite, …/postgres and …/influx open targets; logical/deadletter keeps the
//     dead letters of the last one;
//   - package logical/logicaltest has the tests that every dialect (RunDialect) and every target
//     (RunTarget) passes;
//   - the example of this package is a whole dialect, and examples/embed a whole program.
//
// # Writing a dialect
//
// Five methods make a [Dialect]. ReadInto reads messages from the source and sends them; it is the only one
// that touches the network, and it may fail at any time. Process decodes them and calls [Events]: OnBegin
// with a stamp, OnData with mutations, OnCommit, once per transaction of the source. ZeroStamp and
// DecodeStamp are for where to begin. The loop does all the rest, and a dialect needs to know nothing of
// targets, modes, retries or threads: ReadInto and Process run side by side, each at most once at a time.
//
// Three rules carry the promises:
//
//   - Stamps grow with every transaction, and what lies up to a stamp never changes.
//   - ReadInto(from) sends exactly what comes after from, whichever stamp that is that was ever sent; and a
//     transaction that is sent again carries the same mutations in the same order.
//   - When a message says Rollback, Process forgets the transaction that it is in, and calls OnRollback.
//
// What a source can do beyond that it says by further methods, which the loop finds: [Stalenesser] (it
// knows what waits, so that the loop can choose its mode), [Acknowledger] (it may forget what has arrived),
// [Backfiller] (it has a faster way to catch up), [Resumer] (it may have been restored from a backup), [Lessor] (only one process may read it), [Replayer] (its dead
// letters can be applied after all).
//
// # Positions
//
// A [Stamp] is a position in the source's history. The loop's consistent point is the newest stamp
// such that every transaction at or before it is in the target. It is stored with the data (see
// [Tx.SetMemo]), as JSON, and reading always resumes from it: after an error, after a crash, in another
// process.
//
// # Changes
//
// A [Mutation] changes one row, identified by its key. It carries typed [Value]s, aligned with the
// columns of a [Relation], and tells null from absent: an absent column was not sent by the source
// and must be left as it is. Values are not copied on their way: what they point to belongs to the loop
// from OnData on.
//
// # Modes
//
// While the consistent point is stale, the loop fans mutations out over several target transactions
// at once: order is kept per key, transaction boundaries are not. Once it has caught up it applies
// serially: a reader of the target sees only states that the source had at a transaction boundary.
// Neither a dialect nor a target needs to know which mode is in force; [Config] says when it changes.
//
// # Errors
//
// What goes wrong is tried again, for as long as it takes, unless the error says otherwise: an [Error] has
// a [Class], which travels with it. What the target will never accept goes the way of
// [Config].OnReject: the loop stops there, or keeps it as a [DeadLetter], or discards it. Nothing is
// skipped in silence.
//
// # Promises
//
// The names of the promises are used throughout the documentation of this package; each method says which
// one it carries.
//
//   - ORDER: two mutations of one key reach the target in source order, also across retries and modes.
//   - PREFIX: the consistent point never passes anything that is not durably in the target, kept as a dead
//     letter, or declared lost; and it only moves forward.
//   - ATOMIC: in serial mode a reader of a SQL target sees only states that the source had.
//   - FENCED: a process that died, or lost its lease, cannot write late.
//   - CONVERGE: fan mode may apply again after a crash; caught up, the target equals the source.
//   - DRAIN: the mode changes only when everything in flight has landed.
//   - CALM: the mode does not flap; an idle source is not stale.
//   - BOUNDED: what is in flight takes at most Config.BytesInFlight per loop, and all loops share a bound. A
//     message or a mutation that is larger than its part of MinBytesInFlight may come on top of that, one of
//     each per loop, when its loop has nothing else in flight there.
//   - ISOLATED: one loop's dead target or poison row does not slow another loop.
//   - DURABLE THERE: the commit that lets the consistent point advance is a durable one.
//   - NOTHING SILENT: what is skipped or set aside is counted, logged and shown.
package logical
