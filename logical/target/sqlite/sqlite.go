// Package sqlite opens a target that is one SQLite database file. Its driver needs no cgo.
//
// Measurements of time series get their tables made and extended; see docs/sql-targets.md. Tables of
// databases are yours to make: the columns go by their names, and the key is the table's primary key.
package sqlite

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/internal/target/sqlite"
	"github.com/tailrace-cdc/tailrace/internal/target/tally"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Config says which file is the target and how it is used.
type Config struct {
	// Path is the database file. It is created if it does not exist; its directory is not.
	Path string
	// Schema is the schema of the source whose tables go by their names alone. SQLite has no schemas: a
	// table of any other schema is called "schema.table", in one name. Relations without a schema, or of
	// the schema "main", go by their names alone in any case.
	Schema string
	// BusyTimeout is how long a statement waits while another program holds the file's write lock, before
	// the transaction is given up and tried again. Default 5 s.
	BusyTimeout time.Duration
	// CacheBytes bounds the page cache of the writer. Rows that arrive in the order of their keys touch few
	// pages; raise it if they do not. Default 16 MiB.
	CacheBytes int64
	// CheckpointPages is the size of the write-ahead log, in pages of 4 KiB, at which a commit copies it
	// into the database. Default 4000 (16 MiB).
	CheckpointPages int
	// MaxColumns bounds the columns of a table that is made for a measurement; the values that have none then
	// go into one more, as a JSON object. Default 1000; at most 1999.
	MaxColumns int
	// MaxTables bounds the tables that are made for a schema; measurements that have none then share one
	// more. Default 10,000.
	MaxTables int
	// IgnoreMissingColumns leaves out values whose column a table of yours does not have, instead of waiting
	// for the column. Each column is named once in the log.
	IgnoreMissingColumns bool
	// Metrics shows what is merged, left out or put into overflow columns, for all targets that are given
	// the same registry (docs/metrics.md, Targets). Default: nothing is shown.
	Metrics prometheus.Registerer
	// Logger receives what an operator may want to know. Default: nothing is logged.
	Logger *slog.Logger
}

// Open returns the target. It does not touch the file: whatever is wrong with that is told by the loops
// that use it, and may heal. An error says which setting cannot work. The target also implements
// [logical.DeadLetters].
//
// One program at a time writes to the file; readers of the file see committed transactions only. Any
// number of loops may share the target, and take turns.
func Open(ctx context.Context, config Config) (logical.Target, error) {
	counts, err := tally.Register(config.Metrics)
	if err != nil {
		return nil, err
	}
	target, err := sqlite.Open(ctx, config.inner(counts))
	if err != nil {
		return nil, err
	}
	return target, nil
}

func (c Config) inner(counts *tally.Tally) sqlite.Config {
	return sqlite.Config{
		Path: c.Path, Schema: c.Schema, BusyTimeout: c.BusyTimeout, CacheBytes: c.CacheBytes,
		CheckpointPages: c.CheckpointPages, MaxColumns: c.MaxColumns, MaxTables: c.MaxTables,
		IgnoreMissingColumns: c.IgnoreMissingColumns, Logger: c.Logger, Tally: counts,
	}
}
