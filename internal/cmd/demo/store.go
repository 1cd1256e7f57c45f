package demo

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/cmd/exit"
	"github.com/tailrace-cdc/tailrace/internal/cmd/start"
)

// store is the target as the demo reads it: through a connection of its own, with SQL that anybody can
// type.
type store struct {
	db              *sql.DB
	schema, staging string // at a SQL server
	tables          string // the names of the measurements' tables
	count           string // rows, first and last second of the table %s
	letters         string
	look            string // a command to look at it
}

func openStore(o Options, dir string) (*store, error) {
	switch scheme, _, _ := strings.Cut(o.TargetConn, ":"); scheme {
	case "":
		return openSQLite(filepath.Join(dir, start.EmbeddedTarget))
	case "postgres", "postgresql":
		return openPostgres(o.TargetConn)
	}
	return nil, exit.Usage(errors.New("--targetConn: give a connection like postgres://user:password@host/database"))
}

func openSQLite(path string) (*store, error) {
	dsn := url.URL{Scheme: "file", Opaque: url.PathEscape(path), RawQuery: "mode=ro"}
	db, err := driver.Open(dsn.String())
	return &store{
		db: db, staging: start.DefaultConfig().StagingSchema,
		tables:  `SELECT '"' || target || '"' FROM _tailrace_tables ORDER BY target`,
		count:   `SELECT count(*), coalesce(min(time), 0) / 1000000000, coalesce(max(time), 0) / 1000000000 FROM %s`,
		letters: `SELECT count(*) FROM _tailrace_dead_letters`,
		look:    fmt.Sprintf("sqlite3 -readonly %s 'SELECT * FROM live_cpu ORDER BY time DESC LIMIT 5'", path),
	}, errors.Wrap(err, "the embedded target cannot be read")
}

// openPostgres gives each demo schemas of its own, so that it touches nothing that is there.
func openPostgres(dsn string) (*store, error) {
	db, err := sql.Open("pgx", dsn)
	if err == nil {
		err = db.Ping()
	}
	if err != nil {
		return nil, errors.New("--targetConn: the database cannot be reached; check host, user and password")
	}
	schema := fmt.Sprintf("tailrace_demo_%d", time.Now().Unix())
	staging := schema + "_staging"
	return &store{
		db: db, schema: schema, staging: staging,
		tables:  fmt.Sprintf(`SELECT format('%%I.%%I', target_schema, target) FROM %s.tables ORDER BY 1`, staging),
		count:   `SELECT count(*), coalesce(floor(extract(epoch FROM min(time))), 0)::bigint, coalesce(floor(extract(epoch FROM max(time))), 0)::bigint FROM %s`,
		letters: fmt.Sprintf(`SELECT count(*) FROM %s.dead_letters`, staging),
		look:    fmt.Sprintf("psql … -c 'SELECT * FROM %s.live_cpu ORDER BY time DESC LIMIT 5'", schema),
	}, nil
}

// clean drops the demo's schemas at a SQL server.
func (s *store) clean(keep bool) error {
	if keep || s.schema == "" {
		return nil
	}
	_, err := s.db.Exec(fmt.Sprintf(`DROP SCHEMA IF EXISTS %s, %s CASCADE`, s.schema, s.staging))
	return errors.Wrap(err, "the demo's schemas cannot be dropped")
}

func (s *store) close() error { return s.db.Close() }
