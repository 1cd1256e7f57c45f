// Package postgres opens a target that is a PostgreSQL database, or a CockroachDB one.
//
// Measurements of time series get their tables made and extended; see docs/sql-targets.md. Tables of
// databases are yours to make: the columns go by their names, and the key is the table's primary key or a
// unique one.
package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/internal/target/tally"
	"github.com/tailrace-cdc/tailrace/internal/util/outbound"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Config says which database is the target and how it is used.
type Config struct {
	// DSN is the connection string, a URL or "key=value …", as libpq understands it. It may hold a
	// password and is never logged.
	DSN string
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
	// again. Everyone else who wants the table waits behind it, so it is short. Default 2 s.
	LockTimeout time.Duration
	// IdleTimeout is how long a transaction may be open without a word before the server ends it, so
	// that a frozen process does not hold its epoch for ever. Default 60 s.
	IdleTimeout time.Duration
	// Pooled says that a connection pooler such as PgBouncer in transaction mode stands in between:
	// nothing outlives a transaction then, neither settings nor prepared statements.
	Pooled bool
	// IgnoreMissingColumns leaves out values whose column a table of yours does not have, instead of waiting
	// for the column. Each column is named once in the log.
	IgnoreMissingColumns bool
	// MaxColumns bounds the columns of a table that Tailrace makes; the values that have none then go into
	// one more, as a JSON object. Default 1000; at most 1599.
	MaxColumns int
	// MaxTables bounds the tables that Tailrace makes in a schema; measurements that have none then share one
	// more. Default 10,000.
	MaxTables int
	// AllowHosts bounds what may be connected to, for a DSN that somebody else names: names with * for any
	// characters, addresses, ranges of addresses (CIDR), "unix" for sockets of the file system. A name alone may lead to
	// public addresses only. Default: every host but those of the cloud's metadata services and other link-local ones.
	AllowHosts []string
	// ApplicationName is what the server shows of its sessions. Default "tailrace".
	ApplicationName string
	// Metrics shows what is merged, left out or put into overflow columns, for all targets that are given
	// the same registry (docs/metrics.md, Targets). Default: nothing is shown.
	Metrics prometheus.Registerer
	// Logger receives what an operator may want to know. Default: nothing is logged.
	Logger *slog.Logger
}

// Open returns the target. It does not connect: a server that is down is told by the loops that use it,
// and may heal. An error says which setting cannot work; it holds no password. The target also implements
// [logical.DeadLetters].
//
// Any number of loops may share the target and its connections.
func Open(ctx context.Context, config Config) (logical.Target, error) {
	counts, err := tally.Register(config.Metrics)
	if err != nil {
		return nil, err
	}
	inner, err := config.inner(counts)
	if err != nil {
		return nil, err
	}
	target, err := postgres.Open(ctx, inner)
	if err != nil {
		return nil, err
	}
	return target, nil
}

func (c Config) inner(counts *tally.Tally) (postgres.Config, error) {
	hosts, err := outbound.NewPolicy(c.AllowHosts)
	if err != nil {
		return postgres.Config{}, errors.WithMessage(err, "postgres: AllowHosts")
	}
	return postgres.Config{
		DSN:                  c.DSN,
		Conns:                c.Conns,
		StagingSchema:        c.StagingSchema,
		Schema:               c.Schema,
		IndexTags:            c.IndexTags,
		ApplyTimeout:         c.ApplyTimeout,
		LockTimeout:          c.LockTimeout,
		IdleTimeout:          c.IdleTimeout,
		Pooled:               c.Pooled,
		IgnoreMissingColumns: c.IgnoreMissingColumns,
		MaxColumns:           c.MaxColumns,
		MaxTables:            c.MaxTables,
		ApplicationName:      c.ApplicationName,
		Logger:               c.Logger,
		Tally:                counts,
		Outbound:             hosts,
	}, nil
}
