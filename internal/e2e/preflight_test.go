package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	"github.com/tailrace-cdc/tailrace/internal/cmd/preflight"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// A verdict is what the command prints as JSON.
type verdict struct {
	Target string
	OK     bool
	Checks []struct{ Name, Status, Found, Advice string }
}

// of returns the status of a check, and its texts.
func (v verdict) of(name string) (status, texts string) {
	for _, c := range v.Checks {
		if c.Name == name {
			return c.Status, c.Found + " → " + c.Advice
		}
	}
	return "", ""
}

// examine runs the command, once for people and once for programs, and compares what they are told.
func examine(t *testing.T, target string, args ...string) (int, verdict) {
	t.Helper()
	args = append([]string{"preflight"}, args...)
	code, text, _ := run(t, "TAILRACE_TARGET_CONN="+target, args...)
	codeJSON, printed, stderr := run(t, "TAILRACE_TARGET_CONN="+target, append(args, "--json")...)
	var v verdict
	if err := json.Unmarshal([]byte(printed), &v); err != nil {
		t.Fatalf("exit status %d, %v: %s%s", codeJSON, err, printed, stderr)
	}
	if code != codeJSON || v.OK != (code == 0) {
		t.Errorf("exit status %d, and %d with --json, which says %v", code, codeJSON, v.OK)
	}
	for _, c := range v.Checks {
		if !strings.Contains(text, c.Name) || !strings.Contains(text, c.Advice) {
			t.Errorf("people are not told of %s: %s", c.Name, text)
		}
		if (c.Status == "failed" || c.Status == "warning") && c.Advice == "" {
			t.Errorf("%s: nothing to do is named: %s", c.Name, c.Found)
		}
	}
	for _, secret := range []string{password, wrongPassword} {
		if strings.Contains(text+printed+stderr, secret) {
			t.Errorf("the password is told: %s%s", text, printed)
		}
	}
	return code, v
}

// TestPreflightSaysWhatIsWrong: each trouble fails its own check, and names what to do.
func TestPreflightSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, testenv.PostgresOptions{
		HBA: "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n", Settings: map[string]string{"fsync": "off", "max_connections": "30"},
	})
	root := openPostgres(t, server.DSN("postgres"))
	execute(t, root, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0", "CREATE DATABASE plant", "CREATE DATABASE later",
		"CREATE ROLE app LOGIN PASSWORD '"+password+"'", "CREATE ROLE nobody LOGIN PASSWORD '"+password+"'",
		"CREATE ROLE reader LOGIN PASSWORD '"+password+"'", "ALTER ROLE reader SET default_transaction_read_only = on",
		"CREATE ROLE half LOGIN PASSWORD '"+password+"'", "GRANT CREATE ON DATABASE plant TO half",
		"ALTER DATABASE plant OWNER TO app", "ALTER DATABASE latin OWNER TO app", "ALTER DATABASE later OWNER TO app")
	later := openPostgres(t, server.DSN("later"))
	execute(t, later, "CREATE SCHEMA _tailrace", "CREATE TABLE _tailrace.version (version bigint)", "INSERT INTO _tailrace.version VALUES (999)",
		"GRANT ALL ON SCHEMA _tailrace TO app", "GRANT ALL ON _tailrace.version TO app")
	as := func(user, word, database string) string {
		return strings.Replace(server.DSN(database), "postgres@", user+":"+word+"@", 1)
	}
	for _, c := range []struct {
		name, target  string
		args          []string
		check, status string
		says          []string
	}{
		{"good", as("app", password, "plant"), nil, "measurements", "ok", []string{"public"}},
		{"good again", as("app", password, "plant"), nil, "staging tables", "ok", []string{"can be made"}},
		{"a schema of its own", as("app", password, "plant"), []string{"--targetSchema", "My Plant"}, "measurements", "ok", []string{`"My Plant"`}},
		{"other staging schema", as("app", password, "plant"), []string{"--stagingSchema", "aside"}, "staging tables", "ok", []string{`"aside"`}},
		{"wrong password", as("app", wrongPassword, "plant"), nil, "connection", "failed", []string{"password authentication failed", "pg_hba.conf"}},
		{"no such database", as("app", password, "nowhere"), nil, "connection", "failed", []string{`"nowhere" does not exist`, "create the database"}},
		{"no server", "postgres://app:" + password + "@127.0.0.1:1/plant", nil, "connection", "failed", []string{"connection refused", "server runs"}},
		{"TLS that is not there", as("app", password, "plant") + "&sslmode=require", nil, "connection", "failed", []string{"TLS"}},
		{"no rights", as("nobody", password, "plant"), nil, "staging tables", "failed", []string{"permission denied", `GRANT CREATE ON DATABASE "plant" TO "nobody"`}},
		{"no rights on the schema", as("half", password, "plant"), nil, "measurements", "failed", []string{"permission denied", `GRANT CREATE ON SCHEMA "public" TO "half"`}},
		{"read-only", as("reader", password, "plant"), nil, "writes", "failed", []string{"default_transaction_read_only", `ALTER ROLE "reader"`}},
		{"not UTF-8", as("app", password, "latin"), nil, "encoding", "warning", []string{"LATIN1", "UTF8"}},
		{"newer staging tables", as("app", password, "later"), nil, "staging tables", "failed", []string{"999", "newer Tailrace"}},
		{"no fsync", as("app", password, "plant"), nil, "durability", "warning", []string{"fsync=off", "power cut"}},
		{"many connections", as("app", password, "plant"), []string{"--targetDBConns", "50"}, "connections", "warning", []string{"50", "max_connections"}},
		{"no TLS to this machine", as("app", password, "plant"), nil, "encryption", "ok", []string{"none"}},
		{"no pooler", as("app", password, "plant"), []string{"--pooledTarget"}, "pooler", "warning", []string{"leave out --pooledTarget"}},
		{"clocks", as("app", password, "plant"), nil, "clock", "ok", []string{"ahead"}},
	} {
		code, v := examine(t, c.target, c.args...)
		status, texts := v.of(c.check)
		if status != c.status || (code == 0) != (c.status != "failed") {
			t.Errorf("%s: exit status %d, the check of %s is %s: %+v", c.name, code, c.check, status, v)
		}
		for _, say := range c.says {
			if !strings.Contains(texts, say) {
				t.Errorf("%s: %q is not in %q", c.name, say, texts)
			}
		}
	}
	// Nothing was left behind.
	awaitCount(t, openPostgres(t, server.DSN("plant")), `SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`, 0)
	awaitCount(t, openPostgres(t, server.DSN("plant")), `SELECT count(*) FROM pg_namespace WHERE nspname IN ('_tailrace', 'aside', 'My Plant')`, 0)
	awaitCount(t, later, `SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE nspname = '_tailrace'`, 1)

	// A standby.
	server.Stop(t)
	server.WriteFile(t, "standby.signal", "")
	server.Restart(t)
	code, v := examine(t, as("app", password, "plant"))
	if status, texts := v.of("writes"); code != 1 || status != "failed" || !strings.Contains(texts, "standby") || !strings.Contains(texts, "primary") {
		t.Errorf("standby: exit status %d, %+v", code, v)
	}
}

// TestPreflightBehindAPooler suspects what stands in between.
func TestPreflightBehindAPooler(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, testenv.PostgresOptions{})
	pooled := strings.Replace(server.DSN("postgres"), fmt.Sprintf(":%d/", server.Port()), fmt.Sprintf(":%d/", testenv.StartPgBouncer(t, server.Port())), 1)
	for _, c := range []struct {
		status, say string
		args        []string
	}{
		{"warning", "give --pooledTarget", nil}, {"ok", "there is one", []string{"--pooledTarget"}},
	} {
		code, v := examine(t, pooled, c.args...)
		if status, texts := v.of("pooler"); code != 0 || status != c.status || !strings.Contains(texts, c.say) {
			t.Errorf("exit status %d, %+v", code, v)
		}
	}
}

// TestPreflightOfSQLite leaves the file, or that there is none, as it was.
func TestPreflightOfSQLite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "target.db")
	for range 2 {
		if code, v := examine(t, "sqlite:"+path); code != 0 {
			t.Errorf("a new file: %+v", v)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	code, v := examine(t, "sqlite:"+filepath.Join(dir, "missing", "target.db"))
	if status, texts := v.of("directory"); code != 1 || status != "failed" || !strings.Contains(texts, "make it") {
		t.Errorf("a missing directory: exit status %d, %+v", code, v)
	}
	code, v = examine(t, "sqlite:"+dir)
	if status, _ := v.of("file"); code != 1 || status != "failed" {
		t.Errorf("a directory: exit status %d, %+v", code, v)
	}
	p := launch(t, dir)
	p.write("m v=1 1")
	awaitCount(t, openTarget(t, dir), "SELECT count(*) FROM m", 1)
	if code, v := examine(t, "sqlite:"+path); code != 0 {
		t.Errorf("a file in use: %+v", v)
	}
	awaitCount(t, openTarget(t, dir), "SELECT count(*) FROM sqlite_schema WHERE name LIKE '%preflight%'", 0)
}

// TestPreflightThatCannotWorkSaysWhy: mistakes in the command are told from those of the target.
func TestPreflightThatCannotWorkSaysWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "--targetConn"},
		{[]string{"--targetConn", "mysql://app:" + password + "@h/db"}, "no known kind"},
		{[]string{"--targetConn", "postgres://h/db", "--targetDBConns", "1"}, "connections"},
		{[]string{"--targetConn", "postgres://h/db", "--timeout", "0s"}, "--timeout"},
		{[]string{"now"}, "takes no arguments"},
	} {
		code, stdout, stderr := run(t, "", append([]string{"preflight"}, c.args...)...)
		if code != 2 || !strings.Contains(stderr, c.says) || strings.Contains(stdout+stderr, password) {
			t.Errorf("%v: exit status %d: %s%s", c.args, code, stdout, stderr)
		}
	}
	preflight.Command().Flags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(f.Usage, "["+flags.EnvName(f.Name)+"]") {
			t.Errorf("--help does not say that --%s is %s too", f.Name, flags.EnvName(f.Name))
		}
	})
}

// TestPreflightOfAnInfluxDB asks a server of its own, another Tailrace, and nobody.
func TestPreflightOfAnInfluxDB(t *testing.T) {
	t.Parallel()
	db := testenv.StartInfluxDB(t, nil)
	db.Query(t, "", "CREATE DATABASE d")
	other := launch(t, t.TempDir())
	for _, c := range []struct {
		target, token string
		code          int
		check, says   string
	}{
		{db.URL() + "?db=d", "", 0, "connection", "version 1.6"},
		{db.URL() + "?db=d", "", 0, "write", "takes writes"},
		{db.URL() + "?db=nobody", "", 1, "write", "is gone or was never there"},
		{other.url + "?bucket=default", other.token(), 0, "write", "takes writes"},
		{other.url + "?bucket=default", wrongPassword, 1, "write", "does not know who we are"},
		{other.url + "?bucket=nobody", other.token(), 1, "write", "gone"},
		{"http://app:" + password + "@127.0.0.1:1?bucket=b", "", 1, "connection", "nothing listens there"},
		{"http://" + silentServer(t) + "?bucket=b", "", 1, "connection", "no answer"},
	} {
		code, v := examine(t, c.target, "--timeout", "2s", "--targetToken", c.token)
		if _, texts := v.of(c.check); code != c.code || !strings.Contains(texts, c.says) {
			t.Errorf("%s: exit status %d, %+v, want %d and %q", c.target, code, v, c.code, c.says)
		}
	}
	if code, _, stderr := run(t, "", "preflight", "--targetConn", "http://app:"+password+"@h"); code != 2 || !strings.Contains(stderr, "names no bucket") || strings.Contains(stderr, password) {
		t.Errorf("exit status %d: %s", code, stderr)
	}
}

// TestPreflightGivesUpInTime asks a server that takes connections and says nothing.
func TestPreflightGivesUpInTime(t *testing.T) {
	t.Parallel()
	silent := silentServer(t)
	code, v := examine(t, "postgres://app@"+silent+"/plant", "--timeout", "300ms")
	if status, _ := v.of("connection"); code != 1 || status != "failed" {
		t.Errorf("exit status %d, %+v", code, v)
	}
}

// silentServer listens, and never answers.
func silentServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}
