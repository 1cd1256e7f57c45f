package postgres

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/preflight"
	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// oldestVersion is the oldest PostgreSQL that Tailrace is written for.
const oldestVersion = 140000

// Preflight looks whether the server could be the target, and leaves nothing behind there: what needs a
// right is tried in transactions that are rolled back.
func Preflight(ctx context.Context, cfg Config) (preflight.Report, error) {
	cfg.Logger = nil // what is made is not there afterwards
	pooled := cfg.Pooled
	cfg.Pooled = true // if there is a pooler, others get what a session leaves behind
	t, err := Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.Close() }() // nothing is open
	p := &examination{t: t, pooled: pooled}
	p.run(ctx)
	return p.report, nil
}

// An examination is one run of Preflight.
type examination struct {
	t      *Target
	pooled bool // what the configuration says
	report preflight.Report
	conn   *pgxpool.Conn

	user, database string
}

func (p *examination) run(ctx context.Context) {
	if !p.connect(ctx) {
		for _, name := range []string{"version", "encryption", "writes", "staging tables", "measurements"} {
			p.report.Add(name, preflight.Skipped, "there is no connection", "")
		}
		return
	}
	defer p.conn.Release()
	p.version(ctx)
	p.encryption()
	p.pooler(ctx)
	p.encoding(ctx)
	p.clock(ctx)
	p.durability(ctx)
	p.connections(ctx)
	if !p.writes(ctx) {
		for _, name := range []string{"staging tables", "measurements"} {
			p.report.Add(name, preflight.Skipped, "the server takes no writes", "")
		}
		return
	}
	p.staging(ctx)
	p.measurements(ctx)
}

// fail adds a check that failed, with the hint of its error unless there is better advice.
func (p *examination) fail(ctx context.Context, name string, err error, advice string) {
	err = classify(ctx, err)
	if advice == "" {
		advice = logical.HintOf(err)
	}
	if ctx.Err() != nil {
		advice = "the server did not answer in time: " + hintConnection
	}
	found := err.Error()
	var e *logical.Error
	if errors.As(err, &e) {
		found = e.Err.Error()
	}
	p.report.Add(name, preflight.Failed, oneLine(strings.TrimPrefix(found, "postgres: ")), advice)
}

// oneLine joins the lines of a message; a host that is tried with and without TLS fails twice alike.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func (p *examination) connect(ctx context.Context) bool {
	conn, err := p.t.control.Acquire(ctx)
	if err != nil {
		p.fail(ctx, "connection", err, "")
		return false
	}
	p.conn = conn
	if err := conn.QueryRow(ctx, "SELECT current_user, current_database()").Scan(&p.user, &p.database); err != nil {
		p.fail(ctx, "connection", err, "")
		conn.Release()
		return false
	}
	p.report.Add("connection", preflight.OK, fmt.Sprintf("%s, user %q, database %q", conn.Conn().PgConn().Conn().RemoteAddr(), p.user, p.database), "")
	return true
}

func (p *examination) version(ctx context.Context) {
	if p.t.crdb.Load() {
		p.report.Add("version", preflight.Warning, "CockroachDB "+p.conn.Conn().PgConn().ParameterStatus("crdb_version"),
			"Tailrace is written for CockroachDB, and was not tested with it")
		return
	}
	var number int
	var text string
	err := p.conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_version')").Scan(&number, &text)
	switch {
	case err != nil:
		p.fail(ctx, "version", err, "")
	case number < oldestVersion:
		p.report.Add("version", preflight.Failed, "PostgreSQL "+text, "use PostgreSQL 14 or newer")
	default:
		p.report.Add("version", preflight.OK, "PostgreSQL "+text, "")
	}
}

func (p *examination) encryption() {
	pg := p.conn.Conn().PgConn()
	level := tlsOf(pg, &p.conn.Conn().Config().Config)
	host, _, err := net.SplitHostPort(pg.Conn().RemoteAddr().String())
	local := err != nil || net.ParseIP(host).IsLoopback()
	if level == tlsVerified || local {
		p.report.Add("encryption", preflight.OK, string(level), "")
		return
	}
	p.report.Add("encryption", preflight.Warning, string(level), "to be sure to whom the password and the data go, set sslmode=verify-full and sslrootcert in the connection string")
}

// pooler compares the process that the server said it is with the one that answers: poolers give another.
func (p *examination) pooler(ctx context.Context) {
	if p.t.crdb.Load() {
		return
	}
	var pid uint32
	err := p.conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
	seen := pid != p.conn.Conn().PgConn().PID()
	switch {
	case err != nil:
		p.fail(ctx, "pooler", err, "")
	case seen && !p.pooled:
		p.report.Add("pooler", preflight.Warning, "something stands between Tailrace and the server",
			"if it is a pooler in transaction mode, such as PgBouncer, give --pooledTarget; in session mode it does no harm")
	case seen:
		p.report.Add("pooler", preflight.OK, "there is one, and --pooledTarget is given", "")
	case p.pooled:
		p.report.Add("pooler", preflight.Warning, "none was seen", "leave out --pooledTarget: it costs a statement for each transaction")
	default:
		p.report.Add("pooler", preflight.OK, "none", "")
	}
}

func (p *examination) encoding(ctx context.Context) {
	var encoding string
	err := p.conn.QueryRow(ctx, "SELECT current_setting('server_encoding')").Scan(&encoding)
	switch {
	case err != nil:
		p.fail(ctx, "encoding", err, "")
	case encoding != "UTF8":
		p.report.Add("encoding", preflight.Warning, encoding, "texts with characters that it lacks are refused: make the database with ENCODING 'UTF8'")
	default:
		p.report.Add("encoding", preflight.OK, encoding, "")
	}
}

// skewTold is from when on a difference between the clocks is worth telling.
const skewTold = 2 * time.Second

func (p *examination) clock(ctx context.Context) {
	var server time.Time
	sent := time.Now()
	err := p.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&server)
	if err != nil {
		p.fail(ctx, "clock", err, "")
		return
	}
	round := time.Since(sent)
	skew := server.Sub(sent.Add(round / 2))
	found := fmt.Sprintf("the server's is %s ahead of this machine's (±%s)", skew.Round(time.Millisecond), (round / 2).Round(time.Millisecond))
	if skew.Abs()-round/2 > skewTold {
		p.report.Add("clock", preflight.Warning, found, "set both by NTP: points without a time get this machine's, and leases run by the server's")
		return
	}
	p.report.Add("clock", preflight.OK, found, "")
}

func (p *examination) durability(ctx context.Context) {
	if p.t.crdb.Load() {
		return
	}
	var level, fsync, pages string
	err := p.inTx(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, "SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')").
			Scan(&level, &fsync, &pages)
	})
	found := fmt.Sprintf("synchronous_commit=%s, fsync=%s, full_page_writes=%s", level, fsync, pages)
	switch {
	case err != nil:
		p.fail(ctx, "durability", err, "")
	case fsync != "on" || pages != "on":
		p.report.Add("durability", preflight.Warning, found, "a power cut at the server may lose what Tailrace has been told is stored: set fsync and full_page_writes to on")
	default:
		p.report.Add("durability", preflight.OK, found, "")
	}
}

func (p *examination) connections(ctx context.Context) {
	if p.t.crdb.Load() {
		return
	}
	var most, used, ofRole int
	err := p.conn.QueryRow(ctx, `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
	(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user)`).
		Scan(&most, &used, &ofRole)
	free := most - used + 1 // this one is given back
	found := fmt.Sprintf("%d of %d are free, Tailrace takes at most %d", free, most, p.t.cfg.Conns)
	if ofRole >= 0 {
		free = min(free, ofRole)
		found += fmt.Sprintf("; the user may have %d", ofRole)
	}
	switch {
	case err != nil:
		p.fail(ctx, "connections", err, "")
	case free < p.t.cfg.Conns:
		p.report.Add("connections", preflight.Warning, found, "lower --targetDBConns, or raise max_connections at the server")
	default:
		p.report.Add("connections", preflight.OK, found, "")
	}
}

func (p *examination) writes(ctx context.Context) bool {
	var recovering, readOnly bool
	query := "SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::bool"
	if p.t.crdb.Load() {
		query = "SELECT false, false"
	}
	err := p.inTx(ctx, func(tx pgx.Tx) error { return tx.QueryRow(ctx, query).Scan(&recovering, &readOnly) })
	switch {
	case err != nil:
		p.fail(ctx, "writes", err, "")
	case recovering:
		p.report.Add("writes", preflight.Failed, "the server is a standby", "name the primary, or several hosts with target_session_attrs=read-write")
	case readOnly:
		p.report.Add("writes", preflight.Failed, "default_transaction_read_only is on", fmt.Sprintf("ALTER ROLE %s SET default_transaction_read_only = off, or the same of the database, or name another server", ident.Quote(p.user)))
	default:
		p.report.Add("writes", preflight.OK, "the server takes them", "")
	}
	return err == nil && !recovering && !readOnly
}

// staging makes or migrates the staging tables and writes to them.
func (p *examination) staging(ctx context.Context) {
	t := p.t
	before := int64(-1)
	err := p.inTx(ctx, func(tx pgx.Tx) error {
		var err error
		if before, err = t.migrateIn(ctx, tx); err != nil {
			return err
		}
		for _, sql := range []string{
			"INSERT INTO %sepochs (loop, epoch) VALUES ('tailrace preflight', 1) ON CONFLICT (loop) DO UPDATE SET epoch = 1",
			"INSERT INTO %sleases (loop, epoch, holder, ttl_ms, expires) VALUES ('tailrace preflight', 1, '', 1, clock_timestamp()) ON CONFLICT (loop) DO NOTHING",
			"INSERT INTO %smemo (loop, mode, updated) VALUES ('tailrace preflight', '', clock_timestamp()) ON CONFLICT (loop) DO UPDATE SET mode = ''",
			"INSERT INTO %sdead_letters (loop, relation, op, reason, time) VALUES ('tailrace preflight', '', '', '', clock_timestamp())",
			"DELETE FROM %sdead_letters WHERE loop = 'tailrace preflight'",
			"SELECT 1 FROM %stables LIMIT 1", "SELECT 1 FROM %scolumns LIMIT 1",
		} {
			if _, err := tx.Exec(ctx, fmt.Sprintf(sql, t.staging)); err != nil {
				return err
			}
		}
		return nil
	})
	schema := ident.Quote(t.cfg.StagingSchema)
	var found string
	switch {
	case sqlState(err) == "42501":
		p.fail(ctx, "staging tables", err, fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s, or CREATE SCHEMA %s AUTHORIZATION %s",
			ident.Quote(p.database), ident.Quote(p.user), schema, ident.Quote(p.user)))
		return
	case err != nil:
		p.fail(ctx, "staging tables", err, "")
		return
	case before < 0:
		found = "schema " + schema + " can be made"
	case before < int64(len(migrations())):
		found = fmt.Sprintf("schema %s has version %d, and can be brought to %d", schema, before, len(migrations()))
	default:
		found = fmt.Sprintf("schema %s is there, version %d", schema, before)
	}
	p.report.Add("staging tables", preflight.OK, found, "")
}

// measurements makes a table, extends it, and writes to it.
func (p *examination) measurements(ctx context.Context) {
	schema := ident.Quote(p.t.cfg.Schema)
	name := schema + `."tailrace preflight ` + strconv.FormatInt(time.Now().UnixNano(), 36) + `"`
	made := false
	err := p.inTx(ctx, func(tx pgx.Tx) error {
		var exists bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", p.t.cfg.Schema).Scan(&exists); err != nil {
			return err
		}
		if made = !exists; made {
			if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
				return err
			}
		}
		for _, sql := range []string{
			`CREATE TABLE ` + name + ` ("time" timestamptz NOT NULL, "series" uuid NOT NULL, "nanos" smallint NOT NULL, PRIMARY KEY ("time", "series", "nanos"))`,
			`ALTER TABLE ` + name + ` ADD COLUMN "v" double precision`,
			`INSERT INTO ` + name + ` VALUES (clock_timestamp(), '00000000-0000-0000-0000-000000000000', 0, 1)`,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case sqlState(err) == "42501" && made:
		p.fail(ctx, "measurements", err, fmt.Sprintf("GRANT CREATE ON DATABASE %s TO %s, or CREATE SCHEMA %s AUTHORIZATION %s",
			ident.Quote(p.database), ident.Quote(p.user), schema, ident.Quote(p.user)))
	case sqlState(err) == "42501":
		p.fail(ctx, "measurements", err, fmt.Sprintf("GRANT CREATE ON SCHEMA %s TO %s; tables that are there need SELECT, INSERT, UPDATE and DELETE alone", schema, ident.Quote(p.user)))
	case err != nil:
		p.fail(ctx, "measurements", err, "")
	case made:
		p.report.Add("measurements", preflight.OK, "schema "+schema+" and tables in it can be made", "")
	default:
		p.report.Add("measurements", preflight.OK, "tables can be made in schema "+schema, "")
	}
}

// inTx runs fn in a transaction that is rolled back.
func (p *examination) inTx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	tx, err := p.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // the end of everything that it did
	if _, err := tx.Exec(ctx, p.t.localSettings()); err != nil {
		return err
	}
	// Nobody who uses the tables has to wait for long.
	if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", p.t.cfg.LockTimeout.Milliseconds())); err != nil {
		return err
	}
	return fn(tx)
}
