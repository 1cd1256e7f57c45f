package sqlite

import (
	"log/slog"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/tally"
)

// Config says which file is the target and how it is used.
type Config struct {
	// Path is the database file. It is created if it does not exist; its directory is not.
	Path string
	// Schema is the schema of the source whose tables go by their names alone. SQLite has no
	// schemas: a table of any other schema is called "schema.table", in one name. Relations without
	// a schema, or of the schema "main", go by their names alone in any case.
	Schema string
	// BusyTimeout is how long a statement waits while another program holds the file's write lock,
	// before the transaction is given up and tried again. Default 5 s.
	BusyTimeout time.Duration
	// CacheBytes bounds the page cache of the writer. Points that arrive in the order of time touch
	// few pages; raise it if they do not. Default 16 MiB.
	CacheBytes int64
	// CheckpointPages is the size of the write-ahead log, in pages of 4 KiB, at which a commit
	// copies it into the database. Default 4000 (16 MiB); see docs/sql-targets.md for what was measured.
	CheckpointPages int
	// MaxColumns bounds the columns of a table that Tailrace makes; the values that have none then go into
	// one more, as a JSON object. Default 1000; at most 1999.
	MaxColumns int
	// MaxTables bounds the tables that Tailrace makes in a schema; measurements that have none then share one
	// more. Default 10,000.
	MaxTables int
	// IgnoreMissingColumns leaves out values whose column a table of the user's does not have, instead of
	// waiting for the column. They are counted in Tally, and each column is named once in the log.
	IgnoreMissingColumns bool
	// Tally counts what nobody may miss. Default: one of the target's own.
	Tally *tally.Tally
	// Logger receives what an operator may want to know. Default: nothing is logged.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	setDefault(&c.BusyTimeout, 5*time.Second)
	setDefault(&c.CacheBytes, 16<<20)
	setDefault(&c.CheckpointPages, 4000)
	setDefault(&c.MaxColumns, 1000)
	setDefault(&c.MaxTables, 10_000)
	if c.Tally == nil {
		c.Tally = &tally.Tally{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Path == "":
		return errors.New("sqlite: no path; name the database file, such as ./tailrace.db")
	case c.Path == ":memory:":
		return errors.New("sqlite: \":memory:\" would lose everything at the end of the process; name a file")
	case c.MaxColumns > 1999: // and the overflow column
		return errors.Errorf("sqlite: MaxColumns %d is more than SQLite's own limit allows: give at most 1999", c.MaxColumns)
	case c.BusyTimeout < 0 || c.CacheBytes < 0 || c.CheckpointPages < 0 || c.MaxColumns < 0 || c.MaxTables < 0:
		return errors.New("sqlite: a setting is negative")
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
