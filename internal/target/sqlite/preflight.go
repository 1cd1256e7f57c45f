package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/preflight"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Preflight looks whether the file could be the target, and leaves it as it is: what writes is tried in a
// transaction that is rolled back. A file that is not there yet is not made.
func Preflight(ctx context.Context, cfg Config) (preflight.Report, error) {
	cfg.Logger = nil // what is made is not there afterwards
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &examination{cfg: cfg.withDefaults()}
	if p.directory() && p.exists() {
		p.file(ctx)
	}
	return p.report, nil
}

// An examination is one run of Preflight.
type examination struct {
	cfg    Config
	report preflight.Report
}

// fail adds a check that failed, with the hint of its error.
func (p *examination) fail(name string, err error) {
	found := err.Error()
	var e *logical.Error
	if errors.As(err, &e) {
		found = e.Err.Error()
	}
	p.report.Add(name, preflight.Failed, strings.TrimPrefix(found, "sqlite: "), logical.HintOf(err))
}

// directory makes a file beside the database, as SQLite does for its log.
func (p *examination) directory() bool {
	dir := filepath.Dir(p.cfg.Path)
	f, err := os.CreateTemp(dir, ".tailrace-preflight-*")
	switch {
	case errors.Is(err, os.ErrNotExist):
		p.report.Add("directory", preflight.Failed, "there is no directory "+dir, "make it, for the user that Tailrace runs as")
		return false
	case err != nil:
		p.report.Add("directory", preflight.Failed, err.Error(), "make the directory writable for the user that Tailrace runs as")
		return false
	}
	_ = f.Close() // nothing was written
	if err := os.Remove(f.Name()); err != nil {
		p.report.Add("directory", preflight.Failed, err.Error(), "make the directory writable for the user that Tailrace runs as")
		return false
	}
	if diskFull(p.cfg.Path) {
		p.report.Add("directory", preflight.Failed, "there is no space left in "+dir, hintFull)
		return false
	}
	p.report.Add("directory", preflight.OK, dir+" can be written to", "")
	return true
}

// exists looks for the file; one that is not there will be made.
func (p *examination) exists() bool {
	info, err := os.Stat(p.cfg.Path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		p.report.Add("file", preflight.OK, p.cfg.Path+" will be made", "")
		return false
	case err != nil:
		p.report.Add("file", preflight.Failed, err.Error(), "")
		return false
	case info.IsDir():
		p.report.Add("file", preflight.Failed, p.cfg.Path+" is a directory", "name a file in it")
		return false
	}
	return true
}

// file opens the database, and writes to it.
func (p *examination) file(ctx context.Context) {
	w := newWriter(p.cfg)
	db, err := sqlite3.OpenFlags(p.cfg.Path, sqlite3.OPEN_READWRITE)
	if err != nil {
		p.fail("file", w.classify(err, "open"))
		return
	}
	w.db, w.control, w.catalog = db, map[string]*sqlite3.Stmt{}, newCatalog()
	defer func() { _ = w.close() }() // nothing was changed
	db.SetInterrupt(ctx)
	if err := db.BusyTimeout(p.cfg.BusyTimeout); err != nil {
		p.fail("file", w.classify(err, "open"))
		return
	}
	var mode string
	if err := w.query("PRAGMA journal_mode", func(s *sqlite3.Stmt) error { mode = s.ColumnText(0); return nil }); err != nil {
		p.fail("file", err)
		return
	}
	if err := w.begin(); err != nil {
		p.fail("file", err)
		return
	}
	defer w.rollback()
	found := p.cfg.Path + " can be written to"
	if mode != "wal" {
		found += ", and will be switched to WAL mode"
	}
	p.report.Add("file", preflight.OK, found, "")
	if err := w.migrateIn(); err != nil {
		p.fail("staging tables", err)
		return
	}
	p.report.Add("staging tables", preflight.OK, "they are there or can be made", "")
	if err := w.exec(`CREATE TABLE "tailrace preflight" ("time" INTEGER NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID`); err != nil {
		p.fail("measurements", err)
		return
	}
	p.report.Add("measurements", preflight.OK, "tables can be made", "")
}
