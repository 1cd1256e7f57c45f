package sqlite

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/ncruces/go-sqlite3"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/lease"
	"github.com/tailrace-cdc/tailrace/internal/target/overflow"
)

// A writer is the one connection that writes, and what is known about the file through it. Whoever
// has received it from Target.slot may use it, nobody else.
type writer struct {
	cfg  Config
	db   *sqlite3.Conn // nil while the file is not open
	file os.FileInfo   // the file that db has open

	// broken says that the connection cannot be trusted any more, and is closed at release.
	broken bool
	// ddl says that the open transaction has changed the schema.
	ddl bool

	control map[string]*sqlite3.Stmt // statements other than those of plans, by their text
	catalog *catalog
	scratch []byte // for values that are stored as text
	keyBuf  []byte // for looking up shapes
	object  overflow.Object
	noted   noted           // what the open transaction did that is counted when it is committed
	warned  map[string]bool // what was logged once
}

func newWriter(cfg Config) *writer { return &writer{cfg: cfg, warned: map[string]bool{}} }

// ready opens the file unless it is open, and looks whether it is still the one at the path: SQLite
// would go on writing to a file that somebody has moved or deleted.
func (w *writer) ready(ctx context.Context) error {
	if w.db != nil {
		if info, err := os.Stat(w.cfg.Path); err == nil && os.SameFile(info, w.file) {
			return nil
		}
		w.cfg.Logger.Warn("sqlite: the file is no longer the one that was opened; opening it again", "path", w.cfg.Path)
		if err := w.close(); err != nil {
			return w.classify(err, "close")
		}
	}
	if err := w.open(ctx); err != nil {
		_ = w.close() // The error of the opening is the one to report.
		return err
	}
	return nil
}

func (w *writer) open(ctx context.Context) error {
	makeFile(w.cfg.Path)
	db, err := sqlite3.OpenFlags(w.cfg.Path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE)
	if err != nil {
		return w.classify(err, "open")
	}
	w.db, w.control = db, map[string]*sqlite3.Stmt{}
	w.catalog = newCatalog()
	db.SetInterrupt(ctx)
	defer db.SetInterrupt(context.Background())
	if err := db.BusyTimeout(w.cfg.BusyTimeout); err != nil {
		return w.classify(err, "open")
	}
	if err := w.pragmas(); err != nil {
		return err
	}
	if w.file, err = os.Stat(w.cfg.Path); err != nil {
		return errors.Wrap(err, "sqlite: open")
	}
	if err := w.migrate(); err != nil {
		return err
	}
	hide(w.cfg.Path, w.file.Mode())
	return nil
}

// pragmas sets how the file is written, and insists on what DURABLE THERE rests on.
func (w *writer) pragmas() error {
	if err := w.enterWAL(); err != nil {
		return err
	}
	for _, p := range []string{
		"PRAGMA synchronous=FULL",
		fmt.Sprintf("PRAGMA cache_size=-%d", w.cfg.CacheBytes>>10),
		fmt.Sprintf("PRAGMA wal_autocheckpoint=%d", w.cfg.CheckpointPages),
		"PRAGMA journal_size_limit=67108864",
		"PRAGMA temp_store=MEMORY",
		// A replica takes rows as its source had them, in the order in which they come.
		"PRAGMA foreign_keys=OFF",
	} {
		if err := w.db.Exec(p); err != nil {
			return w.classify(err, p)
		}
	}
	var mode string
	var sync int64
	err := w.query("PRAGMA journal_mode", func(s *sqlite3.Stmt) error { mode = s.ColumnText(0); return nil })
	if err == nil {
		err = w.query("PRAGMA synchronous", func(s *sqlite3.Stmt) error { sync = s.ColumnInt64(0); return nil })
	}
	if err != nil {
		return err
	}
	if mode != "wal" || sync < 2 {
		return retry(errors.Errorf("sqlite: %s: journal mode %q and synchronous level %d are in effect, not WAL and FULL",
			w.cfg.Path, mode, sync), "put the file on a local file system that supports shared memory")
	}
	w.cfg.Logger.Info("sqlite: target opened", "path", w.cfg.Path, "journal_mode", mode, "synchronous", "FULL",
		"cache_bytes", w.cfg.CacheBytes, "wal_autocheckpoint", w.cfg.CheckpointPages)
	return nil
}

// enterWAL switches a new file to WAL mode. SQLite does not wait for the lock that this takes, and
// somebody else may be doing the same.
func (w *writer) enterWAL() error {
	deadline := time.Now().Add(w.cfg.BusyTimeout)
	for {
		err := w.db.Exec("PRAGMA journal_mode=WAL")
		if err == nil || !errors.Is(err, sqlite3.BUSY) || time.Now().After(deadline) {
			return w.classify(err, "PRAGMA journal_mode=WAL")
		}
		if err := lease.Wait(w.db.GetInterrupt(), 5*time.Millisecond); err != nil {
			return errors.Wrap(err, "sqlite: waiting for the file's lock")
		}
	}
}

// close closes the connection; a later ready opens it again.
func (w *writer) close() error {
	db := w.db
	w.db, w.file, w.control, w.catalog, w.broken, w.ddl = nil, nil, nil, nil, false, false
	if db == nil {
		return nil
	}
	db.SetInterrupt(context.Background())
	var stmts []*sqlite3.Stmt
	for s := range db.Stmts() {
		stmts = append(stmts, s)
	}
	for _, s := range stmts {
		_ = s.Close() // It repeats the error of the statement's last run.
	}
	return errors.Wrap(db.Close(), "sqlite: close")
}

// transaction runs fn between BEGIN IMMEDIATE and COMMIT.
func (w *writer) transaction(ctx context.Context, fn func(w *writer) error) error {
	w.db.SetInterrupt(ctx)
	defer w.db.SetInterrupt(context.Background())
	if err := w.begin(); err != nil {
		return err
	}
	err := fn(w)
	if err == nil {
		err = w.commit()
	}
	if err != nil {
		w.rollback()
	}
	return err
}

// begin starts a transaction that has the file's write lock.
func (w *writer) begin() error {
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	w.ddl, w.noted = false, noted{}
	if err := w.catalog.refresh(w); err != nil {
		w.rollback()
		return err
	}
	return nil
}

func (w *writer) commit() error {
	if w.ddl {
		// What changed is known here; only a change by somebody else makes the catalog forget it.
		version, err := w.schemaVersion()
		if err != nil {
			return err
		}
		w.catalog.version = version
	}
	stmt, err := w.prepared("COMMIT")
	if err == nil {
		err = stmt.Exec()
	}
	if err != nil {
		return w.classifyCommit(err)
	}
	w.ddl = false
	w.noted.count(w.cfg.Tally)
	return nil
}

// rollback gives the open transaction up; SQLite may have done so by itself.
func (w *writer) rollback() {
	w.db.SetInterrupt(context.Background())
	if !w.db.GetAutocommit() {
		if err := w.db.Exec("ROLLBACK"); err != nil {
			w.broken = true
		}
	}
	if w.ddl {
		w.ddl = false
		w.catalog.flush()
	}
}

// exec runs a statement with arguments (int64, string, []byte or nil), keeping it prepared.
func (w *writer) exec(sql string, args ...any) error {
	return w.query(sql, nil, args...)
}

// query runs a statement and calls row for each row of its result.
func (w *writer) query(sql string, row func(*sqlite3.Stmt) error, args ...any) error {
	stmt, err := w.prepared(sql)
	if err != nil {
		return w.classify(err, sql)
	}
	if err := bindAll(stmt, args); err != nil {
		return w.classify(err, sql)
	}
	for stmt.Step() {
		if row == nil {
			continue
		}
		if err := row(stmt); err != nil {
			_ = stmt.Reset() // The caller's error is the one to report.
			return err
		}
	}
	err = stmt.Err()
	if resetErr := stmt.Reset(); err == nil {
		err = resetErr
	}
	return w.classify(err, sql)
}

func (w *writer) prepared(sql string) (*sqlite3.Stmt, error) {
	if stmt := w.control[sql]; stmt != nil {
		return stmt, nil
	}
	stmt, _, err := w.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, err
	}
	w.control[sql] = stmt
	return stmt, nil
}

func bindAll(stmt *sqlite3.Stmt, args []any) error {
	for i, arg := range args {
		var err error
		switch v := arg.(type) {
		case nil:
			err = stmt.BindNull(i + 1)
		case int64:
			err = stmt.BindInt64(i+1, v)
		case string:
			err = stmt.BindText(i+1, v)
		case []byte:
			err = stmt.BindBlob(i+1, v)
		default:
			err = errors.Errorf("sqlite: argument of type %T", arg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
