package server

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
)

func TestPingNeedsNoToken(t *testing.T) {
	t.Parallel()
	st := start(t, Config{Version: "v9.9.9"}, nil)
	none := map[string]string{"Authorization": ""}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		got := st.do(t, method, "/ping", "", none)
		if got.status != http.StatusNoContent || got.header.Get("X-Influxdb-Version") != "v9.9.9" || got.header.Get("X-Influxdb-Build") == "" {
			t.Errorf("%s: %d %v", method, got.status, got.header)
		}
	}
	if got := st.do(t, http.MethodGet, "/ping?verbose=true", "", none); got.status != 200 || got.fields(t)["version"] != "v9.9.9" {
		t.Errorf("verbose: %d %s", got.status, got.body)
	}
	if got := st.do(t, http.MethodGet, "/ping?verbose=false", "", none); got.status != 204 {
		t.Errorf("not verbose: %d %s", got.status, got.body)
	}
}

func TestEveryAnswerCarriesARequestID(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	seen := map[string]bool{}
	for _, path := range []string{"/ping", "/health", "/nothing", v2one, "/query"} {
		got := st.do(t, http.MethodGet, path, "", nil)
		id := got.header.Get("Request-Id")
		if id == "" || id != got.header.Get("X-Request-Id") || seen[id] {
			t.Errorf("%s: %q", path, id)
		}
		seen[id] = true
	}
	if got := st.do(t, http.MethodGet, "/ping", "", map[string]string{"X-Request-Id": "mine-1"}); got.header.Get("Request-Id") != "mine-1" {
		t.Errorf("the client's id became %q", got.header.Get("Request-Id"))
	}
	if got := st.do(t, http.MethodGet, "/ping", "", map[string]string{"X-Request-Id": strings.Repeat("x", 500)}); len(got.header.Get("Request-Id")) > 128 {
		t.Error("an id of any length comes back")
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/nothing", 404, ""},
		{"GET", "/api/v2/nothing", 404, ""},
		{"POST", "/api/v2/write/", 404, ""},
		{"GET", v2one, 405, "POST"},
		{"PUT", "/write?db=one", 405, "POST"},
		{"DELETE", "/query", 405, "GET, POST"},
		{"POST", "/health", 405, "GET, HEAD"},
		{"OPTIONS", "/ready", 405, "GET, HEAD"},
		{"POST", "/metrics", 405, "GET, HEAD"},
		{"POST", "/api/v2/query?org=x", 501, ""},
		{"POST", "/api/v2/delete", 501, ""},
	} {
		got := st.do(t, c.method, c.path, "", nil)
		if got.status != c.status || got.header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q", c.method, c.path, got.status, got.header.Get("Allow"))
		}
		checkForm(t, c.path, got)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	for _, c := range []struct {
		name, method, q, token string
		status                 int
		says                   string
	}{
		{"show", "GET", "SHOW DATABASES", operator, 200, `{"results":[{"statement_id":0,"series":[{"name":"databases","columns":["name"],"values":[["one"],["two"],["db/rp"]`},
		{"show to a writer", "POST", "show  databases;", writer, 200, `"values":[["one"]]`},
		{"create", "POST", `CREATE DATABASE "new one"`, operator, 200, `{"results":[{"statement_id":0}]}`},
		{"create again", "POST", `create database if not exists "new one"`, operator, 200, `{"results":[{"statement_id":0}]}`},
		{"create with a policy", "POST", `CREATE DATABASE plain WITH DURATION 3d NAME "x"`, operator, 200, `{"results":[{"statement_id":0}]}`},
		{"two statements", "POST", `CREATE DATABASE a; SHOW DATABASES`, operator, 200, `"statement_id":1`},
		{"the writer's own", "POST", `CREATE DATABASE "one"`, writer, 200, `{"results":[{"statement_id":0}]}`},
		{"a writer creates", "POST", `CREATE DATABASE other`, writer, 403, `may not create`},
		{"create by GET", "GET", `CREATE DATABASE other`, operator, 400, `POST`},
		{"no name", "POST", `CREATE DATABASE`, operator, 400, `error parsing query`},
		{"two names", "POST", `CREATE DATABASE a b`, operator, 400, `error parsing query`},
		{"empty name", "POST", `CREATE DATABASE ""`, operator, 400, `invalid database name`},
		{"bad quotes", "POST", `CREATE DATABASE "a`, operator, 400, `unbalanced quotes`},
		{"nothing", "GET", ``, operator, 400, `missing required parameter`},
		{"select", "GET", `SELECT * FROM m`, operator, 501, `stores no time series`},
		{"drop", "POST", `DROP DATABASE one`, operator, 501, `stores no time series`},
	} {
		path, body := "/query?db=x&q="+url.QueryEscape(c.q), ""
		header := map[string]string{"Authorization": "Token " + c.token}
		if c.method == http.MethodPost {
			path, body = "/query?db=x", url.Values{"q": {c.q}}.Encode()
			header["Content-Type"] = form["Content-Type"]
		}
		got := st.do(t, c.method, path, body, header)
		if got.status != c.status || !strings.Contains(got.body, c.says) {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
		if c.status != 200 {
			checkForm(t, path, got)
		}
	}
	var names []string
	for _, b := range st.intake.buckets[3:] {
		names = append(names, b.Name)
	}
	if got := strings.Join(names, ","); got != "new one,plain,a" {
		t.Errorf("created %s", got)
	}
	// The credentials may stand in the form.
	got := st.do(t, "POST", "/query", url.Values{"q": {"SHOW DATABASES"}, "u": {"x"}, "p": {operator}}.Encode(),
		map[string]string{"Authorization": "", "Content-Type": form["Content-Type"]})
	if got.status != 200 {
		t.Errorf("credentials in the form: %d %s", got.status, got.body)
	}
	if got := st.do(t, "POST", "/query", "q="+strings.Repeat("x", 2*maxQuery), form); got.status != 413 {
		t.Errorf("a query that is too long: %d %s", got.status, got.body)
	}
}

// states is a Health.
type states struct {
	err     error
	streams []StreamHealth
}

func (s *states) Accepting(context.Context) error        { return s.err }
func (s *states) Streams(context.Context) []StreamHealth { return s.streams }

func TestReadiness(t *testing.T) {
	t.Parallel()
	well := StreamHealth{ID: "a1", Name: "north"}
	ill := StreamHealth{ID: "a2", Name: "south", Bucket: "one", Stalled: true, Reason: "the remote does not answer: check its URL"}
	for _, c := range []struct {
		name    string
		health  *states
		ask     string
		status  int
		says    string
		healthy int
	}{
		{"all well", &states{}, "", 200, `"status":"ready"`, 200},
		{"streams well", &states{nil, []StreamHealth{well}}, "?stream=all", 200, `"stalledStreams":[]`, 200},
		{"a dead remote does not take the intake away", &states{nil, []StreamHealth{well, ill}}, "", 200, `"id":"a2"`, 200},
		{"unless asked", &states{nil, []StreamHealth{well, ill}}, "?stream=all", 503, "does not answer", 200},
		{"by id", &states{nil, []StreamHealth{well, ill}}, "?stream=a2", 503, "does not answer", 200},
		{"by name", &states{nil, []StreamHealth{well, ill}}, "?stream=south", 503, "does not answer", 200},
		{"another one", &states{nil, []StreamHealth{well, ill}}, "?stream=a1", 200, `"status":"ready"`, 200},
		{"unknown one", &states{nil, []StreamHealth{well}}, "?stream=zz", 404, "stream not found", 200},
		{"no writes", &states{errors.New("disk full"), nil}, "", 503, "disk full", 200},
	} {
		st := start(t, Config{}, func(d *Deps) { d.Health = c.health })
		if got := st.do(t, "GET", "/ready"+c.ask, "", map[string]string{"Authorization": ""}); got.status != c.status || !strings.Contains(got.body, c.says) {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
		got := st.do(t, "GET", "/health", "", nil)
		if doc := got.fields(t); got.status != c.healthy || doc["status"] != "pass" || doc["name"] == "" || doc["version"] != "dev" {
			t.Errorf("%s: health %d %s", c.name, got.status, got.body)
		}
		if c.health.err != nil && !strings.Contains(got.body, "disk full") {
			t.Errorf("%s: health %s", c.name, got.body)
		}
	}
}

func TestMetricsCountWhatHappened(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	st.do(t, "POST", v2one, "m v=1 1\nm v=2 2\n", nil)
	st.do(t, "POST", v2one, "m v=1 1\nm v=\n", nil)
	st.do(t, "POST", "/write?db=one", "m v=1 1\nm v=\nm v\n", nil)
	st.do(t, "GET", "/made/up/"+strings.Repeat("x", 100), "", nil)
	got := st.do(t, "GET", "/metrics", "", nil)
	if got.status != 200 || strings.Contains(got.body, "made/up") {
		t.Errorf("/metrics: %d %.200s", got.status, got.body)
	}
	for _, want := range []string{
		"tailrace_intake_points_accepted_total 3",
		"tailrace_intake_points_refused_total 3",
		"tailrace_intake_accepted_bytes_total 24",
		"tailrace_intake_body_memory_bytes 0",
		`tailrace_http_requests_total{route="/api/v2/write",status="204"} 1`,
		`tailrace_http_requests_total{route="/api/v2/write",status="400"} 1`,
		`tailrace_http_requests_total{route="/write",status="400"} 1`,
		`tailrace_http_requests_total{route="other",status="404"} 1`,
		`tailrace_http_request_duration_seconds_count{route="/write",status="400"} 1`,
	} {
		if !strings.Contains(got.body, want+"\n") {
			t.Errorf("/metrics does not say %s", want)
		}
	}
}

func TestTwoServersInOneProcess(t *testing.T) {
	t.Parallel()
	deps := Deps{Intake: newIntake(), Authorizer: NewTokens(nil), Registerer: prometheus.NewRegistry()}
	if _, err := New(Config{}, deps); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{}, deps); err == nil {
		t.Error("two servers share a registry")
	}
	deps.Registerer = prometheus.NewRegistry()
	if _, err := New(Config{}, deps); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{}, Deps{}); err == nil {
		t.Error("a server without an intake")
	}
	if _, err := New(Config{MaxBodySize: 10 << 20, BodyMemory: 5 << 20}, deps); err == nil {
		t.Error("no body of the largest size fits in the memory")
	}
}

func TestTakenPortIsExplained(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	other, err := New(Config{BindAddr: st.Addr().String()}, Deps{Intake: newIntake(), Authorizer: NewTokens(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Listen(); err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), st.Addr().String()) {
		t.Errorf("got %v", err)
	}
	for range 2 {
		if err := other.Shutdown(t.Context()); err != nil {
			t.Errorf("shutdown without serve: %v", err)
		}
	}
	if err := st.Listen(); err == nil {
		t.Error("it listens twice")
	}
}

func TestShutdownWaitsForWritesUnderWay(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	began, goOn := make(chan struct{}), make(chan struct{})
	st.intake.hook = func(context.Context) { close(began); <-goOn }
	answer := make(chan reply, 1)
	go func() { answer <- st.do(t, "POST", v2one, "m v=1 5", nil) }()
	<-began
	down := make(chan error, 1)
	go func() { down <- st.Shutdown(context.Background()) }()
	select {
	case err := <-down:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	close(goOn)
	if got := <-answer; got.status != http.StatusNoContent {
		t.Errorf("answer %d %s", got.status, got.body)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	began, goOn := make(chan struct{}), make(chan struct{})
	st.intake.hook = func(context.Context) { close(began); <-goOn }
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		req, _ := http.NewRequest(http.MethodPost, st.url+v2one, strings.NewReader("m v=1 5"))
		req.Header.Set("Authorization", "Token "+operator)
		if resp, err := st.client.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	<-began
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := st.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	<-gone
	close(goOn)
}
