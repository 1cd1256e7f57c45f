package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the server keeps is for its owner alone; a data directory that is not is warned of, and used.
func TestModesOfTheDataDirectory(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o700, 0o755, 0o710} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			must(t, os.Mkdir(dir, mode))
			must(t, os.Chmod(dir, mode)) // whatever the umask is
			p := launch(t, dir)
			p.write("m v=1 1")
			awaitCount(t, openTarget(t, dir), "SELECT count(*) FROM m", 1)
			if warned := strings.Contains(p.output(), "chmod 700"); warned != (mode != 0o700) {
				t.Errorf("warned: %v\n%s", warned, p.output())
			}
			for _, name := range []string{
				"target.db", "target.db-wal", "target.db-shm", "metadata.db", "metadata.db-journal", "token", "secret.key", "installation.json",
			} {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil {
					t.Error(err)
				} else if info.Mode().Perm() != 0o600 {
					t.Errorf("%s has mode %s", name, info.Mode())
				}
			}
		})
	}
}
