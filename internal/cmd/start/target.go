package start

import (
	"context"
	"log/slog"
	"net/url"
	"strings"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/installation"
	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/internal/target/sqlite"
	"github.com/tailrace-cdc/tailrace/internal/target/tally"
)

// openTarget opens what --targetConn names. A target that is down is no error: the server takes writes,
// and the loop catches up later.
func openTarget(ctx context.Context, config Config, in *installation.Installation, log *slog.Logger, counts *tally.Tally) (Target, error) {
	scheme, rest, _ := strings.Cut(config.TargetConn, ":")
	switch scheme {
	case "":
		return openSQLite(ctx, config, in.Path(EmbeddedTarget), log, counts)
	case "sqlite":
		if path := strings.TrimPrefix(rest, "//"); path != "" {
			return openSQLite(ctx, config, path, log, counts)
		}
	case "postgres", "postgresql":
		return openPostgres(ctx, config, log, counts)
	}
	return Target{}, exit.Usage(errors.Errorf(
		"--targetConn: %q names no target; write it like postgres://user:password@host/database or sqlite:/path/file.db", redact(config.TargetConn)))
}

func openSQLite(ctx context.Context, config Config, path string, log *slog.Logger, counts *tally.Tally) (Target, error) {
	target, err := sqlite.Open(ctx, sqlite.Config{
		Path: path, IgnoreMissingColumns: config.IgnoreMissingColumns, Logger: log, Tally: counts,
	})
	return Target{Target: target, Name: "sqlite:" + path}, err
}

func openPostgres(ctx context.Context, config Config, log *slog.Logger, counts *tally.Tally) (Target, error) {
	target, err := postgres.Open(ctx, postgres.Config{
		DSN: config.TargetConn, Conns: config.TargetDBConns, StagingSchema: config.StagingSchema,
		IndexTags: config.IndexTags, ApplyTimeout: config.ApplyTimeout, Logger: log, Tally: counts,
		Pooled: config.PooledTarget, IgnoreMissingColumns: config.IgnoreMissingColumns,
	})
	if err != nil {
		return Target{}, exit.Usage(errors.WithMessage(err, "--targetConn"))
	}
	return Target{Target: target, Name: redact(config.TargetConn)}, nil
}

// redact takes the password out of a connection string, and whatever else it might be hidden in.
func redact(dsn string) string {
	u, err := url.Parse(dsn)
	if err == nil && u.Host != "" {
		u.RawQuery, u.Fragment = "", ""
		return u.Redacted()
	}
	scheme, _, ok := strings.Cut(dsn, ":")
	if !ok || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz") != "" {
		return "…" // such as host=… password=…
	}
	return scheme + ":…"
}
