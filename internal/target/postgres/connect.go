package postgres

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pkg/errors"
)

func (t *Target) newPool(size int) (*pgxpool.Pool, error) {
	cfg, err := t.cfg.parse()
	if err != nil {
		return nil, err
	}
	cfg.MaxConns, cfg.MinConns, cfg.MinIdleConns = int32(size), 0, 0
	cfg.MaxConnIdleTime = 5 * time.Minute
	conn := cfg.ConnConfig
	conn.RuntimeParams["application_name"] = t.cfg.ApplicationName
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = 10 * time.Second
	}
	if t.cfg.Outbound != nil {
		conn.DialFunc = t.cfg.Outbound.DialContext(&net.Dialer{Timeout: conn.ConnectTimeout, KeepAlive: 5 * time.Minute})
		// The dialer resolves names, so that it sees both the name and what it leads to.
		conn.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	}
	if t.cfg.Pooled {
		conn.DefaultQueryExecMode = pgx.QueryExecModeExec
		conn.StatementCacheCapacity, conn.DescriptionCacheCapacity = 0, 0
	}
	// A context that ends stops the statement at the server too, and not only the waiting for it.
	conn.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: 3 * time.Second}
	}
	conn.AfterConnect = func(ctx context.Context, c *pgconn.PgConn) error { return t.afterConnect(ctx, c, &conn.Config) }
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	return pool, errors.Wrap(err, "postgres: pool")
}

// afterConnect makes the session what DURABLE THERE and FENCED rest on.
func (t *Target) afterConnect(ctx context.Context, c *pgconn.PgConn, asked *pgconn.Config) error {
	crdb := c.ParameterStatus("crdb_version") != ""
	t.crdb.Store(crdb)
	if t.cfg.Pooled && t.staged.Load() {
		return nil // each transaction sets what it needs
	}
	// Behind a pooler they hold for this statement, and are read for the log.
	results, err := c.Exec(ctx, t.setSettings(crdb, t.cfg.Pooled)).ReadAll()
	if err != nil {
		return errors.Wrap(err, "postgres: session settings")
	}
	if t.staged.Load() {
		return nil
	}
	attrs := []any{
		"host", c.Conn().RemoteAddr().String(), "server_version", c.ParameterStatus("server_version"),
		"tls", string(tlsOf(c, asked)), "cockroachdb", crdb, "pooled", t.cfg.Pooled,
	}
	for i, s := range t.settings(crdb) {
		attrs = append(attrs, s.name, string(results[0].Rows[0][i]))
	}
	t.cfg.Logger.Info("postgres: connected", attrs...)
	return nil
}

// A setting is one of the session. The value is a SQL expression.
type setting struct{ name, value string }

func (t *Target) settings(crdb bool) []setting {
	common := []setting{
		{"TimeZone", "'UTC'"},
		{"statement_timeout", millis(t.cfg.ApplyTimeout)},
		{"idle_in_transaction_session_timeout", millis(t.cfg.IdleTimeout)},
	}
	if crdb {
		return common
	}
	return append(common,
		// A level that waits for more than the local disk is left as it is.
		setting{"synchronous_commit", "CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END"},
		setting{"DateStyle", "'ISO, YMD'"},
		setting{"IntervalStyle", "'postgres'"},
	)
}

// localSettings is the statement that makes them hold for one transaction, for poolers.
func (t *Target) localSettings() string { return t.setSettings(t.crdb.Load(), true) }

func (t *Target) setSettings(crdb, local bool) string {
	calls := make([]string, 0, 8)
	for _, s := range t.settings(crdb) {
		calls = append(calls, fmt.Sprintf("set_config('%s', %s, %t)", s.name, s.value, local))
	}
	return "SELECT " + strings.Join(calls, ", ")
}

func millis(d time.Duration) string { return "'" + strconv.FormatInt(d.Milliseconds(), 10) + "'" }

// transactSlowly is transact for what may wait for locks that transactions with data, or other
// programs, hold: raising an epoch, making tables. It leaves a connection to those that do not, and waits at most
// for the given time for each lock.
func (t *Target) transactSlowly(ctx context.Context, s *slot, wait time.Duration, fn func(tx pgx.Tx) error) error {
	if err := s.enter(ctx, t.closed); err != nil {
		return err
	}
	defer s.leave()
	return t.transact(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, wait.Milliseconds()))); err != nil {
			return err
		}
		return fn(tx)
	})
}

// transact runs fn in a transaction on a connection that is not for data. It must not wait for long. Its isolation is read
// committed, so that each statement sees what was committed before it got its lock.
func (t *Target) transact(ctx context.Context, fn func(tx pgx.Tx) error) error {
	if err := t.open(); err != nil {
		return err
	}
	conn, err := t.control.Acquire(ctx) // from then on it is known which server it is
	if err != nil {
		return classify(ctx, err)
	}
	defer conn.Release()
	opts := pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
	if t.crdb.Load() {
		opts = pgx.TxOptions{}
	}
	err = pgx.BeginTxFunc(ctx, conn, opts, func(tx pgx.Tx) error {
		if t.cfg.Pooled {
			if _, err := tx.Exec(ctx, t.localSettings()); err != nil {
				return err
			}
		}
		return fn(tx)
	})
	if outlived(sqlState(err)) {
		t.control.Reset()
	}
	return classify(ctx, err)
}

// outlived reports whether a SQLSTATE says something that a new connection may not: the server stops, or the
// session cannot write because of a setting or a role that it got when it began.
func outlived(code string) bool { return strings.HasPrefix(code, "57P") || code == "25006" }
