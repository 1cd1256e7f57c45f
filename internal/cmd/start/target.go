package start

import (
	"context"
	"log/slog"
	"net/url"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/internal/target/sqlite"
	"github.com/tailrace-cdc/tailrace/logical"
)

// ProvideOpener makes what opens the targets of remotes. A target that is down is no error: the server
// takes writes, and the loop catches up later.
func ProvideOpener(config Config, log *slog.Logger) remote.Opener {
	return func(ctx context.Context, c remote.Connection) (logical.Target, error) {
		switch c.Address.Kind {
		case remote.SQLite:
			return sqlite.Open(ctx, sqlite.Config{Path: c.Address.Path, Logger: log})
		case remote.Postgres:
			dsn, err := withPassword(c.Address.Text, c.Secret)
			if err != nil {
				return nil, err
			}
			return postgres.Open(ctx, postgres.Config{
				DSN: dsn, Conns: config.TargetDBConns, StagingSchema: config.StagingSchema,
				IndexTags: config.IndexTags, ApplyTimeout: config.ApplyTimeout, Logger: log,
			})
		}
		return nil, errors.Errorf("remotes of the kind %s cannot be opened", c.Address.Kind)
	}
}

// withPassword puts the password where the driver looks for it.
func withPassword(address, password string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errors.New("the address is malformed")
	}
	if password != "" {
		u.User = url.UserPassword(u.User.Username(), password)
	}
	return u.String(), nil
}

// targetConn reads --targetConn.
func (c Config) targetConn() (a remote.Address, secret string, err error) {
	if c.TargetConn == "" {
		return remote.Address{Kind: remote.SQLite, Text: "sqlite:" + EmbeddedTarget, Path: EmbeddedTarget}, "", nil
	}
	a, secret, err = remote.Parse(c.TargetConn)
	if err != nil {
		return a, "", exit.Usage(errors.WithMessage(err, "--targetConn"))
	}
	if a.Kind == remote.SQLite {
		// It is relative to where the command runs now.
		if a.Path, err = filepath.Abs(a.Path); err != nil {
			return a, "", errors.Wrap(err, "--targetConn")
		}
		a.Text = "sqlite:" + filepath.ToSlash(a.Path)
	}
	return a, secret, nil
}
