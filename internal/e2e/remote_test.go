package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

type created struct{ ID, Token string }

// defaults returns the ids of the bucket, the remote and the replication that an installation begins with.
func (p *process) defaults() (bucket, remote, replication string) {
	p.t.Helper()
	var list struct {
		Buckets, Remotes, Replications []created
	}
	p.must(http.MethodGet, "/api/v2/buckets?name=default", "", &list)
	p.must(http.MethodGet, "/api/v2/remotes?orgID=ORG&name=default", "", &list)
	p.must(http.MethodGet, "/api/v2/replications?orgID=ORG&name=default", "", &list)
	return list.Buckets[0].ID, list.Remotes[0].ID, list.Replications[0].ID
}

// status is what a test looks at of a replication.
type status struct {
	State, Advice, LatestErrorMessage, Mode string
	LatestResponseCode                      *int
	RemainingBytesToBeSynced                int64
	DeadLetters                             *int64
	Stalled, Paused                         bool
	LastSuccessAt                           *time.Time
}

func (p *process) replication(id string) (st status) {
	p.t.Helper()
	p.must(http.MethodGet, "/api/v2/replications/"+id, "", &st)
	return st
}

// TestTailraceIsTheRemoteOfAnotherByTheAPI makes, over the API of a running server, a replication to a second
// Tailrace, with a token that may write to one bucket there and nothing else. The second one is killed,
// and started again; then the remote's token is taken away, and given anew.
func TestTailraceIsTheRemoteOfAnotherByTheAPI(t *testing.T) {
	t.Parallel()
	far, near := launch(t, t.TempDir()), launch(t, t.TempDir(), "--retryDelay", "50ms")
	farBucket, _, _ := far.defaults()
	var token created
	far.must(http.MethodPost, "/api/v2/authorizations", `{"orgID":"ORG","scope":"write","bucketID":"`+farBucket+`"}`, &token)
	bucket, _, _ := near.defaults()
	var remote, replication created
	near.must(http.MethodPost, "/api/v2/remotes", `{"orgID":"ORG","name":"far","remoteURL":"`+far.url+`","remoteAPIToken":"`+token.Token+`"}`, &remote)
	body := `{"orgID":"ORG","name":"to far","remoteID":"` + remote.ID + `","localBucketID":"` + bucket + `","remoteBucketName":"default"}`
	near.must(http.MethodPost, "/api/v2/replications?validate=true", body, nil)
	if status, text := near.api(http.MethodPost, "/api/v2/replications?validate=true", strings.ReplaceAll(body, `Name":"default"`, `Name":"nowhere"`)); status != http.StatusBadRequest {
		t.Errorf("a bucket that does not exist validates: %d %s", status, text)
	}
	near.must(http.MethodPost, "/api/v2/replications", body, &replication)
	near.write("m v=1 1")
	awaitCount(t, openTarget(t, far.dir), "SELECT count(*) FROM m", 1)
	eventually(t, 30*time.Second, "the status is not that of a success", func() bool {
		st := near.replication(replication.ID)
		return st.LatestResponseCode != nil && *st.LatestResponseCode == http.StatusNoContent && st.LatestErrorMessage == "" &&
			st.State == "running" && st.RemainingBytesToBeSynced == 0 && st.LastSuccessAt != nil
	})
	if n := near.metric("replications_queue_remote_write_points_sent", `replicationID="`+replication.ID+`"`); n != 1 {
		t.Errorf("%v points were counted as sent", n)
	}

	address := strings.TrimPrefix(far.url, "http://")
	far.kill()
	for i := range 20 {
		near.write(fmt.Sprintf("m v=1 %d", 2+i))
	}
	eventually(t, 30*time.Second, "the status is not that of a failure", func() bool {
		st := near.replication(replication.ID)
		return st.State == "retrying" && st.LatestErrorMessage != "" && st.RemainingBytesToBeSynced > 0 && *st.LatestResponseCode == 0
	})
	far = begin(t, far.dir, nil, "--dataDir", far.dir, "--bindAddr", address)
	db := openTarget(t, far.dir)
	near.must(http.MethodPost, "/api/v2/replications/"+replication.ID+"/flush", "", nil)
	awaitCount(t, db, "SELECT count(*) FROM m", 21)

	far.must(http.MethodPatch, "/api/v2/authorizations/"+token.ID, `{"status":"inactive"}`, nil)
	near.write("m v=1 100")
	eventually(t, 30*time.Second, "the status does not tell of the token", func() bool {
		st := near.replication(replication.ID)
		return st.LatestResponseCode != nil && *st.LatestResponseCode == http.StatusUnauthorized && st.Advice != ""
	})
	var fresh created
	far.must(http.MethodPost, "/api/v2/authorizations", `{"orgID":"ORG","scope":"write","bucketID":"`+farBucket+`"}`, &fresh)
	near.must(http.MethodPatch, "/api/v2/remotes/"+remote.ID, `{"remoteAPIToken":"`+fresh.Token+`"}`, nil)
	awaitCount(t, db, "SELECT count(*) FROM m", 22)
	for _, told := range []string{near.output(), far.output()} {
		if strings.Contains(told, token.Token) || strings.Contains(told, fresh.Token) {
			t.Error("a token is in a log")
		}
	}
	near.must(http.MethodDelete, "/api/v2/replications/"+replication.ID, "", nil)
	if n := near.metric("replications_queue_remote_write_points_sent") + near.metric("replications_queue_disk_bytes", `replicationID="`+replication.ID+`"`); n != 0 {
		t.Errorf("series of the replication that was deleted are left")
	}
}

// TestWhatUsersDeleteStaysDeleted deletes what a new installation begins with, and makes something else.
func TestWhatUsersDeleteStaysDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := launch(t, dir)
	bucket, remote, replication := p.defaults()
	p.write("m v=1 1")
	p.must(http.MethodPost, "/api/v2/replications/"+replication+"/pause", "", nil)
	p.stop()
	p = launch(t, dir)
	if st := p.replication(replication); !st.Paused || st.State != "paused" {
		t.Errorf("after a restart the replication is %+v", st)
	}
	p.must(http.MethodPost, "/api/v2/replications/"+replication+"/resume", "", nil)
	p.must(http.MethodDelete, "/api/v2/replications/"+replication, "", nil)
	p.must(http.MethodDelete, "/api/v2/remotes/"+remote, "", nil)
	p.must(http.MethodDelete, "/api/v2/buckets/"+bucket, "", nil)
	p.stop()
	p = launch(t, dir, "--targetConn", "sqlite:"+filepath.Join(dir, "other.db"))
	p.awaitOutput("has been deleted; the flag does nothing")
	if status, text, err := p.post(p.token(), v2("default"), "m v=1 1"); err != nil || status != http.StatusNotFound {
		t.Errorf("the bucket is back: %d %s, %v", status, text, err)
	}
	var made created
	p.must(http.MethodPost, "/api/v2/buckets", `{"orgID":"ORG","name":"new"}`, &made)
	if status, text, err := p.post(p.token(), v2("new"), "m v=1 1"); err != nil || status != http.StatusServiceUnavailable || !strings.Contains(text, "replication") {
		t.Errorf("a bucket without a replication takes a write, and keeps it nowhere: %d %s, %v", status, text, err)
	}
}

// TestSecretsAreNotInTheDatabase starts on a data directory whose key is gone: the server starts, says
// so, and takes writes.
func TestSecretsAreNotInTheDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dsn := env.Postgres(t)
	p := launch(t, dir, "--targetConn", strings.Replace(dsn, "@", ":hunter2-hunter2@", 1))
	_, remote, replication := p.defaults()
	p.write("m v=1 1")
	p.stop()
	for _, name := range []string{"metadata.db", "installation.json"} {
		if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || strings.Contains(string(content), "hunter2") {
			t.Errorf("%s holds the password, %v", name, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "secret.key")); err != nil {
		t.Fatal(err)
	}
	p = launch(t, dir)
	p.write("m v=1 2")
	if st := p.replication(replication); st.State != "secret missing" || st.Advice == "" || !st.Stalled {
		t.Errorf("the replication is %+v", st)
	}
	if _, text := p.get("/ready?stream=" + replication); !strings.Contains(text, "secret missing") {
		t.Errorf("/ready says %s", text)
	}
	p.must(http.MethodPatch, "/api/v2/remotes/"+remote, `{"remoteAPIToken":"hunter2-hunter2"}`, nil)
	awaitCount(t, openPostgres(t, dsn), "SELECT count(*) FROM m", 2)
	if strings.Contains(p.output(), "hunter2") {
		t.Error("the password is in the log")
	}
}

// TestSubscriptionOfInfluxDB1 has a real InfluxDB 1.x push what it is written.
func TestSubscriptionOfInfluxDB1(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir())
	influx := testenv.StartInfluxDB(t, map[string]string{"subscriber": "enabled = true"})
	influx.Query(t, "", `CREATE DATABASE "default"`)
	at := strings.Replace(p.url, "http://", "http://any:"+p.token()+"@", 1)
	influx.Query(t, "", `CREATE SUBSCRIPTION "tailrace" ON "default"."autogen" DESTINATIONS ALL '`+at+`'`)
	db := openTarget(t, p.dir)
	n := 0
	// The server takes notice of a subscription in its own time, and sends nothing from before.
	eventually(t, time.Minute, "nothing arrives", func() bool {
		n++
		resp, err := http.Post(influx.URL()+"/write?db=default", "text/plain", strings.NewReader(fmt.Sprintf("m,host=a v=%d %d", n, n)))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		var points int
		return db.QueryRow("SELECT count(*) FROM m").Scan(&points) == nil && points > 0
	})
	for i := range 50 {
		resp, err := http.Post(influx.URL()+"/write?db=default&precision=s", "text/plain", strings.NewReader(fmt.Sprintf("after,host=a v=%d %d", i, 1700000000+i)))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	awaitCount(t, db, "SELECT count(*) FROM after WHERE time >= 1700000000000000000", 50)
	if st := p.metric("tailrace_intake_points_refused_total"); st != 0 {
		t.Errorf("%v points were refused", st)
	}
}

// TestDatabaseMadeByAClient makes a bucket as Telegraf does, gives it a replication, and writes to it as
// 1.x does.
func TestDatabaseMadeByAClient(t *testing.T) {
	t.Parallel()
	p := launch(t, t.TempDir())
	if status, text, err := p.post(p.token(), "/query?q=CREATE+DATABASE+telegraf", ""); err != nil || status != http.StatusOK {
		t.Fatalf("CREATE DATABASE: %d %s, %v", status, text, err)
	}
	var list struct{ Buckets []created }
	p.must(http.MethodGet, "/api/v2/buckets?name=telegraf", "", &list)
	_, remote, _ := p.defaults()
	p.must(http.MethodPost, "/api/v2/replications", `{"orgID":"ORG","name":"t","remoteID":"`+remote+`","localBucketID":"`+list.Buckets[0].ID+`","remoteBucketName":"telegraf"}`, nil)
	if status, text, err := p.post(p.token(), "/write?db=telegraf", "m v=1 1"); err != nil || status != http.StatusNoContent {
		t.Fatalf("write: %d %s, %v", status, text, err)
	}
	awaitCount(t, openTarget(t, p.dir), `SELECT count(*) FROM "telegraf.m"`, 1)
}
