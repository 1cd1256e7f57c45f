package e2e

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// binary is the path of the program under test.
var binary string

// env has the PostgreSQL server that tests share which need a database and no server of their own.
var env testenv.Env

var seedFlag = flag.Uint64("seed", 0, "replay a randomised test with this seed")

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // the tests wait for other processes most of the time
	flag.Parse()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "tailrace-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		binary = filepath.Join(dir, "tailrace")
		build := exec.Command("go", "build", "-trimpath", "-o", binary, "../..")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the binary: %v\n%s", err, out)
			return 1
		}
		return env.Main(m)
	}())
}

// seeded returns random numbers whose seed is printed, and can be given by -seed.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// process is a running server.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	http *http.Client
	dir  string
	org  string // the id of the default organisation, once a test has looked it up
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

// launch starts a server on a free port and waits until it listens.
func launch(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	return begin(t, dir, nil, append([]string{"--dataDir", dir, "--bindAddr", "127.0.0.1:0"}, args...)...)
}

// begin starts a server with just these arguments and waits until it listens. Its data directory is dir,
// which the arguments or the environment have to say.
func begin(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, dir: dir, http: http.DefaultClient, done: make(chan struct{})}
	p.cmd = exec.Command(binary, append([]string{"start"}, args...)...)
	p.cmd.Env = append(os.Environ(), env...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = writer{p}
	dieWithParent(p.cmd)
	listening, started := make(chan string, 1), make(chan error)
	go func() {
		// The death of the thread that started it, not of the process, is what a child notices.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.follow(stderr, listening)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	select {
	case address := <-listening:
		p.url = "http://" + address
	case <-p.done:
		t.Fatalf("the server ended at its start:\n%s", p.output())
	case <-time.After(30 * time.Second):
		t.Fatalf("the server does not listen after 30 s:\n%s", p.output())
	}
	return p
}

// listens finds the address in a line of the log, of either format.
var listens = regexp.MustCompile(`msg=listening address=(\S+)|"msg":"listening","address":"([^"]+)"`)

// follow keeps the log and finds the address in it.
func (p *process) follow(stderr io.Reader, listening chan<- string) {
	defer close(p.done)
	lines := bufio.NewScanner(stderr)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, _ = writer{p}.Write(append(lines.Bytes(), '\n'))
		if found := listens.FindStringSubmatch(lines.Text()); found != nil {
			select {
			case listening <- found[1] + found[2]:
			default:
			}
		}
	}
	_ = p.cmd.Wait() // its exit status is in ProcessState
}

type writer struct{ p *process }

func (w writer) Write(text []byte) (int, error) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	return w.p.out.Write(text)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// onlyQueue returns the directory of the only queue of a server. Its name is the stream's id.
func onlyQueue(t *testing.T, dir string) string {
	t.Helper()
	var found []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	if len(found) != 1 || len(filepath.Base(found[0])) != 16 {
		t.Fatalf("the queues are %q, want one that is called by a stream's id", found)
	}
	return found[0]
}

// kill ends the process as a power cut would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// stop asks the process to end, and returns its exit status.
func (p *process) stop() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("the server does not stop:\n%s", p.output())
	}
	return p.cmd.ProcessState.ExitCode()
}

// token returns the operator's token.
func (p *process) token() string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "token"))
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// post writes a body and returns the answer, or an error where there was none.
func (p *process) post(token, path string, body string) (status int, text string, err error) {
	req, err := http.NewRequest(http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Token "+token)
	resp, err := p.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), err
}

// write writes a body that must be accepted.
func (p *process) write(body string) {
	p.t.Helper()
	if status, text, err := p.post(p.token(), "/api/v2/write?bucket=default", body); err != nil || status != http.StatusNoContent {
		p.t.Fatalf("write: status %d, %s, %v\n%s", status, text, err, p.output())
	}
}

// get returns the body of a page, and its status.
func (p *process) get(path string) (status int, text string) {
	p.t.Helper()
	resp, err := p.http.Get(p.url + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// metric returns the sum of the series of a metric that have all of the labels, such as `mode="serial"`.
func (p *process) metric(name string, labels ...string) float64 {
	p.t.Helper()
	_, text := p.get("/metrics")
	var sum float64
	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(line, ' ')
		base, rest, _ := strings.Cut(line[:max(at, 0)], "{")
		if base != name || slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(rest, l) }) {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		sum += v
	}
	return sum
}

// eventually waits until a condition holds; it is for what another process does in its own time.
func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %s", within, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}
