package postgres

import (
	"context"
	stderrors "errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

func retry(err error, hint string) error {
	return &logical.Error{Err: err, Class: logical.ClassRetry, Hint: hint}
}

func fenced(loop string) error {
	return &logical.Error{
		Err:   errors.Errorf("postgres: the epoch of loop %q belongs to somebody else", loop),
		Class: logical.ClassFenced,
	}
}

// classify gives an error its class and a hint. One that has a class already passes through; one
// that comes of the context's end is the context's.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, done := stderrors.AsType[*logical.Error](err); done {
		return err
	}
	if ctx.Err() != nil {
		if errors.Is(err, ctx.Err()) {
			return errors.Wrap(err, "postgres")
		}
		return errors.Wrapf(ctx.Err(), "postgres: %v", err)
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return retry(errors.Wrap(err, "postgres"), hintConnection)
	}
	class, hint := classOf(pg.Code)
	text := pg.Message
	if pg.Detail != "" {
		text += ": " + pg.Detail
	}
	return &logical.Error{
		Err:   &sqlError{PgError: pg, text: "postgres: " + text + " (SQLSTATE " + pg.Code + ")"},
		Class: class,
		Hint:  hint,
	}
}

// A sqlError is a server's error with its detail in its text.
type sqlError struct {
	*pgconn.PgError
	text string
}

func (e *sqlError) Error() string { return e.text }

func (e *sqlError) Unwrap() error { return e.PgError }

// sqlState returns the SQLSTATE that travels with err, or "".
func sqlState(err error) string {
	if pg, ok := stderrors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

const (
	hintConnection = "check that the server runs and can be reached, and the connection string"
	hintSchema     = "the schema is not what was found before; it is read again"
)

// A rule gives a class to all SQLSTATEs that begin with a prefix.
type rule struct {
	prefix string
	class  logical.Class
	hint   string
}

// rules lists what may be done about which SQLSTATE; the longest prefix counts.
func rules() []rule {
	const (
		retry, conflict, constraint, reject = logical.ClassRetry, logical.ClassConflict, logical.ClassConstraint, logical.ClassReject
	)
	return []rule{
		{"08", retry, hintConnection},
		{"0A000", retry, hintSchema}, // a cached plan whose result changed; otherwise something that the server cannot do
		{"21000", reject, ""},        // two rows of one statement with one key
		{"22", reject, ""},           // the value does not fit the type
		{"23", reject, ""},
		{"23503", constraint, ""}, // foreign key: the other row may be on its way
		{"23505", constraint, ""}, // a unique key other than the row's own
		{"23P01", constraint, ""}, // an exclusion constraint
		{"25006", retry, "the server takes no writes: it is a standby, or set to read-only; name the primary"},
		{"25P03", retry, "the transaction was idle for too long"},
		{"28", retry, "check the user and password, and the server's pg_hba.conf"},
		{"3D000", retry, "create the database"},
		{"3F000", retry, "create the schema"},
		{"40", conflict, ""},
		{"40003", logical.ClassUnknownCommit, ""},
		{"42", retry, "the server says what is wrong; the schema is read again before the next try"},
		{"42P02", retry, hintSchema},
		{"42804", retry, hintSchema}, // a column of another type
		{"42883", retry, hintSchema}, // the same, as an operator's
		{"42P10", retry, "the unique index that was found before is gone: create one on the key"},
		{"428C9", retry, "a column became a generated one; it is left to the server from the next try on"},
		{"42501", retry, "grant the right to Tailrace's user"},
		{"42P01", retry, "the table is missing: create it, or let it be made again"},
		{"42701", retry, "there is a column of that name: rename it, unless the next try finds it"},
		{"42710", retry, "there is a type or another object of that name: rename it, unless the next try finds a free name"},
		{"42939", retry, "the server keeps that name for itself: name another schema or table"},
		{"42P06", retry, "somebody else made the schema; it is found by the next try"},
		{"42P07", retry, "there is a table, index or view of that name: rename it, unless the next try finds a free name"},
		{"42703", retry, "a column is missing: add it, or let it be made again"},
		{"44000", reject, ""}, // WITH CHECK OPTION of a view
		{"53100", retry, "free space on the server's disk"},
		{"53200", retry, "the server is out of memory"},
		{"53300", retry, "raise max_connections at the server, or lower the number of connections"},
		{"54000", reject, ""}, // a row or an index entry larger than the server can store
		{"55P03", retry, "another session holds a lock on the table: end its transaction"},
		{"57014", retry, "the statement took longer than the apply timeout: another session may hold a lock on the table, or the server is slow"},
		{"57P", retry, "the server is starting or stopping, or an administrator ended the connection"},
		{"58", retry, "check the server's disk and its log"},
		{"P0", reject, ""}, // a trigger refused the row
		{"XX", retry, "check the server's log"},
	}
}

// classOf says what may be done about a SQLSTATE. What is not listed may heal.
func classOf(code string) (logical.Class, string) {
	best := rule{class: logical.ClassRetry}
	for _, r := range rules() {
		if strings.HasPrefix(code, r.prefix) && len(r.prefix) > len(best.prefix) {
			best = r
		}
	}
	return best.class, best.hint
}

// isSchemaError reports whether a statement failed because the schema is not what was planned for.
func isSchemaError(err error) bool {
	code := sqlState(err)
	return strings.HasPrefix(code, "42") && code != "42501" || code == "0A000" || code == "3F000" || code == "22P03"
}
