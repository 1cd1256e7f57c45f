package sqlite

import (
	"github.com/ncruces/go-sqlite3"
	"github.com/pkg/errors"
)

// migrations lead from each version of the staging tables to the next. What is released is never
// changed; a new version is appended.
func migrations() []string {
	return []string{`
CREATE TABLE _tailrace_version (version INTEGER NOT NULL) STRICT;
INSERT INTO _tailrace_version VALUES (0);

-- One row per loop: its epoch (FENCED) and its lease. Times are milliseconds.
CREATE TABLE _tailrace_loops (
	loop    TEXT PRIMARY KEY,
	epoch   INTEGER NOT NULL,
	holder  TEXT NOT NULL, -- '' when the lease was given back
	ttl     INTEGER NOT NULL,
	expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The consistent point of each loop. Times are nanoseconds, NULL where they are not known.
CREATE TABLE _tailrace_memo (
	loop             TEXT PRIMARY KEY,
	point            TEXT,
	point_time       INTEGER,
	mode             TEXT NOT NULL,
	consistent_since INTEGER,
	updated          INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE _tailrace_dead_letters (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	loop     TEXT NOT NULL,
	stamp    TEXT,
	relation TEXT NOT NULL,
	key      BLOB,
	op       TEXT NOT NULL,
	payload  BLOB,
	reason   TEXT NOT NULL,
	time     INTEGER NOT NULL
) STRICT;
CREATE INDEX _tailrace_dead_letters_loop ON _tailrace_dead_letters (loop, id);

-- The tables that Tailrace made, and which name of the source became which column.
CREATE TABLE _tailrace_tables (
	schema_name TEXT NOT NULL,
	name        TEXT NOT NULL,
	target      TEXT NOT NULL UNIQUE,
	PRIMARY KEY (schema_name, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE _tailrace_columns (
	target_table TEXT NOT NULL,
	role         TEXT NOT NULL, -- tag or field
	name         TEXT NOT NULL,
	target       TEXT NOT NULL,
	kind         TEXT NOT NULL, -- of the values that the column holds
	PRIMARY KEY (target_table, role, name)
) STRICT, WITHOUT ROWID;
`, `
ALTER TABLE _tailrace_memo ADD COLUMN skip INTEGER NOT NULL DEFAULT 0;

-- Of letters that were set aside twice one is kept. Those of before have no fingerprint.
ALTER TABLE _tailrace_dead_letters ADD COLUMN fingerprint BLOB;
CREATE UNIQUE INDEX _tailrace_dead_letters_fingerprint ON _tailrace_dead_letters (loop, fingerprint);
`, `
-- The place in the transaction. Those of before have none: their ids tell their order.
ALTER TABLE _tailrace_dead_letters ADD COLUMN position INTEGER;
`, `
-- Which table of a source a table of the user's holds: "a"."b.c" and "a.b"."c" have one name here.
CREATE TABLE _tailrace_owners (
	target      TEXT PRIMARY KEY COLLATE NOCASE,
	schema_name TEXT NOT NULL, -- '' for the default
	name        TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`}
}

// migrate brings the staging tables to the version that this program knows.
func (w *writer) migrate() error {
	steps := migrations()
	version, err := w.stagingVersion()
	if err != nil || version == int64(len(steps)) {
		return err
	}
	return w.transaction(w.db.GetInterrupt(), func(w *writer) error { return w.migrateIn() })
}

// migrateIn is migrate within a transaction.
func (w *writer) migrateIn() error {
	steps := migrations()
	version, err := w.stagingVersion() // somebody else may have been faster
	if err != nil || version == int64(len(steps)) {
		return err
	}
	if version > int64(len(steps)) {
		return retry(errors.Errorf("sqlite: %s: the staging tables have version %d, this program knows %d",
			w.cfg.Path, version, len(steps)), "the file was used by a newer Tailrace: use that, or name another file")
	}
	for _, step := range steps[version:] {
		w.ddl = true
		if err := w.db.Exec(step); err != nil {
			return w.classify(err, "create the staging tables")
		}
	}
	return w.exec("UPDATE _tailrace_version SET version = ?", int64(len(steps)))
}

// stagingVersion returns the version of the staging tables, 0 if there are none.
func (w *writer) stagingVersion() (version int64, err error) {
	var exists bool
	err = w.query("SELECT 1 FROM sqlite_schema WHERE name = '_tailrace_version'", func(*sqlite3.Stmt) error {
		exists = true
		return nil
	})
	if err != nil || !exists {
		return 0, err
	}
	err = w.query("SELECT version FROM _tailrace_version", func(s *sqlite3.Stmt) error {
		version = s.ColumnInt64(0)
		return nil
	})
	return version, err
}
