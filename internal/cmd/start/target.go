package start

import (
	"context"
	"log/slog"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/targetconn"
	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/internal/installation"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/internal/target/sqlite"
	"github.com/tailrace-cdc/tailrace/internal/target/tally"
)

// openTarget opens what --targetConn names. A target that is down is no error: the server takes writes,
// and the loop catches up later.
func openTarget(
	ctx context.Context, config Config, in *installation.Installation, letters *deadletter.Store, log *slog.Logger, counts *tally.Tally,
) (Target, error) {
	kind, path, err := targetconn.Parse(config.TargetConn)
	if err != nil {
		return Target{}, exit.Usage(err)
	}
	switch kind {
	case targetconn.Embedded:
		return openSQLite(ctx, config, in.Path(EmbeddedTarget), log, counts)
	case targetconn.SQLite:
		return openSQLite(ctx, config, path, log, counts)
	case targetconn.InfluxDB:
		return openInflux(config, letters, log)
	}
	return openPostgres(ctx, config, log, counts)
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
	return Target{Target: target, Name: targetconn.Redact(config.TargetConn)}, nil
}

func openInflux(config Config, letters *deadletter.Store, log *slog.Logger) (Target, error) {
	remote, err := influx.ParseURL(config.TargetConn)
	if err != nil {
		return Target{}, exit.Usage(errors.WithMessage(err, "--targetConn"))
	}
	remote.ID, remote.Token, remote.Version = DefaultStream, config.TargetToken, config.Version
	remote.DeadLetters, remote.Logger = letters, log
	target, err := influx.Open(remote)
	if err != nil {
		return Target{}, exit.Usage(errors.WithMessage(err, "--targetConn"))
	}
	return Target{Target: target, Name: target.Name()}, nil
}
