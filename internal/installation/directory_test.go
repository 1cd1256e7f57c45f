package installation

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/pkg/errors"
)

// TestNewDirectoriesAreDurable shows that the parent of every new directory is synced, once the directory
// is in it and before there is anything below it.
func TestNewDirectoriesAreDurable(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	a := filepath.Join(top, "a")
	b := filepath.Join(a, "b")
	c := filepath.Join(b, "c")
	made := map[string]string{top: a, a: b, b: c}
	var synced []string
	sync := func(dir string) error {
		synced = append(synced, dir)
		if child := made[dir]; child != "" {
			if _, err := os.Stat(child); err != nil {
				t.Errorf("%s was synced before %s was made", dir, child)
			}
		}
		return syncDir(dir)
	}
	if err := makeDirs(c, sync); err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Dir(top), top, a, b}; !slices.Equal(synced, want) {
		t.Errorf("synced %q, want %q", synced, want)
	}
	synced = nil
	if err := makeDirs(c, sync); err != nil {
		t.Fatal(err)
	}
	if want := []string{b}; !slices.Equal(synced, want) {
		t.Errorf("the second time synced %q, want %q: the first process may have died before it did", synced, want)
	}
}

func TestDirectoryThatCannotBeSynced(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	fails := func(err error) func(string) error { return func(string) error { return err } }
	if err := makeDirs(top, fails(syscall.EACCES)); err != nil {
		t.Errorf("a directory that is there, in one that is not ours: %v", err)
	}
	if err := makeDirs(top, fails(syscall.EIO)); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want the failure of the device", err)
	}
	sync := func(dir string) error {
		if dir == top {
			return syscall.EACCES
		}
		return nil
	}
	if err := makeDirs(filepath.Join(top, "new"), sync); !errors.Is(err, syscall.EACCES) {
		t.Errorf("got %v, want an error: the new directory is not durable", err)
	}
}
