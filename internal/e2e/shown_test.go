package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPoisonPointIsSetAsideAndShown writes a point that the target will never accept, because the field
// has another type. It is kept as a dead letter and counted; what is behind it arrives.
func TestPoisonPointIsSetAsideAndShown(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]func(t *testing.T) []string{
		"SQLite":             func(*testing.T) []string { return nil },
		"PostgreSQL, serial": func(t *testing.T) []string { return []string{"--targetConn", env.Postgres(t)} },
		"PostgreSQL, fan":    func(t *testing.T) []string { return []string{"--targetConn", env.Postgres(t), "--immediate"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with := args(t)
			dir := t.TempDir()
			p := launch(t, dir, with...)
			db := openTarget(t, dir)
			letters := "SELECT count(*) FROM _tailrace_dead_letters"
			if with != nil {
				db, letters = openPostgres(t, with[1]), "SELECT count(*) FROM _tailrace.dead_letters"
			}
			p.write("m,k=a v=1i 1000")
			awaitCount(t, db, "SELECT count(*) FROM m", 1)
			p.write("m,k=a v=2i 2000\nm,k=b v=\"text\" 2000\nm,k=c v=3i 2000")
			p.write("m,k=a v=4i 3000")
			awaitCount(t, db, "SELECT sum(v) FROM m", 1+2+3+4)
			eventually(t, 30*time.Second, "the queue is not told of progress", func() bool {
				return p.metric("replications_queue_current_bytes_queued") == 0
			})
			if n := p.metric("logical_rejected_total", `policy="deadLetter"`); n != 1 {
				t.Errorf("%v points were set aside, want 1", n)
			}
			awaitCount(t, db, letters, 1)
			p.awaitOutput("the target rejected mutations")
		})
	}
}

// TestMetricsTellTheTruth looks at what is easily wrong: units, labels, and that an idle stream is not
// stale while a stuck one is.
func TestMetricsTellTheTruth(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir())
	release := p.stick()
	p.write("m v=1 2")
	eventually(t, 30*time.Second, "a stuck stream does not get stale", func() bool { return p.metric("logical_staleness_seconds") > 1 })
	release()
	awaitCount(t, openTarget(t, p.dir), "SELECT count(*) FROM m", 2)
	eventually(t, 30*time.Second, "a stream that has caught up is stale", func() bool { return p.metric("logical_staleness_seconds") == 0 })
	if at := p.metric("logical_last_commit_seconds"); time.Since(time.Unix(int64(at), 0)).Abs() > time.Minute {
		t.Errorf("the last commit was at %v s", at)
	}
	// Acknowledging is a matter of some hundred milliseconds, in which the stream must not get stale again.
	eventually(t, 30*time.Second, "the queue is not told of progress", func() bool {
		if age := p.metric("logical_staleness_seconds"); age > 0 {
			t.Errorf("an idle stream is stale by %v s", age)
		}
		return p.metric("replications_queue_current_bytes_queued") == 0
	})
	_, text := p.get("/metrics")
	id := filepath.Base(onlyQueue(t, filepath.Join(p.dir, "replicationq")))
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "logical_") && !strings.HasPrefix(line, "logical_total_") && !strings.Contains(line, `loop="`+id+`"`) {
			t.Errorf("no loop: %s", line)
		}
		if strings.HasPrefix(line, "replications_queue_") && !strings.Contains(line, `replicationID="`+id+`"`) {
			t.Errorf("no stream: %s", line)
		}
	}
}

// TestNothingInternalIsServed asks for what others have left open, and for the token in what is told.
func TestNothingInternalIsServed(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir(), "--verbose")
	p.write("m v=1 1")
	awaitCount(t, openTarget(t, p.dir), "SELECT count(*) FROM m", 1)
	told := p.output()
	for path, want := range map[string]int{
		"/debug/pprof/": http.StatusNotFound, "/debug/pprof/cmdline": http.StatusNotFound, "/debug/vars": http.StatusNotFound,
		"/metrics": http.StatusOK, "/health": http.StatusOK, "/ready?stream=all": http.StatusOK, "/ready?stream=nowhere": http.StatusNotFound,
	} {
		status, text := p.get(path)
		if status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
		told += text
	}
	if strings.Contains(told, p.token()) {
		t.Error("the token was told")
	}
}
