package postgres

import (
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/tally"
	"github.com/tailrace-cdc/tailrace/internal/util/outbound"
)

// Config says which database is the target and how it is used.
type Config struct {
	// DSN is the connection string, a URL or "key=value …", as libpq understands it. It may hold a
	// password and is never logged.
	DSN string
	// Outbound says which hosts may be connected to; nil allows every one.
	Outbound *outbound.Policy
	// Conns is how many connections the target has at most, over all loops. Three of them, of fewer than
	// eight two, are kept for leases, memos and tables, so that these never wait for data. Default 16, at least 3.
	Conns int
	// StagingSchema is where Tailrace keeps its own tables. Default "_tailrace".
	StagingSchema string
	// Schema is where relations go that name no schema. Default "public".
	Schema string
	// IndexTags are tags that get an index (tag, time DESC) when a table with them is made. None by
	// default: an index halves the rate at which points are taken.
	IndexTags []string
	// ApplyTimeout bounds each statement, by the server's statement_timeout. Default 30 s.
	ApplyTimeout time.Duration
	// LockTimeout bounds how long making or altering a table waits for its lock before it is tried
	// again; the first tries are shorter. Everyone else who wants the table waits behind it, so it is short. Default 2 s.
	LockTimeout time.Duration
	// IdleTimeout is how long a transaction may be open without a word before the server ends it, so
	// that a frozen process does not hold its epoch for ever. Default 60 s.
	IdleTimeout time.Duration
	// Pooled says that a connection pooler such as PgBouncer in transaction mode stands in between:
	// nothing outlives a transaction then, neither settings nor prepared statements.
	Pooled bool
	// IgnoreMissingColumns leaves out values whose column a table of the user's does not have, instead of
	// waiting for the column. They are counted in Tally, and each column is named once in the log.
	IgnoreMissingColumns bool
	// MaxColumns bounds the columns of a table that Tailrace makes; the values that have none then go into
	// one more, as a JSON object. Default 1000; at most 1599.
	MaxColumns int
	// MaxTables bounds the tables that Tailrace makes in a schema; measurements that have none then share one
	// more. Default 10,000.
	MaxTables int
	// ApplicationName is what the server shows of its sessions. Default "tailrace".
	ApplicationName string
	// Tally counts what nobody may miss. Default: one of the target's own.
	Tally *tally.Tally
	// Logger receives what an operator may want to know. Default: nothing is logged.
	Logger *slog.Logger

	copyRows    int // see minCopyRows; tests set it
	mergeValues int // see minMergeValues; tests set it
}

// fewControlConns is how many of the connections at least are not for data.
const fewControlConns = 2

// controlConns is how many of the connections are not for data. What may wait at the server for
// somebody's lock has all but one of them, so that leases are renewed and memos saved meanwhile. If there are
// enough, what waits for tables does not keep those waiting who take loops over.
func (c Config) controlConns() int {
	if c.Conns < 8 {
		return fewControlConns
	}
	return fewControlConns + 1
}

func (c Config) withDefaults() Config {
	setDefault(&c.Conns, 16)
	setDefault(&c.StagingSchema, "_tailrace")
	setDefault(&c.Schema, "public")
	setDefault(&c.ApplyTimeout, 30*time.Second)
	setDefault(&c.LockTimeout, 2*time.Second)
	setDefault(&c.IdleTimeout, time.Minute)
	setDefault(&c.MaxColumns, 1000)
	setDefault(&c.MaxTables, 10_000)
	setDefault(&c.copyRows, minCopyRows)
	setDefault(&c.mergeValues, minMergeValues)
	setDefault(&c.ApplicationName, "tailrace")
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
	case c.DSN == "":
		return errors.New("postgres: no connection string; give one such as postgres://user@host/database")
	case c.Conns <= fewControlConns:
		return errors.Errorf("postgres: %d connections are too few; give at least %d", c.Conns, fewControlConns+1)
	case c.MaxColumns > 1599: // and the overflow column
		return errors.Errorf("postgres: MaxColumns %d is more than PostgreSQL's own limit allows: give at most 1599", c.MaxColumns)
	case c.ApplyTimeout < 0 || c.LockTimeout < 0 || c.IdleTimeout < 0 || c.MaxColumns < 0 || c.MaxTables < 0:
		return errors.New("postgres: a setting is negative")
	}
	for _, name := range []string{c.StagingSchema, c.Schema} {
		if schemaSpace().Assign(name, "") != name {
			return errors.Errorf("postgres: %q cannot be the name of a schema: give one of at most 63 bytes that does not begin with pg_ and is none of the server's own", name)
		}
	}
	return nil
}

// parse reads the connection string. Its errors hold no password.
func (c Config) parse() (*pgxpool.Config, error) {
	pool, err := pgxpool.ParseConfig(c.DSN)
	return pool, errors.Wrap(err, "postgres: connection string")
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
