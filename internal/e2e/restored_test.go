package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// copyTo replaces a file or directory by a copy of another.
func copyTo(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return
	}
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAckedThroughRestoredAndDeletedParts replaces parts of a data directory by older copies, or deletes them, while
// the server is stopped. No write that is acknowledged afterwards is skipped, and the API names what has happened.
func TestAckedThroughRestoredAndDeletedParts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		part    string // of the data directory
		restore bool   // an older copy of it; otherwise it is deleted
		notice  string
		kept    int // points of the first twenty that the target has in the end
	}{
		"queue deleted":   {"replicationq", false, "queue replaced", 20},
		"queue restored":  {"replicationq", true, "queue behind its target", 20},
		"target restored": {"target.db", true, "gap", 10},
		"target deleted":  {"target.db", false, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copy")
			path := filepath.Join(dir, c.part)
			var replication string
			run := func(from, n int) *process {
				p := launch(t, dir)
				_, _, replication = p.defaults()
				for i := range n {
					p.write(fmt.Sprintf("m v=%di %d", from+i, from+i))
				}
				eventually(t, time.Minute, "it does not settle", func() bool {
					st := p.replication(replication)
					return st.RemainingBytesToBeSynced == 0 && st.State == "running"
				})
				return p
			}
			if code := run(0, 10).stop(); code != 0 {
				t.Fatalf("exit status %d", code)
			}
			copyTo(t, path, copied)
			if code := run(10, 10).stop(); code != 0 {
				t.Fatalf("exit status %d", code)
			}
			if c.restore {
				copyTo(t, copied, path)
			} else if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			p := run(100, 5)
			var st struct{ Notice, Advice string }
			p.must(http.MethodGet, "/api/v2/replications/"+replication, "", &st)
			if st.Notice != c.notice || (st.Advice == "") != (c.notice == "") {
				t.Errorf("the status says %+v, want %q", st, c.notice)
			}
			db := openTarget(t, dir)
			awaitCount(t, db, "SELECT count(*) FROM m WHERE v >= 100", 5)
			awaitCount(t, db, "SELECT count(*) FROM m WHERE v < 100", c.kept)
			if code := p.stop(); code != 0 {
				t.Fatalf("exit status %d", code)
			}
			// It is the same once more, from what is stored now.
			run(200, 5)
			awaitCount(t, db, "SELECT count(*) FROM m WHERE v >= 100", 10)
		})
	}
}
