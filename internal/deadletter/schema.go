package deadletter

import (
	"context"
	"database/sql"
	"strconv"
	"time"

	"github.com/pkg/errors"
)

// migrations lead from each version of the file to the next. What is released is never changed; a new
// version is appended.
func migrations() []string {
	return []string{`
CREATE TABLE letters (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	loop     TEXT NOT NULL,
	fingerprint BLOB NOT NULL, -- a letter is kept once
	stamp    TEXT,
	relation TEXT NOT NULL,
	key      BLOB,
	op       TEXT NOT NULL,
	payload  BLOB,
	reason   TEXT NOT NULL,
	time     INTEGER NOT NULL, -- nanoseconds since 1970
	size     INTEGER NOT NULL  -- what it counts for against the loop's bound
) STRICT;
CREATE UNIQUE INDEX letters_once ON letters (loop, fingerprint);
CREATE INDEX letters_loop ON letters (loop, id);
`, `
-- The place in the transaction. Those of before have none: their ids tell their order.
ALTER TABLE letters ADD COLUMN position INTEGER;
`}
}

// migrate brings the file to the version that this program knows.
func migrate(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it does nothing after Commit
	var version int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	steps := migrations()
	if version > len(steps) {
		return errors.Errorf("the file has version %d, this program knows %d: use the newer Tailrace that wrote it", version, len(steps))
	}
	if version == len(steps) {
		return nil
	}
	for _, step := range steps[version:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "PRAGMA user_version = "+strconv.Itoa(len(steps))); err != nil {
		return err
	}
	return tx.Commit()
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
