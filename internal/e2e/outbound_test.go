package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// replicate makes a remote over the API, and a replication of the default bucket to it.
func (p *process) replicate(name, remoteURL, more string) (remote, replication string) {
	p.t.Helper()
	bucket, _, _ := p.defaults()
	var r, st created
	p.must(http.MethodPost, "/api/v2/remotes", fmt.Sprintf(`{"orgID":"ORG","name":%q,"remoteURL":%q%s}`, name, remoteURL, more), &r)
	p.must(http.MethodPost, "/api/v2/replications", fmt.Sprintf(`{"orgID":"ORG","name":%q,"remoteID":%q,"localBucketID":%q,"remoteBucketName":%q}`,
		name, r.ID, bucket, strings.ReplaceAll(name, " ", "_")), &st)
	return r.ID, st.ID
}

// refused waits until a replication says that its remote is not allowed, and that the data waits.
func (p *process) refused(replication string) {
	p.t.Helper()
	var st status
	eventually(p.t, 30*time.Second, "the remote is not refused", func() bool {
		st = p.replication(replication)
		return st.State == "target refused"
	})
	if !strings.Contains(st.LatestErrorMessage, "not allowed") || st.Advice == "" || !st.Stalled {
		p.t.Errorf("the status is %+v", st)
	}
	if _, text := p.get("/ready?stream=" + replication); !strings.Contains(text, "target refused") {
		p.t.Errorf("/ready says %s", text)
	}
}

// onLoopback is a server on loopback that counts its connections, and answers as an InfluxDB does.
func onLoopback(t *testing.T, handler http.HandlerFunc) (url string, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	s := httptest.NewUnstartedServer(handler)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL, connections
}

func asInfluxDB(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Influxdb-Version", "v2.7.1")
	w.WriteHeader(http.StatusNoContent)
}

// Remotes were made while everything was allowed; then the operator gives --allowRemoteHosts. What is not
// allowed is not connected to, by whatever name, and says so; nothing is lost, and it goes on when it is
// allowed. What --targetConn names is not limited, until somebody gives that remote another address.
func TestIsolatedRemotesThatAreNotAllowedAnyMore(t *testing.T) {
	t.Parallel()
	dir, dsn := t.TempDir(), env.Postgres(t)
	at, connections := onLoopback(t, asInfluxDB)
	byName := strings.Replace(at, "127.0.0.1", "localhost", 1)
	other, err := url.Parse(env.Postgres(t))
	must(t, err)
	password, _ := other.User.Password()
	other.Host = "localhost:" + other.Port()

	p := launch(t, dir, "--targetConn", dsn, "--retryDelay", "50ms")
	_, byNameID := p.replicate("by name", byName, `,"remoteOrgID":"o","remoteAPIToken":"x"`)
	_, byAddressID := p.replicate("by address", at, `,"remoteOrgID":"o","remoteAPIToken":"x"`)
	_, postgresID := p.replicate("postgres", other.String(), fmt.Sprintf(`,"remoteAPIToken":%q`, password))
	all := []string{byNameID, byAddressID, postgresID}
	p.write("m v=1 1")
	for _, id := range all {
		eventually(t, 30*time.Second, "a point does not arrive", func() bool {
			st := p.replication(id)
			return st.RemainingBytesToBeSynced == 0 && st.LastSuccessAt != nil
		})
	}
	p.stop()
	before := connections.Load()

	// The name is on the list, and leads to what is not public: whoever has the DNS could have turned it there.
	p = launch(t, dir, "--targetConn", dsn, "--retryDelay", "50ms", "--allowRemoteHosts", "localhost,*.example.org")
	p.write("m v=1 2")
	for _, id := range all {
		p.refused(id)
		if status, text := p.api(http.MethodPost, "/api/v2/replications/"+id+"/validate", ""); status != http.StatusBadRequest || !strings.Contains(text, "not allowed") {
			t.Errorf("validating answers %d %s", status, text)
		}
	}
	awaitCount(t, openPostgres(t, dsn), "SELECT count(*) FROM m", 2)
	if n := connections.Load() - before; n != 0 {
		t.Errorf("%d connections came to what is not allowed", n)
	}
	_, remote, own := p.defaults()
	if status, text := p.api(http.MethodPatch, "/api/v2/remotes/"+remote, `{"remoteURL":"postgres://127.0.0.1:1/x"}`); status != http.StatusBadRequest || !strings.Contains(text, "allowRemoteHosts") {
		t.Errorf("another address for the operator's remote is answered %d %s", status, text)
	}
	if st := p.replication(own); st.State != "running" {
		t.Errorf("after that, the operator's replication is %+v", st)
	}
	p.must(http.MethodPatch, "/api/v2/remotes/"+remote, `{"remoteURL":"`+strings.Replace(other.String(), "/"+other.User.String()+"@", "/"+other.User.Username()+"@", 1)+`"}`, nil)
	p.refused(own)
	p.stop()

	p = launch(t, dir, "--allowRemoteHosts", "127.0.0.0/8,::1", "--retryDelay", "50ms")
	for _, id := range all {
		eventually(t, 30*time.Second, "what waited does not arrive", func() bool {
			st := p.replication(id)
			return st.RemainingBytesToBeSynced == 0 && st.LastSuccessAt != nil && st.State == "running"
		})
	}
}

// Addresses that answer with secrets to whoever asks from this machine are refused without a list too, and
// a redirect leads nowhere.
func TestNoWayToTheMetadataService(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir(), "--retryDelay", "50ms")
	for _, remoteURL := range []string{
		"http://169.254.169.254", "http://169.254.169.254:80/latest", "http://[::ffff:169.254.169.254]/", "http://[fe80::1]:8086", "http://0.0.0.0:8086",
		"http://100.100.100.200", "http://[fd00:ec2::254]", "postgres://169.254.169.254/db", "postgres://127.0.0.1,169.254.169.254/db",
		"postgres://127.0.0.1/db?host=169.254.169.254", "http://x@169.254.169.254", "http://[64:ff9b::a9fe:a9fe]",
	} {
		status, text := p.api(http.MethodPost, "/api/v2/remotes", fmt.Sprintf(`{"orgID":"ORG","name":"r","remoteURL":%q,"remoteAPIToken":"x"}`, remoteURL))
		if status != http.StatusBadRequest || !strings.Contains(text, "not allowed") {
			t.Errorf("%s is answered %d %s", remoteURL, status, text)
		}
	}
	elsewhere, followed := onLoopback(t, asInfluxDB)
	at, _ := onLoopback(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	})
	_, id := p.replicate("redirected", at, `,"remoteOrgID":"o","remoteAPIToken":"x"`)
	p.write("m v=1 1")
	eventually(t, 30*time.Second, "the redirect is no failure", func() bool { return p.replication(id).LatestErrorMessage != "" })
	if n := followed.Load(); n != 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
}

// Behind a proxy only the name can be seen; with a list, the proxy has to be on it.
func TestProxyHasToBeAllowed(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]bool{"influx.example.com": false, "influx.example.com,127.0.0.1": true, "127.0.0.1": true, "10.1.2.3": false} {
		t.Run(list, func(t *testing.T) {
			t.Parallel()
			at, connections := onLoopback(t, asInfluxDB)
			dir := t.TempDir()
			p := begin(t, dir, []string{"HTTP_PROXY=" + at, "NO_PROXY="}, "--dataDir", dir, "--bindAddr", "127.0.0.1:0", "--retryDelay", "50ms", "--allowRemoteHosts", list)
			_, id := p.replicate("proxied", "http://influx.example.com:8086", `,"remoteOrgID":"o","remoteAPIToken":"x"`)
			p.write("m v=1 1")
			if !want {
				p.refused(id)
				if n := connections.Load(); n != 0 {
					t.Errorf("%d connections came to the proxy", n)
				}
				return
			}
			eventually(t, 30*time.Second, "nothing arrives", func() bool { return p.replication(id).LastSuccessAt != nil })
		})
	}
}

// No remote of the API is a file of the installation, nor one outside of its directory.
func TestFilesOfTheInstallationAreNoRemotes(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir := filepath.Join(above, "data")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(above, "outside.db"), nil, 0o600))
	must(t, os.Symlink(filepath.Join(above, "outside.db"), filepath.Join(dir, "link.db")))
	must(t, os.Symlink(above, filepath.Join(dir, "up")))
	p := launch(t, dir)
	p.write("m v=1 1")
	awaitCount(t, openTarget(t, dir), "SELECT count(*) FROM m", 1)
	entries, err := os.ReadDir(dir)
	must(t, err)
	names := []string{
		"../outside.db", "up/outside.db", "up/new.db", "./up/../new.db/../../x.db", "new.db-wal", "new.db-shm", "new.db-journal", "new%2edb",
		"/etc/passwd", filepath.Join(above, "new.db"), "replicationq/new.db", "METADATA.DB", "a\x01b.db",
	}
	for _, e := range entries {
		if name := e.Name(); name != "target.db" { // which remotes may share
			names = append(names, name, filepath.Join(dir, name))
		}
	}
	for _, name := range names {
		status, text := p.api(http.MethodPost, "/api/v2/remotes", fmt.Sprintf(`{"orgID":"ORG","name":"r","remoteURL":%q,"remoteAPIToken":""}`, "sqlite:"+name))
		if status != http.StatusBadRequest {
			t.Errorf("%s is answered %d %s", name, status, text)
		}
		if !filepath.IsAbs(name) && strings.Contains(text, above) {
			t.Errorf("%s: the answer tells where the directory is: %s", name, text)
		}
	}
	_, id := p.replicate("file", "sqlite:file:new.db", "")
	p.write("m v=1 2")
	awaitCount(t, openSQLite(t, filepath.Join(dir, "file:new.db")), "SELECT count(*) FROM \"file.m\"", 1)
	p.stop()

	// Files have to lie elsewhere from now on.
	p = launch(t, dir, "--sqliteDir", t.TempDir())
	p.write("m v=1 3")
	p.refused(id)
	awaitCount(t, openTarget(t, dir), "SELECT count(*) FROM m", 3)
}
