package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// TestTargetConnIsAnotherTailrace writes to one server, which sends to another, which stores: also when the
// other is killed on the way, and a type conflict there becomes a dead letter there, not here.
func TestTargetConnIsAnotherTailrace(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--immediate"}} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			address := l.Addr().String()
			_ = l.Close()
			dir := t.TempDir()
			other := func() *process { return begin(t, dir, nil, "--dataDir", dir, "--bindAddr", address) }
			o := other()
			p := launch(t, t.TempDir(), append(args, "--targetConn", o.url+"?org=any&bucket=default", "--targetToken", o.token(), "--retryDelay", "20ms")...)
			p.write(series(500))
			awaitCount(t, openTarget(t, dir), "SELECT count(*) FROM m", 500)
			o.kill()
			for i := range 20 {
				p.write(fmt.Sprintf("n v=%di %d", i, i))
			}
			p.awaitOutput("nothing listens there")
			other()
			awaitCount(t, openTarget(t, dir), "SELECT count(*) FROM n", 20)
			eventually(t, 30*time.Second, "the queue is not told of progress", func() bool {
				return p.metric("replications_queue_current_bytes_queued") == 0
			})
		})
	}
}

// TestQueuedWritesReachInfluxDBAfterARestart stops the server while the remote is away, starts it when it is
// there, and counts.
func TestQueuedWritesReachInfluxDBAfterARestart(t *testing.T) {
	t.Parallel()
	db := testenv.StartInfluxDB(t, nil)
	db.Query(t, "", "CREATE DATABASE d")
	dir := t.TempDir()
	args := []string{"--targetConn", db.URL() + "?db=d", "--retryDelay", "20ms", "--gracePeriod", "300ms"}
	p := launch(t, dir, args...)
	p.write("m v=1 1")
	count := func() string { return fmt.Sprint(db.Query(t, "d", "SELECT count(v) FROM m")) }
	eventually(t, 30*time.Second, "the first point does not arrive", func() bool { return strings.Contains(count(), " 1]") })
	db.Kill()
	for i := range 30 {
		p.write(fmt.Sprintf("m v=1 %d", i+2))
	}
	p.awaitOutput("nothing listens there")
	if code := p.stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	db.Restart(t)
	p = launch(t, dir, args...)
	p.write("m v=1 100")
	eventually(t, 30*time.Second, "something is missing", func() bool { return strings.Contains(count(), " 32]") })
	p.write("m v=\"text\" 101")
	p.awaitOutput("field type conflict")
	eventually(t, 30*time.Second, "the point is not set aside", func() bool {
		return p.metric("replications_queue_remote_write_bytes_set_aside") > 0 && p.metric("replications_queue_current_bytes_queued") == 0
	})
	if code := p.stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// TestProxyOfTheEnvironmentIsUsed has a remote that can be reached through a proxy only.
func TestProxyOfTheEnvironmentIsUsed(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.String()
		w.Header().Set("X-Influxdb-Version", "v2.7.1")
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(proxy.Close)
	dir := t.TempDir()
	p := begin(t, dir, []string{"HTTP_PROXY=" + proxy.URL, "NO_PROXY="}, "--dataDir", dir, "--bindAddr", "127.0.0.1:0",
		"--targetConn", "http://influx.invalid:8086/prefix?org=o&bucket=b")
	p.write("m v=1 1")
	for _, want := range []string{
		"GET http://influx.invalid:8086/prefix/ping",
		"POST http://influx.invalid:8086/prefix/api/v2/write?bucket=b&org=o&precision=ns",
	} {
		select {
		case got := <-asked:
			if got != want {
				t.Errorf("the proxy was asked for %s, want %s", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("the proxy is not asked for %s:\n%s", want, p.output())
		}
	}
}
