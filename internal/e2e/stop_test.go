package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// signal sends a signal to the server.
func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// ended waits until the server has ended, and returns its exit status.
func (p *process) ended() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("the server does not end:\n%s", p.output())
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) awaitOutput(text string) {
	p.t.Helper()
	eventually(p.t, 30*time.Second, "it does not say "+text, func() bool { return strings.Contains(p.output(), text) })
}

// TestStopDrainsWhatIsInFlightAndSaysSo stops the server while a transaction waits for a lock: it says
// what it waits for, takes no more writes, and ends when the transaction has landed.
func TestStopDrainsWhatIsInFlightAndSaysSo(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir(), "--gracePeriod", "1m")
	release := p.stick()
	p.write("m v=1 2")
	eventually(t, 30*time.Second, "nothing is in flight", func() bool { return p.metric("logical_bytes_in_flight") > 0 })
	p.signal(syscall.SIGTERM)
	p.awaitOutput("waiting for what is in flight")
	eventually(t, 30*time.Second, "it still takes connections", func() bool {
		resp, err := http.Get(p.url + "/ping")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err != nil
	})
	select {
	case <-p.done:
		t.Fatal("it ended before what is in flight has landed")
	default:
	}
	release()
	if code := p.ended(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	for _, says := range []string{"gracePeriod=1m0s", "name=default unsentBytes=0", "msg=stopped"} {
		if !strings.Contains(p.output(), says) {
			t.Errorf("it does not say %s:\n%s", says, p.output())
		}
	}
	if n := count(t, openTarget(t, p.dir), "SELECT count(*) FROM m"); n != 2 {
		t.Errorf("%d points have landed, want 2", n)
	}
}

// TestSecondSignalStopsAtOnce gives up waiting, with the exit status of a process that was interrupted;
// nothing is lost by it.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := launch(t, t.TempDir(), "--gracePeriod", "10m")
		release := p.stick()
		p.write("m v=1 2")
		p.signal(sig)
		p.awaitOutput("waiting for what is in flight")
		p.signal(sig)
		if code := p.ended(); code != 130 {
			t.Errorf("exit status %d, want 130", code)
		}
		if !strings.Contains(p.output(), "stopping at once") {
			t.Errorf("it does not say so:\n%s", p.output())
		}
		release()
		launch(t, p.dir)
		awaitCount(t, openTarget(t, p.dir), "SELECT count(*) FROM m", 2)
	}
}

// TestStopLeavesTheBacklogForTheNextStart stops the server with much in its queue. The commands for
// queues find it there, and the next server sends it, exactly once.
func TestStopLeavesTheBacklogForTheNextStart(t *testing.T) {
	t.Parallel()
	const writes, points = 50, 40
	dir := t.TempDir()
	counted(t, dir)
	p := launch(t, dir, "--gracePeriod", "100ms")
	release := holdSQLite(t, openTarget(t, dir))
	for i := range writes {
		p.write(batch{first: 1 + i*points, n: points}.body())
	}
	queue := onlyQueue(t, filepath.Join(dir, "replicationq"))
	if code, _, stderr := run(t, "", "queue", "stat", queue); code != 1 || !strings.Contains(stderr, filepath.Dir(queue)) || !strings.Contains(stderr, "use") {
		t.Errorf("the queue of a running server: exit status %d, %s", code, stderr)
	}
	if code := p.stop(); code != 0 {
		t.Errorf("exit status %d:\n%s", code, p.output())
	}
	if strings.Contains(p.output(), "unsentBytes=0") {
		t.Errorf("it says that nothing is left:\n%s", p.output())
	}
	release()

	code, stdout, stderr := run(t, "", "queue", "stat", "--json", queue)
	var stat struct {
		UnsentBlocks, UnsentPoints uint64
		Closed                     bool
		Problems                   []any
	}
	if err := json.Unmarshal([]byte(stdout), &stat); err != nil || code != 0 {
		t.Fatalf("queue stat: exit status %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if stat.UnsentBlocks != writes || stat.UnsentPoints != writes*points || !stat.Closed || len(stat.Problems) > 0 {
		t.Errorf("queue stat: %+v", stat)
	}
	if code, stdout, stderr := run(t, "", "queue", "verify", queue); code != 0 || !strings.Contains(stdout, "2000 points") {
		t.Errorf("queue verify: exit status %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, _ := run(t, "", "queue", "repair", queue); code != 0 || !strings.Contains(stdout, "nothing to do") {
		t.Errorf("queue repair: exit status %d\n%s", code, stdout)
	}
	code, dump, stderr := run(t, "", "queue", "dump", queue)
	if n := strings.Count(dump, "\n"); code != 0 || n != writes*points {
		t.Errorf("queue dump: exit status %d, %d lines\n%s", code, n, stderr)
	}

	p = launch(t, dir)
	db := openTarget(t, dir)
	all := []batch{{first: 1, n: writes * points, acked: true}}
	p.arrived(db, all)
	check(t, db, all, once)

	// What was dumped can be written elsewhere.
	other := launch(t, t.TempDir())
	code, stdout, stderr = runIn(t, t.TempDir(), "", strings.NewReader(dump), "import", "--host", other.url, "--token", other.token(), "-")
	if code != 0 {
		t.Fatalf("import: exit status %d\n%s%s", code, stdout, stderr)
	}
	rescued := openTarget(t, other.dir)
	awaitCount(t, rescued, "SELECT count(*) FROM kill", writes*points)
	if here, there := count(t, db, "SELECT sum(time / 1000 % 1000003) FROM kill WHERE n <> 'first'"), count(t, rescued, "SELECT sum(time / 1000 % 1000003) FROM kill"); here != there {
		t.Error("the times of the points that were dumped are others")
	}
}

// TestDamagedQueueDeclaresWhatIsLost flips a byte in the queue of a stopped server. The next one starts,
// sends what is whole, and says what is lost.
func TestDamagedQueueDeclaresWhatIsLost(t *testing.T) {
	t.Parallel()
	const writes = 20
	dir := t.TempDir()
	p := launch(t, dir, "--gracePeriod", "100ms")
	release := p.stick()
	for i := range writes {
		p.write(strings.ReplaceAll(series(50), "v=1 1", "v=1 "+strings.Repeat("9", 1+i%9)))
	}
	p.stop()
	release()
	queue := onlyQueue(t, filepath.Join(dir, "replicationq"))
	damage(t, queue)
	if code, _, stderr := run(t, "", "queue", "verify", queue); code != 1 || !strings.Contains(stderr, "repair") {
		t.Errorf("queue verify: exit status %d, %s", code, stderr)
	}
	p = launch(t, dir)
	eventually(t, 30*time.Second, "the rest does not arrive", func() bool {
		return p.metric("replications_queue_current_bytes_queued") == 0 && p.metric("replications_queue_points_lost") > 0
	})
	if lost := p.metric("replications_queue_points_lost"); lost >= writes*50 {
		t.Errorf("%v points are lost by one byte", lost)
	}
	p.awaitOutput("lost")
	p.write("after v=1 1")
	awaitCount(t, openTarget(t, dir), "SELECT count(*) FROM after", 1)
}

// damage flips a byte in the middle of the largest file of a directory.
func damage(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var path string
	var size int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Size() > size {
			path, size = filepath.Join(dir, e.Name()), info.Size()
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 0x40
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
