package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// busy opens a connection on which a request has begun and does not end.
func busy(t *testing.T, st *site) net.Conn {
	t.Helper()
	before := st.conns.count()
	conn := dial(t, st)
	fmt.Fprint(conn, "GET /ping HTTP/1.1\r\nHost: x\r\nX-Begun: ")
	until(t, "the connection is not counted", func() bool { return st.conns.count() > before })
	return conn
}

// until waits for what happens in its own time.
func until(t *testing.T, otherwise string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal(otherwise)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestConnectionsBeyondTheLimitAreRefused(t *testing.T) {
	t.Parallel()
	st := start(t, Config{MaxConns: 2, RetryAfter: 7 * time.Second}, nil)
	first := busy(t, st)
	busy(t, st)
	for range 20 {
		conn := dial(t, st)
		text, err := io.ReadAll(conn)
		if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 503 ") || !strings.Contains(string(text), "Retry-After: 7\r\n") {
			t.Fatalf("answer %q, %v", text, err)
		}
	}
	if n := strings.Count(st.log.String(), "route=connection"); n < 1 || n > 10 {
		t.Errorf("%d log lines for 20 refusals:\n%s", n, st.log)
	}
	first.Close()
	until(t, "the place is not given back", func() bool { return st.conns.count() == 1 })
	got := st.do(t, http.MethodGet, "/metrics", "", nil)
	if got.status != http.StatusOK || !strings.Contains(got.body, `tailrace_http_connections_refused_total{limit="all"} 20`) ||
		!strings.Contains(got.body, "tailrace_http_connections 2") {
		t.Errorf("answer %d %s", got.status, got.body)
	}
}

// Connections that are kept for later give way to new ones, the one that has been idle the longest first.
func TestIdleConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	st := start(t, Config{MaxConns: 3}, nil)
	ask := func(conn net.Conn) (status int) {
		fmt.Fprint(conn, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
		status, _ = answerOf(conn)
		return status
	}
	var conns []net.Conn
	for i := range 10 {
		conn := dial(t, st)
		if status := ask(conn); status != http.StatusNoContent {
			t.Fatalf("connection %d is answered %d", i, status)
		}
		until(t, "the connection is not idle", func() bool {
			st.conns.mu.Lock()
			defer st.conns.mu.Unlock()
			return st.conns.idle.Len() == min(i+1, 3)
		})
		conns = append(conns, conn)
	}
	for i, conn := range conns {
		if status := ask(conn); (status == http.StatusNoContent) != (i >= 7) {
			t.Errorf("connection %d is answered %d", i, status)
		}
	}
}

func TestConnectionsOfOneHostAreBounded(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.2 is an address of this machine on Linux only")
	}
	st := start(t, Config{MaxConnsPerHost: 1}, nil)
	first := busy(t, st)
	if text, _ := io.ReadAll(dial(t, st)); !strings.HasPrefix(string(text), "HTTP/1.1 503 ") {
		t.Errorf("answer %q", text)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	other, err := d.DialContext(t.Context(), "tcp", st.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	fmt.Fprint(other, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
	if status, text := answerOf(other); status != http.StatusNoContent {
		t.Errorf("another host is answered %d %s", status, text)
	}
	first.Close()
	until(t, "the place is not given back", func() bool { return st.conns.count() == 1 })
	if got := st.do(t, http.MethodGet, "/ping", "", nil); got.status != http.StatusNoContent {
		t.Errorf("answer %d", got.status)
	}
	until(t, "the host is not forgotten", func() bool {
		st.client.CloseIdleConnections()
		st.conns.mu.Lock()
		defer st.conns.mu.Unlock()
		return len(st.conns.host) == 1
	})
}

// A request that is refused, and whose body never comes, must not hold its connection.
func TestRefusedRequestDoesNotWaitForItsBody(t *testing.T) {
	t.Parallel()
	st := start(t, Config{BodyTimeout: 100 * time.Millisecond, MaxBodySize: 2000}, nil)
	for name, request := range map[string]string{
		"no token":       "POST " + v2one + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"chunks":         "POST " + v2one + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"unknown path":   "POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"wrong method":   "PUT /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"body of a GET":  "GET /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"not there":      "POST /api/v2/delete HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx",
		"too slow":       rawHead + "Content-Length: 1000\r\n\r\nm v=1",
		"query":          "POST /query HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nq=",
		"too large":      rawHead + "Content-Length: 3000\r\n\r\nm v=1",
		"too many bytes": rawHead + "Transfer-Encoding: chunked\r\n\r\nbb8\r\n" + strings.Repeat("m v=1 1\n", 3000/8) + "\r\n",
		"bad lines":      rawHead + "Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + strings.Repeat("x v=y 1\n", 1000/8) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, st)
			fmt.Fprint(conn, request)
			if _, err := io.Copy(io.Discard, conn); err != nil { // until the server closes it
				t.Errorf("the connection is held: %v", err)
			}
		})
	}
}

// A header that comes a byte at a time is cut off, however long that could go on.
func TestDrippingHeaderIsCutOff(t *testing.T) {
	t.Parallel()
	st := start(t, Config{ReadHeaderTimeout: 100 * time.Millisecond}, nil)
	conn := dial(t, st)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, conn)
	}()
	fmt.Fprint(conn, "GET /ping HTTP/1.1\r\nX-Slow: ")
	for deadline := time.Now().Add(30 * time.Second); ; {
		_, err := fmt.Fprint(conn, "x")
		select {
		case <-ended:
			return
		case <-time.After(5 * time.Millisecond):
		}
		if err == nil && time.Now().After(deadline) {
			t.Fatal("the connection is held")
		}
	}
}

func TestURLThatIsTooLong(t *testing.T) {
	t.Parallel()
	st := start(t, Config{MaxHeaderBytes: 4 << 10}, nil)
	conn := dial(t, st)
	fmt.Fprint(conn, "GET /ping?"+strings.Repeat("x", 9<<10)+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if status, text := answerOf(conn); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("answer %d %s", status, text)
	}
}

// Shutdown does not wait for connections that say nothing.
func TestShutdownWithSilentConnections(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	for range 10 {
		dial(t, st)
	}
	until(t, "the connections are not taken", func() bool { return st.conns.count() == 10 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := st.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	until(t, "connections are left", func() bool { return st.conns.count() == 0 })
}

// More connections than the process may have files are no promise that could be kept.
func TestConnectionsStayBelowTheFilesThatMayBeOpen(t *testing.T) {
	t.Parallel()
	files, known := openFiles()
	if !known {
		t.Skip("this system does not say how many files may be open")
	}
	st := start(t, Config{MaxConns: 1 << 30}, nil)
	if st.cfg.MaxConns != files-files/4 || st.conns.cfg.MaxConns != st.cfg.MaxConns || !strings.Contains(st.log.String(), "ulimit -n") {
		t.Errorf("%d connections of %d files; the log is\n%s", st.cfg.MaxConns, files, st.log)
	}
}

func TestFewGatherMetricsAtOnce(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}, 100), make(chan struct{})
	st := start(t, Config{}, nil)
	st.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
		begun <- struct{}{}
		<-release
		return 1
	}))
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			if got := st.do(t, http.MethodGet, "/metrics", "", nil); got.status != http.StatusOK {
				t.Errorf("answer %d", got.status)
			}
		})
		<-begun
	}
	if got := st.do(t, http.MethodGet, "/metrics", "", nil); got.status != http.StatusServiceUnavailable {
		t.Errorf("the ninth is answered %d", got.status)
	}
	close(release)
	asking.Wait()
}
