package start

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/internal/target/sqlite"
	"github.com/tailrace-cdc/tailrace/internal/target/tally"
	"github.com/tailrace-cdc/tailrace/logical"
)

// ProvideOpener makes what opens the targets of remotes. A target that is down is no error: the server
// takes writes, and the loop catches up later.
func ProvideOpener(config Config, log *slog.Logger, counts *tally.Tally, letters *deadletter.Store) remote.Opener {
	return func(ctx context.Context, c remote.Connection) (logical.Target, error) {
		switch c.Address.Kind {
		case remote.SQLite:
			return sqlite.Open(ctx, sqlite.Config{
				Path: c.Address.Path, IgnoreMissingColumns: config.IgnoreMissingColumns, Logger: log, Tally: counts,
			})
		case remote.Postgres:
			return postgres.Open(ctx, postgres.Config{
				DSN: dataSource(c), Outbound: c.Outbound, Conns: config.TargetDBConns, StagingSchema: config.StagingSchema,
				IndexTags: config.IndexTags, ApplyTimeout: config.ApplyTimeout, Logger: log, Tally: counts,
				Pooled: config.PooledTarget, IgnoreMissingColumns: config.IgnoreMissingColumns,
			})
		case remote.Influx:
			return openInflux(config, c, log, letters)
		}
		return nil, errors.Errorf("remotes of the kind %s cannot be opened", c.Address.Kind)
	}
}

// openInflux opens another InfluxDB. A user in the address has a password, and no token.
func openInflux(config Config, c remote.Connection, log *slog.Logger, letters *deadletter.Store) (logical.Target, error) {
	u := c.Address.URL()
	in := influx.Config{
		ID: c.Stream, Kind: influx.Kind(u.Query().Get("kind")), Org: c.Org, Bucket: c.Bucket, Token: c.Secret,
		AllowInsecureTLS: c.AllowInsecureTLS, Outbound: c.Outbound, Version: config.Version, DeadLetters: letters, Logger: log.With("stream", c.Stream),
	}
	if u.User != nil {
		in.Username, in.Password, in.Token = u.User.Username(), c.Secret, ""
	}
	u.User, u.RawQuery = nil, ""
	in.URL = u.String()
	return influx.Open(in)
}

// dataSource puts the password where the driver looks for it. A remote that came over the API has no other
// than its own: the driver would take one from the environment, or from the operator's password file.
func dataSource(c remote.Connection) string {
	u := c.Address.URL()
	if c.Secret != "" {
		u.User = url.UserPassword(u.User.Username(), c.Secret)
	}
	if c.Outbound != nil {
		query := u.Query()
		query.Set("passfile", os.DevNull)
		if c.Secret == "" {
			query.Set("password", "")
		}
		u.RawQuery = query.Encode()
	}
	return u.String()
}

// A defaultTarget is what --targetConn says.
type defaultTarget struct {
	address remote.Address
	secret  string
	// org and bucket say where in an InfluxDB.
	org, bucket string
}

// targetConn reads --targetConn and --targetToken.
func (c Config) targetConn() (t defaultTarget, err error) {
	conn := c.TargetConn
	switch {
	case conn == "":
		t.address = remote.Address{Kind: remote.SQLite, Text: "sqlite:" + EmbeddedTarget, Path: EmbeddedTarget}
		t.secret = c.TargetToken
		return t, nil
	case strings.HasPrefix(conn, "http:"), strings.HasPrefix(conn, "https:"):
		in, err := influx.ParseURL(conn)
		if err != nil {
			return t, exit.Usage(errors.WithMessage(err, "--targetConn"))
		}
		conn, t.org, t.bucket = in.URL, in.Org, in.Bucket
		if in.Kind != "" {
			conn += "?kind=" + string(in.Kind)
		}
	}
	if t.address, t.secret, err = remote.Parse(conn); err != nil {
		return t, exit.Usage(errors.WithMessage(err, "--targetConn"))
	}
	if c.TargetToken != "" {
		t.secret = c.TargetToken
	}
	if t.address.Kind == remote.SQLite {
		// It is relative to where the command runs now.
		if t.address.Path, err = filepath.Abs(t.address.Path); err != nil {
			return t, errors.Wrap(err, "--targetConn")
		}
		t.address.Text = "sqlite:" + filepath.ToSlash(t.address.Path)
	}
	return t, nil
}

// checkTargetConn reports settings of --targetConn that cannot work. Those of a remote that is stored are
// a state of its streams; those of a flag are a mistake to be told at once.
func checkTargetConn(ctx context.Context, config Config, open remote.Opener) error {
	if config.TargetConn == "" {
		return nil
	}
	t, err := config.targetConn()
	if err != nil {
		return err
	}
	target, err := open(ctx, remote.Connection{Stream: Default, Address: t.address, Secret: t.secret, Org: t.org, Bucket: t.bucket})
	if err != nil {
		return exit.Usage(errors.WithMessage(err, "--targetConn"))
	}
	return target.Close()
}
