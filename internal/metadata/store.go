package metadata

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/pkg/errors"
)

// Config says where the store is.
type Config struct {
	// Path is the file, which is made with mode 0600 if it does not exist.
	Path string
	// Key encrypts the secrets of remotes: KeySize random bytes that are kept elsewhere.
	Key []byte
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// A Store is an open file. Its methods may be called concurrently.
type Store struct {
	db    *sql.DB
	vault vault
	ids   *ids
	now   func() time.Time
}

// Open opens the file, or makes it.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	v, err := newVault(cfg.Key)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(cfg.Path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, errors.Wrap(err, "metadata")
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, errors.Wrap(err, "metadata")
	}
	// The journal is truncated and not unlinked, so that a commit is durable with FULL; its mode is that
	// of the file, because it holds what the file held.
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{
		"modeof":  {path},
		"_pragma": {"busy_timeout(5000)", "journal_mode(truncate)", "synchronous(full)", "foreign_keys(on)", "secure_delete(on)"},
	}.Encode()}
	db, err := driver.Open(dsn.String())
	if err != nil {
		return nil, errors.Wrapf(err, "metadata: %s", cfg.Path)
	}
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db, migrations); err != nil {
		_ = db.Close() // the first error says more
		return nil, errors.WithMessage(err, cfg.Path)
	}
	return &Store{db: db, vault: v, ids: newIDs(cfg.Now), now: cfg.Now}, nil
}

// Close closes the file.
func (s *Store) Close() error { return errors.Wrap(s.db.Close(), "metadata") }

// A tx is one transaction.
type tx struct {
	*sql.Tx
	ctx context.Context
	s   *Store
}

// do runs fn in a transaction, which is committed if fn returns nil.
func (s *Store) do(ctx context.Context, fn func(t tx) error) error {
	raw, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return errors.Wrap(err, "metadata")
	}
	defer func() { _ = raw.Rollback() }() // it does nothing after a commit
	if err := fn(tx{raw, ctx, s}); err != nil {
		return err
	}
	return errors.Wrap(raw.Commit(), "metadata")
}

// exec runs a statement. A name that is taken becomes a ConflictError, a reference to nothing an
// InvalidError.
func (t tx) exec(kind Kind, name, query string, args ...any) (changed int64, err error) {
	res, err := t.ExecContext(t.ctx, query, args...)
	switch {
	case err == nil:
		n, err := res.RowsAffected()
		return n, errors.Wrap(err, "metadata")
	case errors.Is(err, sqlite3.CONSTRAINT_UNIQUE):
		return 0, &ConflictError{Kind: kind, Name: name}
	case errors.Is(err, sqlite3.CONSTRAINT_FOREIGNKEY):
		return 0, &InvalidError{Field: string(kind), Reason: "it refers to something that does not exist"}
	}
	return 0, errors.Wrapf(err, "metadata: %s %q", kind, name)
}

// list returns the first column of a query, as texts.
func (t tx) list(query string, args ...any) (texts []string, err error) {
	rows, err := t.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, errors.Wrap(err, "metadata")
	}
	defer func() { _ = rows.Close() }() // Err says what went wrong
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, errors.Wrap(err, "metadata")
		}
		texts = append(texts, text)
	}
	return texts, errors.Wrap(rows.Err(), "metadata")
}

// table is how a kind is stored.
type table[T any] struct {
	kind    Kind
	name    string
	columns string
	scan    func(s *Store, row func(...any) error) (T, error)
}

// one returns the row that a condition finds.
func (tb table[T]) one(t tx, ref, where string, args ...any) (T, error) {
	row := t.QueryRowContext(t.ctx, "SELECT "+tb.columns+" FROM "+tb.name+" WHERE "+where, args...)
	v, err := tb.scan(t.s, row.Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return v, &NotFoundError{Kind: tb.kind, Ref: ref}
	}
	return v, errors.Wrapf(err, "metadata: %s %s", tb.kind, ref)
}

// all returns the rows that a condition finds, by id.
func (tb table[T]) all(ctx context.Context, s *Store, where string, args ...any) (found []T, err error) {
	err = s.do(ctx, func(t tx) error {
		found, err = tb.in(t, where, args...)
		return err
	})
	return found, err
}

// in is all within a transaction.
func (tb table[T]) in(t tx, where string, args ...any) ([]T, error) {
	found := []T{}
	rows, err := t.QueryContext(t.ctx, "SELECT "+tb.columns+" FROM "+tb.name+" WHERE "+where+" ORDER BY id", args...)
	if err != nil {
		return nil, errors.Wrapf(err, "metadata: list %s", tb.name)
	}
	defer func() { _ = rows.Close() }() // Err says what went wrong
	for rows.Next() {
		v, err := tb.scan(t.s, rows.Scan)
		if err != nil {
			return nil, errors.Wrapf(err, "metadata: list %s", tb.name)
		}
		found = append(found, v)
	}
	return found, errors.Wrapf(rows.Err(), "metadata: list %s", tb.name)
}

// condition collects the parts of a WHERE.
type condition struct {
	parts []string
	args  []any
}

func (c *condition) and(part string, arg any) {
	c.parts, c.args = append(c.parts, part), append(c.args, arg)
}

func (c *condition) id(column string, id ID) {
	if id != 0 {
		c.and(column+" = ?", int64(id))
	}
}

func (c *condition) text(column, text string) {
	if text != "" {
		c.and(column+" = ?", text)
	}
}

func (c *condition) where() string {
	if len(c.parts) == 0 {
		return "true"
	}
	return strings.Join(c.parts, " AND ")
}

// checkName reports what cannot be a name.
func checkName(name string) error {
	const longest = 1024
	switch {
	case strings.TrimSpace(name) == "":
		return &InvalidError{Field: "name", Reason: "give a name"}
	case len(name) > longest:
		return &InvalidError{Field: "name", Reason: "it is longer than 1024 bytes"}
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }):
		return &InvalidError{Field: "name", Reason: "it has control characters, or is not UTF-8"}
	}
	return nil
}

// instant is a time as it is stored: nanoseconds since 1970.
type instant time.Time

// Scan implements sql.Scanner.
func (i *instant) Scan(v any) error {
	ns, ok := v.(int64)
	if !ok {
		return errors.Errorf("metadata: %T is no time", v)
	}
	*i = instant(time.Unix(0, ns).UTC())
	return nil
}
