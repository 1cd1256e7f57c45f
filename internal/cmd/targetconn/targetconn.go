// Package targetconn reads what --targetConn says.
package targetconn

import (
	"net/url"
	"strings"

	"github.com/pkg/errors"
)

// A Kind is a kind of target.
type Kind int

// The kinds.
const (
	Embedded Kind = iota // nothing was given
	SQLite
	Postgres
	InfluxDB // or what speaks like one, over HTTP
)

// Parse returns the kind of target that a connection string names, and for SQLite the path of the file.
// Its errors tell no password.
func Parse(conn string) (kind Kind, path string, err error) {
	scheme, rest, _ := strings.Cut(conn, ":")
	switch scheme {
	case "":
		if conn == "" {
			return Embedded, "", nil
		}
	case "sqlite":
		if path := strings.TrimPrefix(rest, "//"); path != "" {
			return SQLite, path, nil
		}
	case "postgres", "postgresql":
		return Postgres, "", nil
	case "http", "https":
		return InfluxDB, "", nil
	}
	return 0, "", errors.Errorf("--targetConn: %q names no target; write it like postgres://user:password@host/database, sqlite:/path/file.db or http://host:8086?org=ORG&bucket=BUCKET", Redact(conn))
}

// Redact takes the password out of a connection string, and whatever else it might be hidden in.
func Redact(conn string) string {
	u, err := url.Parse(conn)
	if err == nil && u.Host != "" {
		u.RawQuery, u.Fragment = "", ""
		return u.Redacted()
	}
	scheme, rest, ok := strings.Cut(conn, ":")
	switch {
	case scheme == "sqlite":
		return "sqlite:" + strings.TrimPrefix(rest, "//")
	case !ok || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz") != "":
		return "…" // such as host=… password=…
	}
	return scheme + ":…"
}
