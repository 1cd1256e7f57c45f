package e2e

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tailrace-cdc/tailrace/internal/cmd/flags"
	importcmd "github.com/tailrace-cdc/tailrace/internal/cmd/import"
	"github.com/tailrace-cdc/tailrace/internal/cmd/start"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// A setting is a flag in the form in which a test gives it: on the command line, or as an environment
// variable.
type setting struct {
	flag  string
	byEnv bool
}

// give returns the arguments, and the addition to the environment, that set the flag.
func (s setting) give(value string) (args []string, env string) {
	if s.byEnv {
		return nil, flags.EnvName(s.flag) + "=" + value
	}
	return []string{"--" + s.flag + "=" + value}, ""
}

// launch starts a server with the flag.
func (s setting) launch(t *testing.T, value string, with ...string) *process {
	t.Helper()
	dir := t.TempDir()
	args, env := s.give(value)
	if s.flag == "dataDir" {
		dir = value
	} else {
		args = append(args, "--dataDir", dir)
	}
	if s.flag != "bindAddr" {
		args = append(args, "--bindAddr", "127.0.0.1:0")
	}
	var environment []string
	if env != "" {
		environment = []string{env}
	}
	return begin(t, dir, environment, append(args, with...)...)
}

// everyForm runs a test for each flag that it is given, in both forms.
func everyForm(t *testing.T, tests map[string]func(*testing.T, setting)) {
	t.Helper()
	for name, test := range tests {
		for form, byEnv := range map[string]bool{"flag": false, "environment": true} {
			t.Run(name+"/"+form, func(t *testing.T) {
				t.Parallel()
				test(t, setting{name, byEnv})
			})
		}
	}
}

// TestEveryFlagHasATest fails when a flag is added without a test that it changes behaviour.
func TestEveryFlagHasATest(t *testing.T) {
	t.Parallel()
	all := func(name string, set *pflag.FlagSet, tests map[string]func(*testing.T, setting)) {
		set.VisitAll(func(f *pflag.Flag) {
			if tests[f.Name] == nil {
				t.Errorf("tailrace %s --%s has no test", name, f.Name)
			}
			if !strings.Contains(f.Usage, "["+flags.EnvName(f.Name)+"]") {
				t.Errorf("tailrace %s --help does not say that --%s is %s too", name, f.Name, flags.EnvName(f.Name))
			}
		})
		for flag := range tests {
			if set.Lookup(flag) == nil {
				t.Errorf("tailrace %s --%s is tested and does not exist", name, flag)
			}
		}
	}
	all("start", start.Command("", nil).Flags(), startFlags)
	all("import", importcmd.Command().Flags(), importFlags)
}

// TestStartFlagsChangeBehaviour shows for each flag of the server that it does something.
func TestStartFlagsChangeBehaviour(t *testing.T) {
	t.Parallel()
	everyForm(t, startFlags)
}

var startFlags = map[string]func(t *testing.T, s setting){
	"bindAddr": func(t *testing.T, s setting) {
		if runtime.GOOS != "linux" {
			t.Skip("127.0.0.2 is an address of this machine on Linux only")
		}
		if p := s.launch(t, "127.0.0.2:0"); !strings.HasPrefix(p.url, "http://127.0.0.2:") {
			t.Errorf("it listens on %s", p.url)
		}
	},
	"dataDir": func(t *testing.T, s setting) {
		p := s.launch(t, filepath.Join(t.TempDir(), "new", "dir"))
		p.write("m v=1 1") // with the token that is in there
	},
	"maxBodySize": func(t *testing.T, s setting) {
		body := strings.Repeat("m v=1 1\n", 300)
		launch(t, t.TempDir()).write(body)
		p := s.launch(t, "1KiB")
		if status, text, err := p.post(p.token(), v2("default"), body); err != nil || status != http.StatusRequestEntityTooLarge {
			t.Errorf("got %d %s, %v", status, text, err)
		}
	},
	"chaosProb": func(t *testing.T, s setting) {
		// Which calls fail depends on the stream's id, which is random: some runs fail many times in a row.
		p, plain := s.launch(t, "0.1", "--retryDelay", "5ms"), launch(t, t.TempDir())
		for i := range 20 {
			for _, p := range []*process{p, plain} {
				p.write(fmt.Sprintf("m v=%d %d", i, i+1))
			}
		}
		for _, p := range []*process{p, plain} {
			eventually(t, time.Minute, "not all writes arrive", func() bool {
				return p.metric("replications_queue_current_bytes_queued") == 0
			})
		}
		failures := func(p *process) float64 { return p.metric("logical_commit_failure_total") }
		if failures(p) == 0 || failures(plain) > 0 {
			t.Errorf("%v calls fail with chaos, and %v without", failures(p), failures(plain))
		}
	},
	"chaosSeed": func(t *testing.T, s setting) {
		// Which call is struck first depends on the seed: with some of ten seeds the first write arrives, and
		// with some it does not.
		said := map[bool]bool{}
		for seed := range 10 {
			p := s.launch(t, fmt.Sprint(seed), "--chaosProb", "0.06", "--retryDelay", "1h")
			p.write("m v=1 1")
			eventually(t, 30*time.Second, "the loop does nothing", func() bool {
				return p.metric("logical_commit_success_total") > 0 || strings.Contains(p.output(), "trying again")
			})
			said[strings.Contains(p.output(), "trying again")] = true
			if len(said) == 2 {
				return
			}
		}
		t.Errorf("ten seeds do the same: %v", said)
	},
	"bytesInFlight": func(t *testing.T, s setting) {
		small, plain := s.launch(t, "64KiB"), launch(t, t.TempDir())
		for _, p := range []*process{small, plain} {
			p.stick()
			p.write(series(4000))
		}
		inFlight := func(p *process) float64 { return p.metric("logical_bytes_in_flight") }
		eventually(t, 30*time.Second, "little is in flight without the flag", func() bool { return inFlight(plain) > 256<<10 })
		eventually(t, 30*time.Second, "nothing is in flight", func() bool { return inFlight(small) > 0 })
		if n := inFlight(small); n > 64<<10 {
			t.Errorf("%v bytes are in flight", n)
		}
	},
	"totalBytesInFlight": func(t *testing.T, s setting) {
		small, plain := s.launch(t, "512KiB"), launch(t, t.TempDir())
		for _, p := range []*process{small, plain} {
			p.stick()
			p.write(series(4000))
		}
		inFlight := func(p *process) float64 { return p.metric("logical_bytes_in_flight") }
		eventually(t, 30*time.Second, "little is in flight without the flag", func() bool { return inFlight(plain) > 256<<10 })
		eventually(t, 30*time.Second, "nothing is in flight", func() bool { return inFlight(small) > 0 })
		if n := inFlight(small); n > 128<<10 {
			t.Errorf("%v bytes are in flight", n)
		}
		limit := func(p *process) float64 { return p.metric("logical_total_bytes_in_flight_limit") }
		if small, plain := limit(small), limit(plain); small != 512<<10 || plain <= small {
			t.Errorf("the limits are shown as %v and %v bytes", small, plain)
		}
		// What is on its way to be processed is held too.
		for _, p := range []*process{small, plain} {
			if n := p.metric("logical_total_bytes_in_flight"); n == 0 || n > limit(p) {
				t.Errorf("%v bytes are shown as in flight in all", n)
			}
		}
	},
	"applyTimeout": func(t *testing.T, s setting) {
		p, _ := stuckPostgres(t, func(with ...string) *process { return s.launch(t, "300ms", with...) })
		plain, _ := stuckPostgres(t, func(with ...string) *process { return launch(t, t.TempDir(), with...) })
		eventually(t, 20*time.Second, "the timeout is not told", func() bool { return strings.Contains(p.output(), "longer than the apply timeout") })
		if n := plain.metric("logical_commit_failure_total"); n > 0 {
			t.Errorf("%v failures without the flag", n)
		}
	},
	"retryDelay": func(t *testing.T, s setting) {
		const nobody = "postgres://postgres@127.0.0.1:1/postgres"
		slow, plain := s.launch(t, "10h", "--targetConn", nobody), launch(t, t.TempDir(), "--targetConn", nobody)
		tries := func(p *process) float64 { return p.metric("logical_commit_failure_total") }
		eventually(t, 30*time.Second, "it does not try again", func() bool { return tries(plain) >= 4 })
		eventually(t, 30*time.Second, "it does not try", func() bool { return tries(slow) >= 1 })
		if n := tries(slow); n > 1 {
			t.Errorf("%v tries, with 10 h between them", n)
		}
	},
	"standbyTimeout": func(t *testing.T, s setting) {
		slow, plain := s.launch(t, "10h"), launch(t, t.TempDir())
		pending := func(p *process) float64 { return p.metric("replications_queue_current_bytes_queued") }
		for _, p := range []*process{slow, plain} {
			db := openTarget(t, p.dir)
			p.write("m v=1 1")
			awaitCount(t, db, "SELECT count(*) FROM m", 1)
			p.write("m v=1 2")
			awaitCount(t, db, "SELECT count(*) FROM m", 2)
		}
		eventually(t, 30*time.Second, "the queue is not told of progress", func() bool { return pending(plain) == 0 })
		if pending(slow) == 0 {
			t.Error("the queue was told of progress already")
		}
		// The end tells it all the same.
		slow.stop()
		p := launch(t, slow.dir)
		if pending(p) != 0 {
			t.Error("the queue was not told of progress at the end")
		}
	},
	"gracePeriod": func(t *testing.T, s setting) {
		p := s.launch(t, "100ms")
		p.stick()
		p.write("m v=1 2")
		begun := time.Now()
		if code := p.stop(); code != 0 {
			t.Errorf("exit status %d", code)
		}
		if took := time.Since(begun); took > 8*time.Second { // the default is 10 s
			t.Errorf("it took %s", took)
		}
	},
	"logFormat": func(t *testing.T, s setting) {
		p := s.launch(t, "json")
		p.write("m v=1 1")
		p.stop()
		lines := 0
		for line := range strings.Lines(p.output()) {
			if strings.HasPrefix(line, "time=") {
				t.Errorf("a line of the log is no JSON: %s", line)
			}
			if strings.HasPrefix(line, "{") {
				lines++
				if err := json.Unmarshal([]byte(line), new(map[string]any)); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		}
		if lines < 2 {
			t.Errorf("%d lines of JSON:\n%s", lines, p.output())
		}
	},
	"verbose": func(t *testing.T, s setting) {
		p, plain := s.launch(t, "true"), launch(t, t.TempDir())
		for _, p := range []*process{p, plain} {
			p.write("m v=1 1")
			awaitCount(t, openTarget(t, p.dir), "SELECT count(*) FROM m", 1)
		}
		eventually(t, 30*time.Second, "no details are logged", func() bool { return strings.Contains(p.output(), "DEBUG msg=landed") })
		if strings.Contains(plain.output(), "DEBUG") {
			t.Errorf("details are logged without the flag:\n%s", plain.output())
		}
	},
	"targetConn": func(t *testing.T, s setting) {
		path := filepath.Join(t.TempDir(), "elsewhere.db")
		p := s.launch(t, "sqlite:"+path)
		p.write("m v=1 1")
		awaitCount(t, openSQLite(t, path), "SELECT count(*) FROM m", 1)
		if _, err := os.Stat(filepath.Join(p.dir, "target.db")); !os.IsNotExist(err) {
			t.Errorf("the embedded target is there too: %v", err)
		}
	},
	"targetToken": func(t *testing.T, s setting) {
		other := launch(t, t.TempDir())
		conn := other.url + "?bucket=default"
		p := s.launch(t, other.token(), "--targetConn", conn)
		plain := launch(t, t.TempDir(), "--targetConn", conn)
		plain.write("m v=1 1")
		plain.awaitOutput("does not know who we are")
		p.write("m v=1 2")
		awaitCount(t, openTarget(t, other.dir), "SELECT count(*) FROM m", 1)
		if strings.Contains(p.output(), other.token()) {
			t.Errorf("the token shows: %s", p.output())
		}
	},
	"targetDBConns": func(t *testing.T, s setting) {
		// Two of them are not for data.
		fewer(t, 2, func(with ...string) *process { return s.launch(t, "4", with...) }, "--immediate", "--fanShards", "6")
	},
	"fanShards": func(t *testing.T, s setting) {
		fewer(t, 3, func(with ...string) *process { return s.launch(t, "3", with...) }, "--immediate")
	},
	"immediate": func(t *testing.T, s setting) {
		p, db := stuckPostgres(t, func(with ...string) *process { return s.launch(t, "true", with...) })
		eventually(t, 30*time.Second, "there is one transaction at a time", func() bool { return count(t, db, lockWaiters) > 1 })
		if p.metric("logical_mode", `mode="immediate"`) != 1 {
			t.Error("the mode is another one")
		}
		plain, db := stuckPostgres(t, func(with ...string) *process { return launch(t, t.TempDir(), with...) })
		awaitCount(t, db, lockWaiters, 1)
		if plain.metric("logical_mode", `mode="serial"`) != 1 {
			t.Error("the mode without the flag is another one")
		}
	},
	"queueSync": func(t *testing.T, s setting) {
		p, plain := s.launch(t, "never"), launch(t, t.TempDir())
		for _, p := range []*process{p, plain} {
			for i := range 5 {
				p.write(fmt.Sprintf("m v=1 %d", i))
			}
		}
		if n := plain.metric("replications_queue_syncs_total"); n < 5 {
			t.Errorf("%v syncs for five writes, one after the other", n)
		}
		if n := p.metric("replications_queue_syncs_total"); n >= 5 {
			t.Errorf("%v syncs with never", n)
		}
	},
	"telemetryURL": func(t *testing.T, s setting) {
		c := newCollector(t)
		p := s.launch(t, c.URL+"/r", "--telemetryInterval", "50ms")
		defer p.stick()()
		p.write("a\\ secret\\ name,tag=hidden v=1 1")
		c.await("nothing is reported", func(r map[string]any) bool { return r["queueBytes"].(float64) > 0 })
	},
	"telemetryInterval": func(t *testing.T, s setting) {
		c := newCollector(t)
		s.launch(t, "50ms", "--telemetryURL", c.URL)
		c.await("nothing is reported", func(r map[string]any) bool { return r["streams"].(float64) == 1 && r["remotes"].(float64) == 1 })
	},
	"tlsCertificate":  takesTLS,
	"tlsPrivateKey":   takesTLS,
	"tlsClientCA":     asksClients,
	"tlsClientAuth":   asksClients,
	"maxConns":        connectionsAreLimited,
	"maxConnsPerHost": connectionsAreLimited,
	"instanceID": func(t *testing.T, s setting) {
		p := s.launch(t, "plant a")
		p.write("m,z=1 v=1 1\nm,tailrace_origin=other,z=1 v=1 2")
		db := openTarget(t, p.dir)
		awaitCount(t, db, "SELECT count(*) FROM m WHERE tailrace_origin = 'plant a' AND z = '1'", 1)
		awaitCount(t, db, "SELECT count(*) FROM m WHERE tailrace_origin = 'other'", 1)
	},
	"instanceTag": func(t *testing.T, s setting) {
		p := s.launch(t, "from", "--instanceID", "plant a")
		p.write("m v=1 1")
		awaitCount(t, openTarget(t, p.dir), "SELECT count(*) FROM m WHERE \"from\" = 'plant a'", 1)
	},
	"maxQueueSize": func(t *testing.T, s setting) {
		p := s.launch(t, "1MiB")
		defer p.stick()()
		status, text := p.fill(t, 200)
		if status != http.StatusServiceUnavailable || !strings.Contains(text, "default") {
			t.Errorf("the full queue answers %d %s, want 503 and the stream's name", status, text)
		}
		if points, bytes := p.metric("replications_queue_points_failed_to_queue"), p.metric("replications_queue_bytes_failed_to_queue"); points != 1 || bytes < 1000 {
			t.Errorf("%v points of %v bytes count as not queued, want the one", points, bytes)
		}
	},
	"queueFullPolicy": func(t *testing.T, s setting) {
		p := s.launch(t, "dropOldest", "--maxQueueSize", "1MiB")
		release := p.stick()
		if status, text := p.fill(t, 200); status != http.StatusNoContent {
			t.Errorf("a write is answered %d %s although the oldest can be dropped", status, text)
		}
		release()
		if p.metric("replications_queue_points_lost", `reason="dropOldest"`) == 0 {
			t.Error("what was dropped is not counted")
		}
	},
	"keepFree": func(t *testing.T, s setting) {
		p := s.launch(t, "100TB")
		if status, text := p.fill(t, 1); status != http.StatusServiceUnavailable || !strings.Contains(text, "free") {
			t.Errorf("a disk that is to stay free takes a write: %d %s", status, text)
		}
	},
	"targetSchema": func(t *testing.T, s setting) {
		dsn := env.Postgres(t)
		s.launch(t, "My Plant", "--targetConn", dsn).write("m v=1 1")
		awaitCount(t, openPostgres(t, dsn), `SELECT count(*) FROM "My Plant".m`, 1)
		p := s.launch(t, "My Plant") // SQLite has no schemas
		p.write("m v=1 1")
		awaitCount(t, openTarget(t, p.dir), `SELECT count(*) FROM "My Plant.m"`, 1)
	},
	"pooledTarget": func(t *testing.T, s setting) {
		dsn := env.Postgres(t)
		server := openPostgres(t, dsn)
		var port int
		if err := server.QueryRow("SHOW port").Scan(&port); err != nil {
			t.Fatal(err)
		}
		pooled := regexp.MustCompile(`:[0-9]+/`).ReplaceAllString(dsn, fmt.Sprintf(":%d/", testenv.StartPgBouncer(t, port)))
		// Nothing that outlives a transaction may be left at the server: it would be another client's.
		execute(t, server, `CREATE TABLE left_behind (statements int)`,
			`CREATE TABLE m ("time" timestamptz, nanos smallint, series uuid, v float8, PRIMARY KEY ("time", series, nanos))`,
			`CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
INSERT INTO left_behind SELECT count(*) FROM pg_prepared_statements; RETURN NEW; END $$`,
			`CREATE TRIGGER look BEFORE INSERT ON m FOR EACH ROW EXECUTE FUNCTION look()`)
		p := s.launch(t, "true", "--targetConn", pooled)
		for i := range 20 {
			p.write(fmt.Sprintf("m v=1 %d", i))
		}
		awaitCount(t, server, "SELECT count(*) FROM m", 20)
		if n := p.metric("logical_commit_failure_total"); n > 0 {
			t.Errorf("%v failures", n)
		}
		awaitCount(t, server, "SELECT max(statements) FROM left_behind", 0)
		plain := launch(t, t.TempDir(), "--targetConn", dsn)
		for i := range 5 {
			plain.write(fmt.Sprintf("m v=1 %d", 100+i))
			awaitCount(t, server, "SELECT count(*) FROM m", 21+i)
		}
		if count(t, server, "SELECT max(statements) FROM left_behind") == 0 {
			t.Error("statements are not kept prepared without the flag")
		}
	},
	"ignoreMissingColumns": func(t *testing.T, s setting) {
		dsn := env.Postgres(t)
		db := openPostgres(t, dsn)
		execute(t, db, `CREATE TABLE m ("time" timestamptz, nanos smallint, series uuid, v float8, PRIMARY KEY ("time", series, nanos))`)
		p := s.launch(t, "true", "--targetConn", dsn)
		p.write("m v=1,other=2i,third=3i 1")
		awaitCount(t, db, "SELECT count(*) FROM m WHERE v = 1", 1)
		if n := p.metric("target_ignored_values_total"); n != 2 {
			t.Errorf("%v values are counted as left out, want 2", n)
		}
		if !strings.Contains(p.output(), "column=other") {
			t.Errorf("the log does not name the column:\n%s", p.output())
		}
	},
	"stagingSchema": func(t *testing.T, s setting) {
		dsn := env.Postgres(t)
		s.launch(t, "its own", "--targetConn", dsn).write("m v=1 1")
		db := openPostgres(t, dsn)
		awaitCount(t, db, `SELECT count(*) FROM "its own".memo`, 1)
		awaitCount(t, db, `SELECT count(*) FROM pg_namespace WHERE nspname = '_tailrace'`, 0)
	},
	"indexTags": func(t *testing.T, s setting) {
		dsn := env.Postgres(t)
		s.launch(t, "host,region", "--targetConn", dsn).write("m,host=a,region=b,rack=c v=1 1")
		db := openPostgres(t, dsn)
		awaitCount(t, db, "SELECT count(*) FROM m", 1)
		awaitCount(t, db, `SELECT count(*) FROM pg_indexes WHERE tablename = 'm' AND (indexdef LIKE '%(host, "time" DESC)' OR indexdef LIKE '%(region, "time" DESC)')`, 2)
		awaitCount(t, db, `SELECT count(*) FROM pg_indexes WHERE tablename = 'm'`, 3) // and the key
	},
	"queueDir": func(t *testing.T, s setting) {
		dir := filepath.Join(t.TempDir(), "queues")
		p := s.launch(t, dir)
		p.write("m v=1 1")
		onlyQueue(t, dir)
		if _, err := os.Stat(filepath.Join(p.dir, "replicationq")); !os.IsNotExist(err) {
			t.Errorf("there is a directory for queues in the data directory too: %v", err)
		}
	},
	"sqliteDir": func(t *testing.T, s setting) {
		dir := t.TempDir()
		remote := fmt.Sprintf(`{"name":"there","orgID":"ORG","remoteURL":"sqlite:%s","remoteAPIToken":""}`, filepath.Join(dir, "x.db"))
		if status, text := s.launch(t, dir).api(http.MethodPost, "/api/v2/remotes", remote); status != http.StatusCreated {
			t.Errorf("a file in the directory is answered %d %s", status, text)
		}
		if status, text := launch(t, t.TempDir()).api(http.MethodPost, "/api/v2/remotes", remote); status != http.StatusBadRequest || !strings.Contains(text, "sqliteDir") {
			t.Errorf("a file elsewhere is answered %d %s", status, text)
		}
	},
	"allowRemoteHosts": func(t *testing.T, s setting) {
		remote := `{"name":"there","orgID":"ORG","remoteURL":"http://db.example.net:8086","remoteAPIToken":"x"}`
		p := s.launch(t, "db.example.org,*.example.org")
		if status, text := p.api(http.MethodPost, "/api/v2/remotes", remote); status != http.StatusBadRequest || !strings.Contains(text, "allowRemoteHosts") {
			t.Errorf("a host that is not allowed is answered %d %s", status, text)
		}
		for _, with := range []*process{p, launch(t, t.TempDir())} {
			url := "http://db.example.net:8086"
			if with == p {
				url = "http://db.example.org:8086"
			}
			if status, text := with.api(http.MethodPost, "/api/v2/remotes", strings.ReplaceAll(remote, "http://db.example.net:8086", url)); status != http.StatusCreated {
				t.Errorf("a host that is allowed is answered %d %s", status, text)
			}
		}
	},
	"backfillWindow": func(t *testing.T, s setting) {
		short, plain := s.launch(t, "300ms"), launch(t, t.TempDir())
		for _, p := range []*process{short, plain} {
			release := p.stick()
			for i := range 20 {
				p.write(fmt.Sprintf("m v=1 %d", i+2))
			}
			// The loop looks every half second.
			eventually(t, 30*time.Second, "the stream does not become stale", func() bool { return p.metric("logical_staleness_seconds") > 1.5 })
			release()
			awaitCount(t, openTarget(t, p.dir), "SELECT count(*) FROM m", 21)
		}
		eventually(t, 30*time.Second, "the mode is not switched, there and back", func() bool {
			return short.metric("logical_mode_switches_total", `reason="stale"`) > 0 && short.metric("logical_mode", `mode="serial"`) == 1
		})
		if n := plain.metric("logical_mode_switches_total"); n > 0 {
			t.Errorf("%v switches without the flag", n)
		}
	},
}

// stick makes the embedded target hang, when a first point is in it.
func (p *process) stick() (release func()) {
	p.t.Helper()
	db := openTarget(p.t, p.dir)
	p.write("m v=1 1")
	awaitCount(p.t, db, "SELECT count(*) FROM m", 1)
	return holdSQLite(p.t, db)
}

// fill writes up to n lines that do not get smaller, each in a request of its own, until one is refused.
// It returns the last answer.
func (p *process) fill(t *testing.T, n int) (status int, text string) {
	t.Helper()
	for i := range n {
		var err error
		if status, text, err = p.post(p.token(), v2("default"), incompressible(i)); err != nil {
			t.Fatal(err)
		}
		if status != http.StatusNoContent {
			break
		}
	}
	return status, text
}

// series returns n lines, each of a series of its own.
func series(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "m,n=%d v=1 1\n", i)
	}
	return text.String()
}

// stuckPostgres starts a server whose PostgreSQL keeps everybody waiting who writes to the table, and
// writes to it.
func stuckPostgres(t *testing.T, start func(with ...string) *process) (*process, *sql.DB) {
	t.Helper()
	dsn := env.Postgres(t)
	db := openPostgres(t, dsn)
	p := start("--targetConn", dsn)
	p.write("m,n=first v=1 1")
	awaitCount(t, db, "SELECT count(*) FROM m", 1)
	holdTable(t, db, "m")
	p.write(series(200))
	return p, db
}

// fewer expects that a fan has n transactions in flight, and more than that without the flag.
func fewer(t *testing.T, n int, start func(with ...string) *process, with ...string) {
	t.Helper()
	_, few := stuckPostgres(t, func(more ...string) *process { return start(append(with, more...)...) })
	_, many := stuckPostgres(t, func(more ...string) *process { return launch(t, t.TempDir(), append(with, more...)...) })
	eventually(t, 30*time.Second, "there are few transactions without the flag", func() bool { return count(t, many, lockWaiters) > n })
	awaitCount(t, few, lockWaiters, n)
}
