package e2e

import (
	"database/sql"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

const (
	password      = "gEhEiM-4711"
	wrongPassword = "fAlScH-0815"
)

// trouble is a server whose PostgreSQL does not do what it should.
type trouble struct {
	*process
	admin *sql.DB
}

// says waits until the log says something, and then until /ready says it too, which takes as long as it
// takes until a stream counts as stalled.
func (tr trouble) says(texts ...string) {
	tr.t.Helper()
	for _, text := range texts {
		eventually(tr.t, 30*time.Second, "the log does not say: "+text, func() bool {
			return strings.Contains(strings.ReplaceAll(tr.output(), `\"`, `"`), text)
		})
	}
	eventually(tr.t, time.Minute, "/ready does not say: "+strings.Join(texts, ", "), func() bool {
		status, text := tr.get("/ready?stream=default")
		text = strings.ReplaceAll(text, `\"`, `"`)
		for _, want := range texts {
			if !strings.Contains(text, want) {
				return false
			}
		}
		return status == http.StatusServiceUnavailable
	})
	if tr.metric("logical_commit_failure_total") == 0 {
		tr.t.Error("no failure was counted")
	}
	if age := tr.metric("logical_staleness_seconds"); age < 1 {
		tr.t.Errorf("the staleness is %v s", age)
	}
}

// heals expects that the points have arrived, that nothing was set aside, and that no password was told.
func (tr trouble) heals(query string, want int) {
	tr.t.Helper()
	awaitCount(tr.t, tr.admin, query, want)
	eventually(tr.t, time.Minute, "the stream does not become ready", func() bool {
		status, _ := tr.get("/ready?stream=default")
		return status == http.StatusOK && tr.metric("replications_queue_current_bytes_queued") == 0
	})
	if n := tr.metric("logical_rejected_total"); n > 0 {
		tr.t.Errorf("%v points were set aside", n)
	}
	tr.keepsSecrets()
}

func (tr trouble) keepsSecrets() {
	tr.t.Helper()
	told := tr.output()
	for _, path := range []string{"/ready?stream=default", "/health", "/metrics", "/ping?verbose=true"} {
		_, text := tr.get(path)
		told += text
	}
	for _, secret := range []string{password, wrongPassword} {
		if strings.Contains(told, secret) {
			tr.t.Errorf("a password was told:\n%s", told)
		}
	}
}

// TestPostgresTroubleIsNamedAndHeals has a server each for what goes wrong with PostgreSQL. Writes are
// taken meanwhile, log and /ready say what is wrong and what to do, and when the cause is gone
// everything arrives.
func TestPostgresTroubleIsNamedAndHeals(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, testenv.PostgresOptions{
		HBA: "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n",
	})
	root := openPostgres(t, server.DSN("postgres"))
	// begin makes a database with a user of its own, and starts a server with it.
	begin := func(t *testing.T, name, password string, prepare func(admin *sql.DB), args ...string) trouble {
		t.Helper()
		execute(t, root, "CREATE DATABASE "+name, "CREATE ROLE "+name+" LOGIN PASSWORD 'gEhEiM-4711'")
		admin := openPostgres(t, server.DSN(name))
		prepare(admin)
		dsn := strings.Replace(server.DSN(name), "postgres@", name+":"+password+"@", 1)
		return trouble{launch(t, t.TempDir(), append([]string{"--targetConn", dsn}, args...)...), admin}
	}
	owner := func(t *testing.T, name string) func(*sql.DB) {
		return func(admin *sql.DB) { execute(t, admin, "ALTER DATABASE "+name+" OWNER TO "+name) }
	}

	t.Run("group", func(t *testing.T) { // the server stops when all have ended
		t.Run("wrong password", func(t *testing.T) {
			t.Parallel()
			tr := begin(t, "wrong", wrongPassword, owner(t, "wrong"))
			tr.write("weather t=1 1\nweather t=2 2")
			tr.says("password authentication failed", "check the user and password")
			execute(t, tr.admin, "ALTER ROLE wrong PASSWORD '"+wrongPassword+"'")
			tr.heals("SELECT count(*) FROM weather", 2)
		})
		t.Run("missing rights", func(t *testing.T) {
			t.Parallel()
			tr := begin(t, "rights", password, func(*sql.DB) {})
			tr.write("weather t=1 1\nweather t=2 2")
			tr.says("permission denied for database rights", "grant the right")
			execute(t, tr.admin, "GRANT CREATE ON DATABASE rights TO rights")
			tr.says("permission denied for schema public", "grant the right")
			execute(t, tr.admin, "GRANT CREATE ON SCHEMA public TO rights")
			tr.heals("SELECT count(*) FROM weather", 2)
		})
		t.Run("lock held for longer than the timeout", func(t *testing.T) {
			t.Parallel()
			tr := begin(t, "locked", password, owner(t, "locked"), "--applyTimeout", "1s")
			tr.write("weather t=1 1")
			awaitCount(t, tr.admin, "SELECT count(*) FROM weather", 1)
			release := holdTable(t, tr.admin, "weather")
			tr.write("weather t=1 2\nweather t=2 3")
			tr.says("imeout", "lock") // by the server or by us, whoever is first
			release()
			tr.heals("SELECT count(*) FROM weather", 3)
		})
		t.Run("table of the user's with other columns", func(t *testing.T) {
			t.Parallel()
			tr := begin(t, "other", password, owner(t, "other"))
			execute(t, tr.admin, "CREATE TABLE weather (id int PRIMARY KEY, note text)", "INSERT INTO weather VALUES (1, 'mine')",
				"GRANT ALL ON weather TO other")
			tr.write("weather t=1 1\nweather t=2 2")
			tr.says(`"public"."weather"`, "which Tailrace did not make", `no column "time"`, "rename it")
			execute(t, tr.admin, "ALTER TABLE weather RENAME TO notes")
			tr.heals("SELECT count(*) FROM weather", 2)
			awaitCount(t, tr.admin, "SELECT count(*) FROM notes WHERE note = 'mine'", 1)
		})
		t.Run("table of the user's that lacks a column", func(t *testing.T) {
			t.Parallel()
			tr := begin(t, "lacks", password, owner(t, "lacks"))
			execute(t, tr.admin, `CREATE TABLE weather ("time" timestamptz, city text NOT NULL DEFAULT '', t float8, PRIMARY KEY ("time", city))`,
				"GRANT ALL ON weather TO lacks")
			tr.write("weather,city=Bern t=1 1000\nweather,city=Bern t=2,wind=3i 2000")
			tr.says("which Tailrace did not make", `no column "wind"`, "ALTER TABLE")
			advice := regexp.MustCompile(`ALTER TABLE [^)]*`).FindString(strings.ReplaceAll(tr.output(), `\"`, `"`))
			execute(t, tr.admin, advice)
			tr.heals("SELECT count(*) FROM weather", 2)
			awaitCount(t, tr.admin, "SELECT wind FROM weather WHERE wind IS NOT NULL", 3)
		})
	})
}

// TestPostgresDownAtTheStartIsNoReasonNotToStart starts with a target that is away: writes are taken, and
// arrive when it is there. Another start with the target away finds what is in the queue.
func TestPostgresDownAtTheStartIsNoReasonNotToStart(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, testenv.PostgresOptions{})
	server.Stop(t)
	dir := t.TempDir()
	dsn := strings.Replace(server.DSN("postgres"), "postgres@", "postgres:"+password+"@", 1)
	p := launch(t, dir, "--targetConn", dsn)
	p.write("weather t=1 1")
	if code := p.stop(); code != 0 {
		t.Errorf("exit status %d:\n%s", code, p.output())
	}
	tr := trouble{launch(t, dir, "--targetConn", dsn), openPostgres(t, dsn)}
	tr.write("weather t=2 2")
	tr.says("connection refused", "check that the server runs")
	if status, _ := tr.get("/ready"); status != http.StatusOK {
		t.Errorf("/ready says %d although writes are taken", status)
	}
	server.Restart(t)
	tr.heals("SELECT count(*) FROM weather", 2)
}

// TestConnectionStringsAreNotTold gives what is no target, in the ways in which people get it wrong.
func TestConnectionStringsAreNotTold(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"host=127.0.0.1 user=app password=" + password,
		"postgress://app:" + password + "@127.0.0.1/db",
		"app:" + password + "@127.0.0.1/db",
		"postgres://app:" + password + "@127.0.0.1:port/db",
		"postgres://app:" + password + "@[127.0.0.1/db",
		"postgres://app:" + password + "%zz@127.0.0.1/db",
		"postgres://127.0.0.1/db?password=" + password + "&sslmode=sometimes",
		"postgres:host=127.0.0.1 password=" + password + " port=x",
		password,
	} {
		code, stdout, stderr := run(t, "TAILRACE_TARGET_CONN="+dsn, "start", "--bindAddr", "127.0.0.1:0", "--dataDir", t.TempDir())
		if code != 2 || !strings.Contains(stderr, "--targetConn") {
			t.Errorf("%s: exit status %d: %s", dsn, code, stderr)
		}
		if strings.Contains(stdout+stderr, password) {
			t.Errorf("%s: the password was told: %s", dsn, stdout+stderr)
		}
	}
}
