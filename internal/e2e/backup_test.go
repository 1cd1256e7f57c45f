package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// TestRestoredServerHasWhatWasAcked: ACKED. A backup of a running server, while it is written to, and of its
// directory when it has ended, has every write that was answered before and had not arrived.
func TestRestoredServerHasWhatWasAcked(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprintf("running %v", running), func(t *testing.T) {
			t.Parallel()
			p := launch(t, t.TempDir(), "--gracePeriod", "300ms")
			p.ok("stream", "pause", "default")
			for i := range 50 {
				p.write(fmt.Sprintf("m,n=%d v=1 1", i))
			}
			file := filepath.Join(t.TempDir(), "b")
			if running {
				stop, stopped := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(stopped)
					for i := 50; ; i++ {
						select {
						case <-stop:
							return
						default:
							_, _, _ = p.post(p.token(), v2("default"), fmt.Sprintf("m,n=%d v=1 1", i))
						}
					}
				}()
				p.ok("backup", "--withQueues", "--withKey", "--to", file)
				close(stop)
				<-stopped
			} else {
				if code := p.stop(); code != 0 {
					t.Fatalf("exit status %d", code)
				}
				p.ok("backup", "--withQueues", "--withKey", "--to", file)
			}
			dir := filepath.Join(t.TempDir(), "new")
			p.ok("restore", "--from", file, "--dataDir", dir)
			restored := launch(t, dir) // beside the old one
			restored.ok("stream", "resume", "default")
			restored.write("last v=1 1")
			db := openTarget(t, dir)
			awaitCount(t, db, "SELECT count(*) FROM last", 1)
			if n := count(t, db, "SELECT count(*) FROM m WHERE CAST(n AS INTEGER) < 50"); n != 50 {
				t.Errorf("%d of 50 writes are there", n)
			}
		})
	}
}

// TestRestoredStreamWithoutItsQueueSaysSo: NOTHING SILENT, and its remote lacks the secret until the key is back.
func TestRestoredStreamWithoutItsQueueSaysSo(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir())
	p.ok("TAILRACE_REMOTE_TOKEN=secret", "stream", "create", "up", "--bucket", "plant", "--remoteURL", "http://127.0.0.1:1", "--remoteBucket", "m")
	file, dir := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "new")
	p.ok("backup", "--to", file)
	p.ok("restore", "--from", file, "--dataDir", dir)
	restored := launch(t, dir)
	if out := restored.ok("stream", "show", "default"); !strings.Contains(out, "queue was missing") {
		t.Errorf("it does not say so:\n%s", out)
	}
	if out := restored.ok("stream", "show", "up"); !strings.Contains(out, "secret missing") {
		t.Errorf("it does not say so:\n%s", out)
	}
	if restored.token() == p.token() {
		t.Error("the operator's token came along")
	}
	restored.write("m v=1 1")
	awaitCount(t, openTarget(t, dir), "SELECT count(*) FROM m", 1)
	restored.ok("TAILRACE_REMOTE_TOKEN=again", "remote", "update", "127.0.0.1")
	if out := restored.ok("stream", "show", "up"); strings.Contains(out, "secret missing") {
		t.Errorf("it was given again:\n%s", out)
	}
}

// TestSameInstallationGoesOnWithoutLosing restores in the place of the old one, whose target has seen more than
// the backup: what is written from then on arrives, under numbers that the old queue never used.
func TestSameInstallationGoesOnWithoutLosing(t *testing.T) {
	t.Parallel()
	target := filepath.Join(t.TempDir(), "t.db")
	args := []string{"--targetConn", "sqlite:" + target}
	p := launch(t, t.TempDir(), args...)
	p.write("m,n=1 v=1 1")
	db := openSQLite(t, target)
	awaitCount(t, db, "SELECT count(*) FROM m", 1)
	file := filepath.Join(t.TempDir(), "b")
	p.ok("backup", "--withQueues", "--withKey", "--to", file)
	for i := range 30 {
		p.write(fmt.Sprintf("m,n=after%d v=1 1", i))
	}
	awaitCount(t, db, "SELECT count(*) FROM m", 31)
	p.kill()
	dir := filepath.Join(t.TempDir(), "new")
	p.ok("restore", "--from", file, "--dataDir", dir, "--sameInstallation")
	restored := launch(t, dir, args...)
	for i := range 30 {
		restored.write(fmt.Sprintf("m,n=restored%d v=1 1", i))
	}
	awaitCount(t, db, "SELECT count(*) FROM m", 61)
}

// TestKilledBackupsAndRestoresLeaveNothingThatLooksWhole kills both at random times: a file of the name is whole,
// and a directory is refused or complete.
func TestKilledBackupsAndRestoresLeaveNothingThatLooksWhole(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	p := launch(t, t.TempDir())
	p.ok("stream", "pause", "default")
	for i := range 8 {
		if status, text := p.fill(t, 4); status != 204 {
			t.Fatalf("%d: %d %s", i, status, text)
		}
	}
	file := filepath.Join(t.TempDir(), "whole")
	begun := time.Now()
	p.ok("backup", "--withQueues", "--to", file)
	took := time.Since(begun)
	kill := func(args ...string) {
		t.Helper()
		cmd := exec.Command(binary, args...)
		cmd.Env = append(os.Environ(), "TAILRACE_DATA_DIR="+p.dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(random.Int64N(int64(took))))
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // its status is of no interest
	}
	for range testenv.Count(8, 200) {
		part := filepath.Join(t.TempDir(), "b")
		kill("backup", "--withQueues", "--to", part)
		if _, err := os.Stat(part); err == nil {
			p.ok("restore", "--check", "--from", part)
		}
		dir := filepath.Join(t.TempDir(), "d")
		kill("restore", "--from", file, "--dataDir", dir)
		_, marked := os.Stat(filepath.Join(dir, "restoring"))
		_, named := os.Stat(filepath.Join(dir, "installation.json"))
		switch {
		case marked == nil:
			if r := tailrace(t, dir, "", nil, "start", "--dataDir", dir, "--bindAddr", "127.0.0.1:0"); r.code != 1 || !strings.Contains(r.err, "restored in part only") {
				t.Fatalf("a directory that was restored in part: %+v", r)
			}
		case named == nil:
			p.ok("backup", "--dataDir", dir, "--withQueues", "--to", filepath.Join(t.TempDir(), "again"))
		default: // nothing of the backup is there yet
			if _, err := os.Stat(filepath.Join(dir, "metadata.db")); err == nil {
				t.Fatal("there is metadata in a directory that does not say that it is being restored")
			}
		}
	}
}

// TestBackupOfQueuesElsewhere: --queueDir, of a server that does not run.
func TestBackupOfQueuesElsewhere(t *testing.T) {
	t.Parallel()
	queues, dir := filepath.Join(t.TempDir(), "q"), t.TempDir()
	p := launch(t, t.TempDir(), "--queueDir", queues)
	p.ok("stream", "pause", "default")
	p.write("m v=1 1")
	if code := p.stop(); code != 0 {
		t.Fatalf("exit status %d", code)
	}
	if r := p.cli("backup", "--withQueues", "--to", filepath.Join(dir, "a")); r.code != 1 || !strings.Contains(r.err, "--queueDir") {
		t.Errorf("without the flag: %+v", r)
	}
	if out := p.ok("backup", "--withQueues", "--json", "--queueDir", queues, "--to", filepath.Join(dir, "b")); !strings.Contains(out, ".seg") {
		t.Errorf("there is no segment in it: %s", out)
	}
}
