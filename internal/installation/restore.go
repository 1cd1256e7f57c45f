package installation

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
	"github.com/pkg/errors"
)

// restoringName is a file that is there while a backup is being restored.
const restoringName = "restoring"

// A Restoring is a data directory that is being filled from a backup. Until Finish, Open refuses it.
type Restoring struct {
	dir  string
	lock *flock.Flock
}

// A HalfRestoredError says that restoring a backup did not come to its end.
type HalfRestoredError struct{ Dir string }

// Error says what to do.
func (e *HalfRestoredError) Error() string {
	return "data directory " + e.Dir + " was restored in part only: the restore was cut short; empty the directory, and restore again"
}

// Restore takes a directory that is empty, or does not exist, to restore a backup into it.
func Restore(dir string) (*Restoring, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, errors.Wrapf(err, "data directory %s", dir)
	}
	if err := makeDirs(dir, syncDir); err != nil {
		return nil, errors.Wrapf(err, "data directory %s cannot be made", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, errors.Wrapf(err, "data directory %s", dir)
	}
	for _, e := range entries {
		switch e.Name() {
		case "lost+found": // of a file system of its own
		case restoringName:
			return nil, &HalfRestoredError{Dir: dir}
		default:
			return nil, errors.Errorf("data directory %s is not empty (there is %s); a backup is restored into an empty one", dir, e.Name())
		}
	}
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, errors.Wrapf(err, "data directory %s cannot be locked", dir)
	case !locked:
		return nil, &LockedError{Dir: dir}
	}
	r := &Restoring{dir: dir, lock: lock}
	if err := WriteFile(r.Path(restoringName), []byte("a backup is being restored here\n")); err != nil {
		_ = lock.Unlock() // the first error says more
		return nil, err
	}
	return r, nil
}

// Path returns the path of something in the directory.
func (r *Restoring) Path(elem ...string) string {
	return filepath.Join(append([]string{r.dir}, elem...)...)
}

// Finish gives the installation its id, and makes the directory one that can be used.
func (r *Restoring) Finish(id uuid.UUID) error {
	text, err := json.MarshalIndent(identity{Layout: layout, ID: id}, "", "\t")
	if err != nil {
		return errors.Wrap(err, "installation")
	}
	if err := WriteFile(r.Path(identityName), append(text, '\n')); err != nil {
		return err
	}
	if err := os.Remove(r.Path(restoringName)); err != nil {
		return errors.Wrap(err, "installation")
	}
	if err := syncDir(r.dir); err != nil {
		return errors.Wrap(err, "installation")
	}
	return errors.Wrap(r.lock.Unlock(), "installation")
}

// Abandon gives up. What is there stays, for somebody to look at, and is refused by Open.
func (r *Restoring) Abandon() error { return errors.Wrap(r.lock.Unlock(), "installation") }

// SyncDir makes the names in a directory durable, where there is such a thing.
func SyncDir(dir string) error { return syncDir(dir) }
