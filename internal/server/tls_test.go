package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/server/certificate"
	"github.com/tailrace-cdc/tailrace/internal/testenv/testca"
)

// A secured site has a certificate of an authority of its own.
type secured struct {
	*site
	ca     *testca.Authority
	dir    string
	keeper *certificate.Keeper
}

func startTLS(t *testing.T, cfg Config, auth certificate.ClientAuth) *secured {
	t.Helper()
	s := &secured{ca: testca.New(t), dir: t.TempDir()}
	c := certificate.Config{ClientAuth: auth, Log: slog.New(slog.DiscardHandler)}
	c.Certificate, c.PrivateKey = s.ca.Issue(t, s.dir, "server", testca.Request{Name: "first"})
	if auth != certificate.Off {
		c.ClientCA = s.ca.File(t, s.dir)
	}
	var err error
	if s.keeper, err = certificate.Open(c); err != nil {
		t.Fatal(err)
	}
	cfg.TLS = s.keeper.TLS()
	s.site = start(t, cfg, nil)
	s.client = s.newClient(t, true, nil)
	return s
}

// newClient returns a client that trusts the authority.
func (s *secured) newClient(t *testing.T, http2 bool, change func(*tls.Config)) *http.Client {
	t.Helper()
	c := &tls.Config{RootCAs: s.ca.Pool(), MinVersion: tls.VersionTLS10}
	if change != nil {
		change(c)
	}
	tr := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: http2}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestWritesOverTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t, Config{}, certificate.Off)
	for _, http2 := range []bool{false, true} {
		s.client = s.newClient(t, http2, nil)
		line := fmt.Sprintf("m v=1 %d", 5+len(s.intake.all()))
		if got := s.do(t, http.MethodPost, v2one, line, nil); got.status != http.StatusNoContent || !strings.Contains(s.intake.all(), line) {
			t.Errorf("answer %d %s", got.status, got.body)
		}
		resp, err := s.client.Get(s.url + "/ping")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.ProtoMajor != map[bool]int{false: 1, true: 2}[http2] {
			t.Errorf("the protocol is %s", resp.Proto)
		}
	}
}

func TestWhatTLSRefuses(t *testing.T) {
	t.Parallel()
	s := startTLS(t, Config{ReadHeaderTimeout: 200 * time.Millisecond}, certificate.Off)
	old := s.newClient(t, false, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 })
	if _, err := old.Get(s.url + "/ping"); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	until(t, "the refusal is not logged", func() bool { return strings.Contains(s.log.String(), `route="TLS handshake"`) })
	conn := dial(t, s.site)
	fmt.Fprint(conn, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
	if status, _ := answerOf(conn); status != http.StatusBadRequest {
		t.Errorf("HTTP is answered %d", status)
	}
	silent := dial(t, s.site)
	if _, err := io.Copy(io.Discard, silent); err != nil {
		t.Errorf("a handshake that does not begin holds its connection: %v", err)
	}
}

// A renewed certificate is shown to new connections; those that are open, idle or in the middle of a
// request, go on.
func TestRenewalWhileConnectionsAreOpen(t *testing.T) {
	t.Parallel()
	s := startTLS(t, Config{}, certificate.Off)
	open := s.newClient(t, true, nil)
	shown := func(c *http.Client) (name string, serial string) {
		t.Helper()
		resp, err := c.Get(s.url + "/ping")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		cert := resp.TLS.PeerCertificates[0]
		return cert.Subject.CommonName, cert.SerialNumber.String()
	}
	if name, _ := shown(open); name != "first" {
		t.Fatalf("%s is shown", name)
	}
	// A write is under way, on a connection of its own.
	body, upload := io.Pipe()
	writing := s.newClient(t, false, nil)
	answered := make(chan int, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+v2one, body)
		if err == nil {
			req.Header.Set("Authorization", "Token "+operator)
			var resp *http.Response
			if resp, err = writing.Do(req); err == nil {
				resp.Body.Close()
				answered <- resp.StatusCode
				return
			}
		}
		t.Error(err)
		answered <- 0
	}()
	if _, err := io.WriteString(upload, "m v=1 1\n"); err != nil {
		t.Fatal(err)
	}
	s.ca.Issue(t, s.dir, "server", testca.Request{Name: "second"})
	until(t, "the renewed certificate is not shown", func() bool {
		name, _ := shown(s.newClient(t, true, nil))
		return name == "second"
	})
	if name, _ := shown(open); name != "first" {
		t.Errorf("the open connection was closed")
	}
	if _, err := io.WriteString(upload, "m v=1 2\n"); err != nil {
		t.Fatal(err)
	}
	upload.Close()
	if status := <-answered; status != http.StatusNoContent || s.intake.all() != "m v=1 1\nm v=1 2\n" {
		t.Errorf("the write is answered %d, kept is %q", status, s.intake.all())
	}
}

func TestCertificatesOfClients(t *testing.T) {
	t.Parallel()
	foreign := testca.New(t)
	for auth, want := range map[certificate.ClientAuth]map[string]bool{
		certificate.Off:     {"none": true, "ours": true, "foreign": true, "expired": true},
		certificate.Request: {"none": true, "ours": true, "foreign": false, "expired": false},
		certificate.Require: {"none": false, "ours": true, "foreign": false, "expired": false},
	} {
		s := startTLS(t, Config{}, auth)
		for kind, ok := range want {
			client := s.newClient(t, true, func(c *tls.Config) {
				var cert, key string
				switch kind {
				case "ours":
					cert, key = s.ca.Issue(t, t.TempDir(), "client", testca.Request{})
				case "foreign":
					cert, key = foreign.Issue(t, t.TempDir(), "client", testca.Request{})
				case "expired":
					cert, key = s.ca.Issue(t, t.TempDir(), "client", testca.Request{NotAfter: time.Now().Add(-time.Minute)})
				default:
					return
				}
				pair, err := tls.LoadX509KeyPair(cert, key)
				if err != nil {
					t.Fatal(err)
				}
				// Sent whatever authorities the server names.
				c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
			})
			// The token is asked for all the same.
			resp, err := client.Post(s.url+v2one, "", strings.NewReader("m v=1 1"))
			if err == nil {
				resp.Body.Close()
			}
			if (err == nil) != ok || ok && resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%d, a client with %s: %v, %v", auth, kind, resp, err)
			}
		}
	}
}

// The limits of bodies hold on a stream of HTTP/2 as on a connection.
func TestSlowBodyOverHTTP2IsCutOff(t *testing.T) {
	t.Parallel()
	s := startTLS(t, Config{BodyTimeout: 100 * time.Millisecond}, certificate.Off)
	for name, auth := range map[string]string{"write": "Token " + operator, "no token": ""} {
		body, upload := io.Pipe()
		if name == "write" {
			go func() { _, _ = io.WriteString(upload, "m v=1 1\n") }()
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+v2one, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", auth)
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		upload.Close()
		if want := map[string]int{"write": http.StatusRequestTimeout, "no token": http.StatusUnauthorized}[name]; resp.StatusCode != want || resp.ProtoMajor != 2 {
			t.Errorf("%s: %s %s", name, resp.Proto, resp.Status)
		}
	}
	if s.intake.all() != "" || s.budget.used() != 0 {
		t.Errorf("kept %q, %d bytes reserved", s.intake.all(), s.budget.used())
	}
}

func TestConnectionsOverTLSAreBounded(t *testing.T) {
	t.Parallel()
	s := startTLS(t, Config{MaxConns: 1}, certificate.Off)
	if got := s.do(t, http.MethodGet, "/ping", "", nil); got.status != http.StatusNoContent {
		t.Fatalf("answer %d", got.status)
	}
	until(t, "the connection is not idle", func() bool {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		return s.conns.idle.Len() == 1
	})
	// It gives way to a connection that begins a request, which then stands against all others.
	conn, err := tls.DialWithDialer(&net.Dialer{}, "tcp", s.Addr().String(), &tls.Config{RootCAs: s.ca.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /ping HTTP/1.1\r\nHost: x\r\n")
	until(t, "nobody is refused", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: s.ca.Pool()}}).DialContext(ctx, "tcp", s.Addr().String())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	fmt.Fprint(conn, "\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusNoContent {
		t.Errorf("%v, %v", resp, err)
	}
}
