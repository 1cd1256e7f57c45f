// Package sqlite writes loops into an SQLite database: one file, no server, the embedded default.
//
//	target, err := sqlite.Open(ctx, sqlite.Config{Path: "tailrace.db"})
//	session, err := target.Take(ctx, logical.Claim{Loop: "…", Holder: "…", TTL: 30 * time.Second})
//
// # The file
//
// The database runs in WAL mode with synchronous=FULL: when a commit returns, it is on disk (DURABLE
// THERE). Other programs may read it at any time, with any SQLite; while one of them holds its write
// lock, transactions are tried again.
//
// A measurement is a table
//
//	CREATE TABLE "cpu" (
//		"time"   INTEGER NOT NULL, -- nanoseconds since 1970, negative before
//		"series" BLOB NOT NULL,    -- 16 bytes that stand for the tag set
//		"host"   TEXT,             -- a tag
//		"usage"  REAL,             -- a field
//		PRIMARY KEY ("time", "series")
//	) STRICT, WITHOUT ROWID
//
// that is made and extended as points arrive. Tables of databases have to be there. docs/types.md
// says how each type is stored, docs/sql-targets.md how names are chosen and what a table must look
// like that somebody else made.
//
// # One writer
//
// SQLite lets one transaction write at a time. The target has one connection that writes, and
// whoever wants to write waits for it, as long as its context allows. A transaction takes it with its
// first change and keeps it until its end. What only reads has a connection of its own.
//
// # Fencing
//
// Every transaction holds the file's write lock and looks at its loop's epoch first; a successor
// needs the same lock to raise the epoch. So a transaction is over before its successor's first, or
// it does nothing (FENCED). Leases lie beside the epochs, for the rare case that two processes are
// given one file.
package sqlite
