package deadletter

import (
	"context"
	"database/sql"
	"os"
)

// SchemaVersion is the version of the file that this program writes.
func SchemaVersion() int { return len(migrations()) }

// Snapshot writes a consistent copy, of mode 0600, to a file that must not exist.
func (s *Store) Snapshot(ctx context.Context, to string) error {
	db, err := s.handle(ctx)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // SQLite takes an empty file
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		_, err = db.ExecContext(ctx, "VACUUM INTO ?", to)
	}
	if err != nil {
		return s.failed(err, "snapshot")
	}
	return nil
}

// Adopt gives the letters of the loops of one installation to another, whose loops have the same names
// behind its own id.
func (s *Store) Adopt(ctx context.Context, from, to string) error {
	return s.write(ctx, "adopt", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE letters SET loop = ?2 || substr(loop, length(?1) + 1) WHERE substr(loop, 1, length(?1)) = ?1",
			from+"/", to+"/")
		return err
	})
}
