package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A receiver is a server that keeps what it is sent. Its answers are given before it says 204.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	answers []func(http.ResponseWriter)
	got     []received
}

type received struct {
	bucket, token string
	lines         []string
	at            time.Time
}

func newReceiver(t *testing.T, answers ...func(http.ResponseWriter)) *receiver {
	t.Helper()
	rc := &receiver{answers: answers}
	rc.Server = httptest.NewUnstartedServer(rc)
	t.Cleanup(func() { rc.Close() })
	return rc
}

// serve begins to answer, and returns itself.
func (rc *receiver) serve() *receiver {
	rc.Start()
	return rc
}

func (rc *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != "/api/v2/write" {
		http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
		return
	}
	rc.got = append(rc.got, received{
		bucket: r.URL.Query().Get("bucket"), token: strings.TrimPrefix(r.Header.Get("Authorization"), "Token "),
		lines: strings.Split(strings.TrimSpace(string(body)), "\n"), at: time.Now(),
	})
	if len(rc.answers) > 0 {
		answer := rc.answers[0]
		rc.answers = rc.answers[1:]
		answer(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// requests returns what has come.
func (rc *receiver) requests() []received {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.got
}

func (rc *receiver) lines() (all []string) {
	for _, r := range rc.requests() {
		all = append(all, r.lines...)
	}
	return all
}

// file writes a file into a directory of its own.
func file(t *testing.T, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// imports runs the command with the flag, and returns the directory in which it ran.
func (s setting) imports(t *testing.T, wantCode int, value string, with ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	args, env := s.give(value)
	code, stdout, stderr := runIn(t, dir, env, nil, append(append([]string{"import"}, args...), with...)...)
	if code != wantCode {
		t.Fatalf("exit status %d, want %d\n%s%s", code, wantCode, stdout, stderr)
	}
	return dir
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// TestImportFlagsChangeBehaviour shows for each flag of the import that it does something.
func TestImportFlagsChangeBehaviour(t *testing.T) {
	t.Parallel()
	everyForm(t, importFlags)
}

const twoGoodOneBad = "m v=1 1\nm v= 2\nm v=3 3\n"

var importFlags = map[string]func(t *testing.T, s setting){
	"host": func(t *testing.T, s setting) {
		rc := newReceiver(t).serve()
		s.imports(t, 0, rc.URL, "--token", "t", file(t, "a.lp", "m v=1 1"))
		equal(t, "lines", rc.lines(), []string{"m v=1 1"})
	},
	"bucket": func(t *testing.T, s setting) {
		rc := newReceiver(t).serve()
		s.imports(t, 0, "plant 7", "--host", rc.URL, "--token", "t", file(t, "a.lp", "m v=1 1"))
		equal(t, "bucket", rc.requests()[0].bucket, "plant 7")
	},
	"token": func(t *testing.T, s setting) {
		rc := newReceiver(t).serve()
		s.imports(t, 0, "secret", "--host", rc.URL, file(t, "a.lp", "m v=1 1"))
		equal(t, "token", rc.requests()[0].token, "secret")
	},
	"tlsCA":             importsOverTLS,
	"clientCertificate": importsOverTLS,
	"clientKey":         importsOverTLS,
	"precision": func(t *testing.T, s setting) {
		rc := newReceiver(t).serve()
		s.imports(t, 0, "s", "--host", rc.URL, "--token", "t", file(t, "a.lp", "m v=1 7"))
		equal(t, "lines", rc.lines(), []string{"m v=1 7000000000"})
	},
	"batchLines": func(t *testing.T, s setting) {
		rc := newReceiver(t).serve()
		s.imports(t, 0, "2", "--host", rc.URL, "--token", "t", file(t, "a.lp", "m v=1 1\nm v=2 2\nm v=3 3"))
		if got := rc.requests(); len(got) != 2 || len(got[0].lines) != 2 || len(got[1].lines) != 1 {
			t.Errorf("got %v", got)
		}
	},
	"skipErrors": func(t *testing.T, s setting) {
		rc := newReceiver(t).serve()
		dir := s.imports(t, 0, "true", "--host", rc.URL, "--token", "t", file(t, "a.lp", twoGoodOneBad))
		equal(t, "lines", rc.lines(), []string{"m v=1 1", "m v=3 3"})
		rejected, err := os.ReadFile(filepath.Join(dir, "rejected.lp"))
		equal(t, "rejected", fmt.Sprint(string(rejected), err), "m v= 2\n<nil>")
	},
	"rejectFile": func(t *testing.T, s setting) {
		rc := newReceiver(t).serve()
		dir := s.imports(t, 0, "bad.lp", "--skipErrors", "--host", rc.URL, "--token", "t", file(t, "a.lp", twoGoodOneBad))
		rejected, err := os.ReadFile(filepath.Join(dir, "bad.lp"))
		equal(t, "rejected", fmt.Sprint(string(rejected), err), "m v= 2\n<nil>")
	},
}

// TestImportReadsWhatPeopleHave gives the same lines in several forms; gzip is recognised by its first
// bytes, whatever the name.
func TestImportReadsWhatPeopleHave(t *testing.T) {
	t.Parallel()
	const text = "m v=1 1\r\n# a comment\n\nm v=2 2"
	rc := newReceiver(t).serve()
	packed := zipped(t, text)
	code, stdout, stderr := runIn(t, t.TempDir(), "", bytes.NewReader([]byte(packed)), "import", "--host", rc.URL, "--token", "t",
		file(t, "plain.lp", text), file(t, "packed.lp", packed), file(t, "empty.gz", ""), "-")
	if code != 0 || !strings.Contains(stdout, "6 points imported") {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
	equal(t, "lines", rc.lines(), []string{"m v=1 1", "m v=2 2", "m v=1 1", "m v=2 2", "m v=1 1", "m v=2 2"})
}

// TestImportFindsTheTokenOfTheServerBesideIt needs neither --token nor --host beyond the port.
func TestImportFindsTheTokenOfTheServerBesideIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := launch(t, filepath.Join(dir, "tailrace-data"))
	code, stdout, stderr := runIn(t, dir, "TAILRACE_HOST="+p.url, strings.NewReader("m v=1 1\nm v=2 2"), "import", "-")
	if code != 0 || !strings.Contains(stdout, "2 points imported") {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
	awaitCount(t, openTarget(t, p.dir), "SELECT count(*) FROM m", 2)
}

// TestImportWaitsForABusyServer is told to come back in a second, and does not come earlier.
func TestImportWaitsForABusyServer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		seconds := func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy", status)
		}
		date := func(w http.ResponseWriter) { // in whole seconds, so that it is more than one from now
			w.Header().Set("Retry-After", time.Now().Add(2*time.Second+50*time.Millisecond).UTC().Format(http.TimeFormat))
			http.Error(w, "busy", status)
		}
		rc := newReceiver(t, seconds, date).serve()
		code, stdout, stderr := run(t, "", "import", "--host", rc.URL, "--token", "t", "--batchLines", "1", file(t, "a.lp", "m v=1 1\nm v=2 2"))
		got := rc.requests()
		if code != 0 || len(got) != 4 || !strings.Contains(stdout, "2 points") || !strings.Contains(stderr, "waiting") {
			t.Fatalf("exit status %d, %d requests\n%s%s", code, len(got), stdout, stderr)
		}
		for i := range 2 {
			if after := got[i+1].at.Sub(got[i].at); after < time.Second {
				t.Errorf("status %d: it came back after %s", status, after)
			}
		}
		equal(t, "the last lines", []string{got[2].lines[0], got[3].lines[0]}, []string{"m v=1 1", "m v=2 2"})
	}
}

// TestImportWaitsForAServerThatIsAway begins while nobody listens, goes on when somebody does, and
// survives that it is cut off.
func TestImportWaitsForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t, func(http.ResponseWriter) { panic(http.ErrAbortHandler) })
	address := rc.Listener.Addr().String()
	if err := rc.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	cmd, stderr := importing(t, "--host", "http://"+address, file(t, "a.lp", "m v=1 1\nm v=2 2"))
	eventually(t, 30*time.Second, "it does not say what it waits for", func() bool { return strings.Contains(stderr(), "waiting") })
	var err error
	if rc.Listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	rc.serve()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr())
	}
	equal(t, "lines, the first time cut off", rc.lines(), []string{"m v=1 1", "m v=2 2", "m v=1 1", "m v=2 2"})
}

// TestImportStopsAtASignal interrupts it while it waits for a server.
func TestImportStopsAtASignal(t *testing.T) {
	t.Parallel()
	rc := newReceiver(t)
	address := rc.Listener.Addr().String()
	if err := rc.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	cmd, stderr := importing(t, "--host", "http://"+address, file(t, "a.lp", "m v=1 1"))
	eventually(t, 30*time.Second, "it does not say what it waits for", func() bool { return strings.Contains(stderr(), "waiting") })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit status says it
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit status %d\n%s", code, stderr())
	}
}

// importing starts the command; the function returns what it has said to the standard error.
func importing(t *testing.T, args ...string) (*exec.Cmd, func() string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"import", "--token", "t"}, args...)...)
	said := &process{}
	cmd.Stderr = writer{said}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, said.output
}

// TestImportThatCannotWorkSaysWhy gives what it must refuse, with exit status 2 for usage and 1 for
// failure.
func TestImportThatCannotWorkSaysWhy(t *testing.T) {
	t.Parallel()
	unauthorized := func(w http.ResponseWriter) { http.Error(w, "unauthorized access", http.StatusUnauthorized) }
	good := file(t, "good.lp", "m v=1 1")
	for _, c := range []struct {
		name   string
		args   []string
		answer []func(http.ResponseWriter)
		code   int
		says   []string
		sent   int // requests
	}{
		{name: "no file", args: []string{"--token", "t"}, code: 2, says: []string{"name the files"}},
		{name: "no token", args: []string{good}, code: 2, says: []string{"--token"}},
		{name: "bad precision", args: []string{"--token", "t", "--precision", "fortnight", good}, code: 2, says: []string{"--precision", "fortnight"}},
		{name: "bad host", args: []string{"--token", "t", "--host", "nonsense", good}, code: 2, says: []string{"--host", "nonsense"}},
		{name: "bad batch", args: []string{"--token", "t", "--batchLines", "0", good}, code: 2, says: []string{"--batchLines"}},
		{name: "unknown flag", args: []string{"--tokn", "t", good}, code: 2, says: []string{"--tokn", "--help"}},
		{name: "no such file", args: []string{"--token", "t", "/nowhere/x.lp"}, code: 1, says: []string{"/nowhere/x.lp"}},
		{name: "directory", args: []string{"--token", "t", filepath.Dir(good)}, code: 1, says: []string{filepath.Dir(good)}},
		{
			name: "wrong token", args: []string{"--token", "t", good}, answer: []func(http.ResponseWriter){unauthorized},
			code: 1, says: []string{"401", "unauthorized access", "good.lp", "lines 1 to 1"}, sent: 1,
		},
		{
			name: "bad line", args: []string{"--token", "t", "--batchLines", "2", file(t, "bad.lp", "m v=1 1\nm v=2 2\nm v=3 3\n\nm v=x 5\nm v=6 6")},
			code: 1, says: []string{"bad.lp:5:", "v=x", "--skipErrors", "2 points imported"}, sent: 1,
		},
		{
			name: "torn gzip", args: []string{"--token", "t", file(t, "torn.lp.gz", zipped(t, series(100))[:100])},
			code: 1, says: []string{"torn.lp.gz", "unexpected EOF"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rc := newReceiver(t, c.answer...).serve()
			code, stdout, stderr := run(t, "TAILRACE_HOST="+rc.URL, append([]string{"import"}, c.args...)...)
			if code != c.code {
				t.Errorf("exit status %d, want %d", code, c.code)
			}
			for _, says := range c.says {
				if !strings.Contains(stdout+stderr, says) {
					t.Errorf("it does not say %q:\n%s%s", says, stdout, stderr)
				}
			}
			if n := len(rc.requests()); n != c.sent {
				t.Errorf("%d requests, want %d", n, c.sent)
			}
		})
	}
}
