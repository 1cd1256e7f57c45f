package metadata

import (
	"context"
	"os"

	"github.com/pkg/errors"
)

// SchemaVersion is the version of the schema that this program writes.
func SchemaVersion() int { return len(migrations) }

// Snapshot writes a consistent copy, of mode 0600, to a file that must not exist. It leaves out what was
// deleted.
func (s *Store) Snapshot(ctx context.Context, to string) error {
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // SQLite takes an empty file
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		_, err = s.db.ExecContext(ctx, "VACUUM INTO ?", to)
	}
	return errors.Wrap(err, "metadata: snapshot")
}
