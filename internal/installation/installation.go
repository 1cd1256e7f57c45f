package installation

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
	"github.com/pkg/errors"
)

// identityName is the file with the installation's id.
const identityName = "installation.json"

// layout is the version of the directory's layout.
const layout = 1

// Installation is an open data directory.
type Installation struct {
	dir  string
	id   uuid.UUID
	lock *flock.Flock
}

// A LockedError says that another process uses the directory.
type LockedError struct{ Dir string }

// Error says what to do.
func (e *LockedError) Error() string {
	return "data directory " + e.Dir + " is used by another process; stop it, or give another --dataDir"
}

type identity struct {
	Layout int       `json:"layout"`
	ID     uuid.UUID `json:"id"`
}

// Open locks the data directory and reads its identity. It makes both where there is nothing yet.
func Open(dir string) (*Installation, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, errors.Wrapf(err, "data directory %s", dir)
	}
	if err := makeDirs(dir, syncDir); err != nil {
		return nil, errors.Wrapf(err, "data directory %s cannot be made", dir)
	}
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, errors.Wrapf(err, "data directory %s cannot be locked", dir)
	case !locked:
		return nil, &LockedError{Dir: dir}
	}
	in := &Installation{dir: dir, lock: lock}
	if err := in.identify(); err != nil {
		_ = lock.Unlock() // the directory is of no use to us
		return nil, err
	}
	return in, nil
}

// identify reads the identity, or makes one.
func (in *Installation) identify() error {
	if _, err := os.Lstat(in.Path(restoringName)); err == nil {
		return &HalfRestoredError{Dir: in.dir}
	}
	path := in.Path(identityName)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		in.id = uuid.New()
		text, err = json.MarshalIndent(identity{Layout: layout, ID: in.id}, "", "\t")
		if err != nil {
			return errors.Wrap(err, "installation")
		}
		return WriteFile(path, append(text, '\n'))
	}
	if err != nil {
		return errors.Wrapf(err, "data directory %s", in.dir)
	}
	var id identity
	if err := json.Unmarshal(text, &id); err != nil || id.ID == uuid.Nil {
		return errors.Errorf("%s does not hold an installation's identity; restore it from a backup, or give an empty --dataDir", path)
	}
	if id.Layout > layout {
		return errors.Errorf("%s was written by a newer version (layout %d, this one knows %d); start that version", path, id.Layout, layout)
	}
	in.id = id.ID
	return nil
}

// Exists reports whether there is an installation in a directory, or what is left of one.
func Exists(dir string) bool {
	for _, name := range []string{identityName, restoringName} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// ID identifies the installation for ever.
func (in *Installation) ID() string { return in.id.String() }

// Dir returns the absolute path of the directory.
func (in *Installation) Dir() string { return in.dir }

// OpenToOthers reports whether the directory's mode lets others than its owner look into it. Where modes say
// nothing, as on Windows, it does not.
func (in *Installation) OpenToOthers() (mode os.FileMode, open bool, err error) {
	info, err := os.Stat(in.dir)
	if err != nil {
		return 0, false, errors.Wrapf(err, "data directory %s", in.dir)
	}
	mode = info.Mode().Perm()
	return mode, runtime.GOOS != "windows" && mode&0o077 != 0, nil
}

// Path returns the path of something in the directory.
func (in *Installation) Path(elem ...string) string {
	return filepath.Join(append([]string{in.dir}, elem...)...)
}

// Token returns the operator's token and the path of its file, which is made if it does not exist.
func (in *Installation) Token() (token, path string, err error) {
	path = in.Path("token")
	token, err = ReadToken(path)
	if !errors.Is(err, os.ErrNotExist) {
		return token, path, err
	}
	token = newToken()
	return token, path, WriteFile(path, []byte(token+"\n"))
}

// secretKeySize is how many bytes the key for secrets has.
const secretKeySize = 32

// SecretKey returns the key that secrets are encrypted with, which is made if its file does not exist.
func (in *Installation) SecretKey() ([]byte, error) {
	path := in.Path("secret.key")
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		key := make([]byte, secretKeySize)
		_, _ = rand.Read(key) // it never fails
		return key, WriteFile(path, []byte(hex.EncodeToString(key)+"\n"))
	}
	if err != nil {
		return nil, errors.WithStack(err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != secretKeySize {
		return nil, errors.Errorf("%s does not hold a key (64 hexadecimal digits); put the right file back, or remove it and give the remotes their secrets again", path)
	}
	return key, nil
}

// ReadToken reads a token's file.
func ReadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", errors.WithStack(err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", errors.Errorf("%s is empty; remove it to have a new token made", path)
	}
	return token, nil
}

// newToken returns 256 random bits.
func newToken() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // it never fails
	return hex.EncodeToString(raw[:])
}

// Close gives the directory free.
func (in *Installation) Close() error {
	return errors.Wrapf(in.lock.Unlock(), "data directory %s cannot be unlocked", in.dir)
}

// WriteFile replaces a file of mode 0600, durably: after a crash there is the old content or the new.
func WriteFile(path string, content []byte) (err error) {
	temporary := path + ".new"
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return errors.Wrapf(err, "%s cannot be written", path)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary)
			err = errors.Wrapf(err, "%s cannot be written", path)
		}
	}()
	if _, err := f.Write(content); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
