package metadata

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pkg/errors"
)

// migrations make each version of the schema from the one before; PRAGMA user_version says which one a
// file has. One that has been released is never changed.
var migrations = []string{
	`
CREATE TABLE facts (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT;
CREATE TABLE orgs (
	id          INTEGER PRIMARY KEY,
	name        TEXT NOT NULL UNIQUE CHECK (name <> ''),
	description TEXT NOT NULL,
	created     INTEGER NOT NULL,
	updated     INTEGER NOT NULL
) STRICT;
CREATE TABLE buckets (
	id          INTEGER PRIMARY KEY,
	org_id      INTEGER NOT NULL REFERENCES orgs,
	name        TEXT NOT NULL CHECK (name <> ''),
	description TEXT NOT NULL,
	deleting    INTEGER NOT NULL DEFAULT 0 CHECK (deleting IN (0, 1)),
	created     INTEGER NOT NULL,
	updated     INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX buckets_by_name ON buckets (org_id, name) WHERE deleting = 0;
CREATE TABLE remotes (
	id                 INTEGER PRIMARY KEY,
	org_id             INTEGER NOT NULL REFERENCES orgs,
	name               TEXT NOT NULL CHECK (name <> ''),
	description        TEXT,
	url                TEXT NOT NULL CHECK (url <> ''),
	remote_org_id      TEXT,
	allow_insecure_tls INTEGER NOT NULL CHECK (allow_insecure_tls IN (0, 1)),
	unrestricted       INTEGER NOT NULL CHECK (unrestricted IN (0, 1)),
	secret             BLOB,
	created            INTEGER NOT NULL,
	updated            INTEGER NOT NULL,
	UNIQUE (org_id, name)
) STRICT;
CREATE TABLE streams (
	id                 INTEGER PRIMARY KEY,
	org_id             INTEGER NOT NULL REFERENCES orgs,
	name               TEXT NOT NULL CHECK (name <> ''),
	description        TEXT,
	bucket_id          INTEGER NOT NULL REFERENCES buckets,
	remote_id          INTEGER NOT NULL REFERENCES remotes,
	remote_bucket_id   TEXT,
	remote_bucket_name TEXT,
	max_queue_bytes    INTEGER CHECK (max_queue_bytes > 0),
	max_age_seconds    INTEGER NOT NULL CHECK (max_age_seconds >= 0),
	queue_full_policy  TEXT,
	on_reject          TEXT,
	backfill_window    INTEGER CHECK (backfill_window >= 0),
	fan_shards         INTEGER CHECK (fan_shards > 0),
	bytes_in_flight    INTEGER CHECK (bytes_in_flight > 0),
	filter             TEXT CHECK (json_valid(filter)),
	paused             INTEGER NOT NULL CHECK (paused IN (0, 1)),
	opened             INTEGER NOT NULL DEFAULT 0 CHECK (opened IN (0, 1)),
	deleting           INTEGER NOT NULL DEFAULT 0 CHECK (deleting IN (0, 1)),
	created            INTEGER NOT NULL,
	updated            INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX streams_by_name ON streams (org_id, name) WHERE deleting = 0;
CREATE INDEX streams_by_bucket ON streams (bucket_id);
CREATE INDEX streams_by_remote ON streams (remote_id);
CREATE TABLE tokens (
	id          INTEGER PRIMARY KEY,
	org_id      INTEGER NOT NULL REFERENCES orgs,
	description TEXT NOT NULL,
	sum         BLOB NOT NULL UNIQUE CHECK (length(sum) = 32),
	active      INTEGER NOT NULL CHECK (active IN (0, 1)),
	permissions TEXT NOT NULL CHECK (json_valid(permissions)),
	created     INTEGER NOT NULL,
	updated     INTEGER NOT NULL
) STRICT;`,
}

// migrate brings the schema to the newest version, one version per transaction.
func migrate(ctx context.Context, db *sql.DB, to []string) error {
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return errors.Wrap(err, "metadata: the file cannot be read")
	}
	if version > len(to) {
		return errors.Errorf("metadata: the file was written by a newer version (schema %d, this one knows %d); start that version",
			version, len(to))
	}
	for ; version < len(to); version++ {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return errors.Wrap(err, "metadata: migrate")
		}
		_, err = tx.ExecContext(ctx, to[version]+fmt.Sprintf("\n;PRAGMA user_version = %d", version+1))
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			_ = tx.Rollback() // the first error says more
			return errors.Wrapf(err, "metadata: migrate to schema %d", version+1)
		}
	}
	return nil
}
