package e2e

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv/testca"
)

// A safe is an authority with the files that a server needs.
type safe struct {
	ca        *testca.Authority
	dir       string
	cert, key string
}

func newSafe(t *testing.T) *safe {
	t.Helper()
	s := &safe{ca: testca.New(t), dir: t.TempDir()}
	s.cert, s.key = s.ca.Issue(t, s.dir, "server", testca.Request{Name: "first"})
	return s
}

// trust makes the tests talk HTTPS with a process.
func (s *safe) trust(t *testing.T, p *process, certificates ...tls.Certificate) *process {
	t.Helper()
	p.url = strings.Replace(p.url, "http://", "https://", 1)
	p.http = s.client(t, certificates...)
	return p
}

func (s *safe) client(t *testing.T, certificates ...tls.Certificate) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool(), Certificates: certificates}, ForceAttemptHTTP2: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// issue returns a certificate for a client.
func (s *safe) issue(t *testing.T, dir string) (pair tls.Certificate, cert, key string) {
	t.Helper()
	cert, key = s.ca.Issue(t, dir, "client", testca.Request{})
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair, cert, key
}

// shown returns the name in the certificate that a new connection is shown.
func (s *safe) shown(t *testing.T, p *process) string {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(p.url, "https://"), &tls.Config{RootCAs: s.ca.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// takesTLS is the test of the two flags that only work together.
func takesTLS(t *testing.T, s setting) {
	safe := newSafe(t)
	value, other, path := safe.cert, "--tlsPrivateKey", safe.key
	if s.flag == "tlsPrivateKey" {
		value, other, path = safe.key, "--tlsCertificate", safe.cert
	}
	p := safe.trust(t, s.launch(t, value, other, path))
	p.write("m v=1 1")
	awaitCount(t, openTarget(t, p.dir), "SELECT count(*) FROM m", 1)
	if p.metric("tailrace_tls_certificate_expires_seconds") < float64(time.Now().Unix()) {
		t.Error("the metric does not say when the certificate expires")
	}
}

// asksClients is the test of the two flags that only work together.
func asksClients(t *testing.T, s setting) {
	safe := newSafe(t)
	authority := safe.ca.File(t, safe.dir)
	value, with := authority, []string{"--tlsClientAuth", "require"}
	if s.flag == "tlsClientAuth" {
		value, with = "require", []string{"--tlsClientCA", authority}
	}
	pair, _, _ := safe.issue(t, t.TempDir())
	p := safe.trust(t, s.launch(t, value, append(with, "--tlsCertificate", safe.cert, "--tlsPrivateKey", safe.key)...), pair)
	p.write("m v=1 1")
	if resp, err := safe.client(t).Get(p.url + "/ping"); err == nil {
		_ = resp.Body.Close()
		t.Errorf("without a certificate the answer is %s", resp.Status)
	}
}

// A renewed certificate is taken at once at SIGHUP, which does not end the process; a broken one is not
// taken, and that is said.
func TestRenewedCertificateIsTakenAtSIGHUP(t *testing.T) {
	t.Parallel()
	safe := newSafe(t)
	p := safe.trust(t, launch(t, t.TempDir(), "--tlsCertificate", safe.cert, "--tlsPrivateKey", safe.key))
	hangUp := func() {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	// The signal is taken when the server is ready, which is a little after it listens.
	eventually(t, 30*time.Second, "the server does not say where to write", func() bool { return strings.Contains(p.output(), "Ctrl-C stops it") })
	safe.ca.Issue(t, safe.dir, "server", testca.Request{Name: "second"})
	hangUp()
	eventually(t, 30*time.Second, "the certificate is not read again", func() bool { return strings.Contains(p.output(), "was read again") })
	if got := safe.shown(t, p); got != "second" {
		t.Errorf("%s is shown", got)
	}
	if err := exec.Command("truncate", "-s", "100", safe.cert).Run(); err != nil {
		t.Fatal(err)
	}
	hangUp()
	eventually(t, 30*time.Second, "the broken certificate is not told", func() bool { return strings.Contains(p.output(), "cannot be used") })
	if got := safe.shown(t, p); got != "second" {
		t.Errorf("%s is shown", got)
	}
	p.write("m v=1 1")
	if code := p.stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// What the server says at its start can be pasted into a shell, with TLS too.
func TestGreetingOverTLSWorks(t *testing.T) {
	t.Parallel()
	safe := newSafe(t)
	p := launch(t, t.TempDir(), "--tlsCertificate", safe.cert, "--tlsPrivateKey", safe.key)
	eventually(t, 30*time.Second, "there is no greeting", func() bool { return strings.Contains(p.output(), "Ctrl-C stops it") })
	found := regexp.MustCompile(`(?m)^  write to  (https://127\.0\.0\.1:\d+/\S+)$`).FindStringSubmatch(p.output())
	if found == nil {
		t.Fatalf("no URL of https:\n%s", p.output())
	}
	req, err := http.NewRequest(http.MethodPost, found[1], strings.NewReader("m v=1 1"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Token "+p.token())
	resp, err := safe.client(t).Do(req)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Fatalf("%v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

// importsOverTLS sends a file to a server that asks for a certificate.
func importsOverTLS(t *testing.T, s setting) {
	safe := newSafe(t)
	_, cert, key := safe.issue(t, t.TempDir())
	authority := safe.ca.File(t, safe.dir)
	p := launch(t, t.TempDir(), "--tlsCertificate", safe.cert, "--tlsPrivateKey", safe.key, "--tlsClientCA", authority, "--tlsClientAuth", "require")
	values := map[string]string{"tlsCA": authority, "clientCertificate": cert, "clientKey": key}
	args := []string{"--host", strings.Replace(p.url, "http:", "https:", 1), "--token", p.token()}
	for name, value := range values {
		if name != s.flag {
			args = append(args, "--"+name, value)
		}
	}
	args = append(args, file(t, "a.lp", "m v=1 1"))
	s.imports(t, 0, values[s.flag], args...)
	awaitCount(t, openTarget(t, p.dir), "SELECT count(*) FROM m", 1)
	// Without this flag it is refused at once, instead of waited for.
	out, err := exec.Command(binary, append([]string{"import"}, args...)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--"+s.flag) {
		t.Errorf("without the flag: %v, %s", err, out)
	}
}

// connectionsAreLimited opens connections on which a request has begun, until one is refused.
func connectionsAreLimited(t *testing.T, s setting) {
	p := s.launch(t, "3")
	var refused bool
	for i := range 4 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "GET /ping HTTP/1.1\r\nHost: x\r\nX-Begun: "); err != nil {
			t.Fatal(err)
		}
		wait := 500 * time.Millisecond // is not refused within it
		if i == 3 {
			wait = 30 * time.Second
		}
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		text := make([]byte, 12)
		n, _ := io.ReadFull(conn, text)
		if refused = string(text[:n]) == "HTTP/1.1 503"; refused != (i == 3) {
			t.Errorf("connection %d is answered %q", i, text[:n])
		}
	}
}
