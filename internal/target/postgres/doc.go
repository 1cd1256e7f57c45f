// Package postgres writes loops into PostgreSQL, and into CockroachDB, which speaks its protocol.
//
//	target, err := postgres.Open(ctx, postgres.Config{DSN: "postgres://…"})
//	session, err := target.Take(ctx, logical.Claim{Loop: "…", Holder: "…", TTL: 30 * time.Second})
//
// A server that is down when the target is opened is no error; Take reports it until it is up.
//
// # How a transaction travels
//
// A transaction collects statements and sends them together, in the protocol's pipeline mode: a small
// one is BEGIN, the proof of its epoch, its rows, its memo and COMMIT in one round trip. Large ones
// are sent in parts as they come.
//
// Within a call of Apply mutations are merged by key, so that no statement touches a row twice, and
// put together by table, operation and columns. Each group is one statement whose parameters are
// arrays, one per column ("INSERT … SELECT … FROM unnest(…) ON CONFLICT …"), so the number of rows is
// not bounded by the number of parameters. Rows are sorted by key, so that transactions that run at
// once lock them in one order.
//
// Where mutations of different keys may depend on each other (a second unique key, foreign keys, keys
// that are equal although their bytes differ), this is done behind a savepoint, and when it fails the
// mutations are applied one by one in the order in which they came.
//
// # Values
//
// Values travel in the binary form of the column's type. What does not fit is found before anything
// is sent, and named (logical.RejectedOf). Types that have no form here travel as text that the
// server casts. docs/types.md has the table.
//
// # Fencing
//
// Every transaction shares an advisory lock with the others of its loop, and compares its epoch with
// the one stored. Raising the epoch takes that lock alone, and so waits until each transaction of the
// old epoch is over, wherever its client may be (FENCED). A transaction that nobody drives any more is
// ended by the server: statement_timeout and idle_in_transaction_session_timeout see to that.
//
// # Tables
//
// Tables of points are made and extended by Prepare, in short transactions of their own that follow
// one another, however many processes do so at once. docs/sql-targets.md says what they look like and
// which tables of others can be used.
package postgres
