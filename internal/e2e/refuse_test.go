package e2e

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestRefusedWritesSayWhyAndKeepNothing sends what a server must not take.
func TestRefusedWritesSayWhyAndKeepNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := launch(t, dir, "--maxBodySize", "8MiB")
	good := "m v=1 1\n"
	for _, c := range []struct {
		name, path, body string
		header           map[string]string
		status           int
		says             string
	}{
		{name: "no token", path: v2("default"), body: good, header: map[string]string{"Authorization": ""}, status: 401, says: "unauthorized"},
		{name: "wrong token", path: v2("default"), body: good, header: map[string]string{"Authorization": "Token wrong"}, status: 401, says: "unauthorized"},
		{name: "unknown bucket", path: v2("nowhere"), body: good, status: 404, says: `nowhere`},
		{name: "no bucket", path: "/api/v2/write", body: good, status: 404, says: "bucket"},
		{name: "unknown precision", path: v2("default") + "&precision=fortnight", body: good, status: 400, says: "precision"},
		{name: "broken gzip", path: v2("default"), body: "no gzip", header: map[string]string{"Content-Encoding": "gzip"}, status: 400, says: "gzip"},
		{name: "half a line", path: v2("default"), body: good + "weather,city=Ber", status: 400, says: `"line":2`},
		{name: "NaN", path: v2("default"), body: good + "m v=NaN 1\n", status: 400, says: `"line":2`},
		{name: "a line that is too long", path: v2("default"), body: good + `m v="` + strings.Repeat("x", 4<<20) + `"`, status: 400, says: `"line":2`},
		{name: "a body that is too long", path: v2("default"), body: strings.Repeat(good, 2<<20), status: 413, says: "large"},
		{name: "a gzip bomb", path: v2("default"), body: zipped(t, strings.Repeat("m v=1 1\n", 4<<20)), header: map[string]string{"Content-Encoding": "gzip"}, status: 413, says: "large"},
		{name: "no route", path: "/api/v2/nothing", body: good, status: 404, says: "not found"},
		{name: "queries", path: "/api/v2/query", body: "{}", status: 501, says: "quer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			status, text := p.send(t, c.path, c.body, c.header)
			if status != c.status || !strings.Contains(strings.ToLower(text), strings.ToLower(c.says)) {
				t.Errorf("got %d %s, want %d and %q", status, text, c.status, c.says)
			}
		})
	}
	t.Cleanup(func() {
		if n := p.metric("replications_queue_total_points_queued"); n != 0 {
			t.Errorf("%v points of refused writes were kept", n)
		}
	})
}

func v2(bucket string) string { return "/api/v2/write?bucket=" + bucket }

func zipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// send posts a body with other headers; an empty one is left out.
func (p *process) send(t *testing.T, path, body string, header map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Token "+p.token())
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// TestStartThatCannotWorkSaysWhy runs the command in ways that it must refuse, with exit code 2 for
// usage and 1 for failure.
func TestStartThatCannotWorkSaysWhy(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	used := t.TempDir()
	launch(t, used)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		env  string
		code int
		says []string
	}{
		{name: "port taken", args: []string{"--bindAddr", taken.Addr().String()}, code: 1, says: []string{taken.Addr().String(), "in use"}},
		{name: "data directory used", args: []string{"--dataDir", used}, code: 1, says: []string{used, "another process"}},
		{name: "data directory is a file", args: []string{"--dataDir", file}, code: 1, says: []string{file}},
		{name: "bad address", args: []string{"--bindAddr", "nonsense"}, code: 1, says: []string{"nonsense"}},
		{name: "unknown flag", args: []string{"--bindAdr", "x"}, code: 2, says: []string{"--bindAdr", "--help"}},
		{name: "empty address", args: []string{"--bindAddr", ""}, code: 2, says: []string{"bindAddr"}},
		{name: "no budget", args: []string{"--bytesInFlight", "0"}, code: 2, says: []string{"--bytesInFlight"}},
		{name: "pooler in front of SQLite", args: []string{"--pooledTarget"}, code: 2, says: []string{"--pooledTarget", "SQLite"}},
		{name: "index in SQLite", args: []string{"--indexTags", "host"}, code: 2, says: []string{"--indexTags", "SQLite"}},
		{name: "staging schema in SQLite", args: []string{"--stagingSchema", "s", "--targetConn", "sqlite:x.db"}, code: 2, says: []string{"--stagingSchema", "SQLite"}},
		{name: "token for SQLite", args: []string{"--targetToken", "s3cret"}, code: 2, says: []string{"--targetToken", "InfluxDB"}},
		{name: "schema in an InfluxDB", args: []string{"--targetSchema", "s", "--targetConn", "http://h?bucket=b"}, code: 2, says: []string{"--targetSchema", "InfluxDB"}},
		{name: "InfluxDB without a bucket", args: []string{"--targetConn", "http://h:8086"}, code: 2, says: []string{"--targetConn", "names no bucket"}},
		{name: "token in the URL", args: []string{"--targetConn", "http://h?bucket=b&token=x"}, code: 2, says: []string{"--targetConn", "secret"}},
		{name: "argument", args: []string{"now"}, code: 2, says: []string{"now"}},
		{name: "bad size", args: []string{"--maxBodySize", "many"}, code: 2, says: []string{"maxBodySize", "10MiB"}},
		{name: "small budget", args: []string{"--bytesInFlight", "1"}, code: 2, says: []string{"bytesInFlight"}},
		{name: "bad duration", args: []string{"--applyTimeout", "5"}, code: 2, says: []string{"applyTimeout"}},
		{name: "zero duration", args: []string{"--retryDelay", "0s"}, code: 2, says: []string{"retryDelay"}},
		{name: "bad log format", args: []string{"--logFormat", "xml"}, code: 2, says: []string{"logFormat", "json"}},
		{name: "bad environment", env: "TAILRACE_GRACE_PERIOD=soon", code: 2, says: []string{"TAILRACE_GRACE_PERIOD"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"start", "--bindAddr", "127.0.0.1:0", "--dataDir", t.TempDir()}, c.args...)
			code, _, stderr := run(t, c.env, args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, says := range c.says {
				if !strings.Contains(stderr, says) {
					t.Errorf("it does not say %q:\n%s", says, stderr)
				}
			}
		})
	}
}

// run runs a command to its end, in an empty directory. An env that is not empty is added to the
// environment.
func run(t *testing.T, env string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runIn(t, t.TempDir(), env, nil, args...)
}

// runIn is run in a directory, with a standard input.
func runIn(t *testing.T, dir, env string, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	if env != "" {
		cmd.Env = append(os.Environ(), env)
	}
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestFullDiskRefusesAndHeals fills a small file system: writes are refused with a reason, what was
// acknowledged stays, and when there is room again, writes are taken again.
func TestFullDiskRefusesAndHeals(t *testing.T) {
	t.Parallel()
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("it mounts a small file system")
	}
	mount := tmpfs(t, "24m")
	dir := filepath.Join(mount, "data")
	p := launch(t, dir, "--keepFree", "0B")
	ballast := filepath.Join(mount, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	acked, token := 0, p.token()
	var status int
	var text string
	for i := 0; i < 4000 && status < 500; i++ {
		var err error
		if status, text, err = p.post(token, v2("default"), incompressible(i)); err != nil {
			t.Fatal(err)
		}
		if status == http.StatusNoContent {
			acked++
		}
	}
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "space") {
		t.Fatalf("the full disk was answered with %d %s", status, text)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "writes are still refused", func() bool {
		status, _, err := p.post(token, v2("default"), "full v=1i 1\n")
		return err == nil && status == http.StatusNoContent
	})
	db := openTarget(t, dir)
	eventually(t, time.Minute, "not everything has arrived", func() bool {
		var n int
		return db.QueryRow("SELECT count(*) FROM full").Scan(&n) == nil && n >= acked+1
	})
}

// incompressible is a line of 16 KiB that does not get smaller.
func incompressible(i int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
	var text strings.Builder
	text.WriteString(`full text="`)
	state := uint64(i)*2654435761 + 1
	for range 16 << 10 {
		state = state*6364136223846793005 + 1442695040888963407
		text.WriteByte(letters[state>>58])
	}
	return text.String() + `" ` + strconv.Itoa(i+2) + "\n"
}

// tmpfs mounts a file system of its own of a given size.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("a small file system cannot be mounted (this test needs root; -short leaves it out): %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
	})
	return dir
}
