package e2e

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// secrets are looked for in what a server tells and keeps, in the ways in which they could be written.
type secrets struct {
	t     *testing.T
	plain []string
}

// new returns a secret that is looked for from now on. It holds what has to be escaped in URLs.
func (s *secrets) new(name string) string {
	secret := "s3cr3t/" + name + "+%&?#:@ " + fmt.Sprint(len(s.plain))
	s.plain = append(s.plain, secret)
	return secret
}

// in reports secrets in a text, with where it was.
func (s *secrets) in(where, text string) {
	s.t.Helper()
	lower := strings.ToLower(text)
	for _, secret := range s.plain {
		for _, form := range []string{
			secret, url.QueryEscape(secret), url.PathEscape(secret), url.UserPassword("u", secret).String()[2:], fmt.Sprintf("%q", secret),
			hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("app:" + secret)),
			secret[:len(secret)-len("+%&?#:@ 0")], // what is left where a reader stopped at a special character
		} {
			if at := strings.Index(lower, strings.ToLower(form)); at >= 0 {
				s.t.Errorf("%s holds the secret %q: …%q…", where, secret, text[max(at-80, 0):min(at+80, len(text))])
				return
			}
		}
	}
}

// files looks into all files of a data directory but those that are there to keep a secret.
func (s *secrets) files(dir string) {
	s.t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // Files come and go while the server runs.
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		seen++
		if name := d.Name(); name != "token" && name != "secret.key" {
			s.in(path, string(content))
		}
		return nil
	})
	if err != nil || seen < 6 {
		s.t.Errorf("%d files were looked at, %v", seen, err)
	}
}

// answers looks at what anybody, and the operator, can ask.
func (s *secrets) answers(p *process) {
	s.t.Helper()
	for _, path := range []string{"/metrics", "/health", "/ready?stream=all", "/ping?verbose=true"} {
		_, text := p.get(path)
		s.in(path, text)
	}
	for _, path := range []string{"/api/v2/remotes?orgID=ORG", "/api/v2/replications?orgID=ORG", "/api/v2/authorizations", "/api/v2/buckets", "/api/v2/orgs"} {
		status, text := p.api(http.MethodGet, path, "")
		if status != http.StatusOK {
			s.t.Errorf("%s is answered %d", path, status)
		}
		s.in(path, text)
	}
	s.in("the log", p.output())
}

// NOTHING that is secret is told: a remote each for what goes wrong, with a secret each, made over the API.
// Each is looked for in the log, the metrics, the answers and the files, while it fails, after the server was
// killed, and after it was stopped.
func TestSecretsAreNotToldAfterAnyFailure(t *testing.T) {
	t.Parallel()
	s := &secrets{t: t}
	dir := t.TempDir()
	server := testenv.StartPostgres(t, testenv.PostgresOptions{HBA: "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"})
	root := openPostgres(t, server.DSN("postgres"))
	execute(t, root, "CREATE ROLE app LOGIN PASSWORD 'another'")
	far := launch(t, t.TempDir())
	influx1 := testenv.StartInfluxDB(t, map[string]string{"http": "auth-enabled = true"})
	influx1.Query(t, "", "CREATE USER root WITH PASSWORD 'root' WITH ALL PRIVILEGES")
	echo, _ := onLoopback(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		w.Header().Set("X-Influxdb-Version", "v2.7.1")
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		if r.URL.Path == "/ping" {
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"code":"unauthorized","message":%q}`, "who is "+user+password+r.Header.Get("Authorization")+"?")
	})
	redirecting, _ := onLoopback(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://app:"+strings.TrimPrefix(r.Header.Get("Authorization"), "Token ")+"@127.0.0.1:1/x", http.StatusFound)
	})
	const nobody = "127.0.0.1:1"
	dsn, err := url.Parse(server.DSN("postgres"))
	must(t, err)
	withPassword := func(scheme, host, path, name string) string {
		return (&url.URL{Scheme: scheme, User: url.UserPassword("app", s.new(name)), Host: host, Path: path}).String()
	}
	hostOf := func(text string) string { return strings.TrimPrefix(text, "http://") }

	p := launch(t, dir, "--verbose", "--retryDelay", "50ms")
	p.write("m v=1 1")
	bucket, _, _ := p.defaults()
	var replications []string
	for name, remote := range map[string]struct{ url, token string }{
		"PostgreSQL, wrong password":              {"postgres://app@" + dsn.Host + "/postgres", s.new("wrong")},
		"PostgreSQL, wrong password in the URL":   {withPassword("postgres", dsn.Host, "/postgres", "in-url"), ""},
		"PostgreSQL, password as a parameter":     {"postgres://app@" + dsn.Host + "/postgres?password=" + url.QueryEscape(s.new("param")), ""},
		"PostgreSQL, no such database":            {withPassword("postgres", dsn.Host, "/none", "database"), ""},
		"PostgreSQL, nobody there":                {withPassword("postgres", nobody, "/db", "nobody"), ""},
		"PostgreSQL, no such host":                {withPassword("postgres", "nowhere.invalid", "/db", "host"), ""},
		"PostgreSQL, TLS that is not there":       {withPassword("postgres", dsn.Host, "/postgres", "tls") + "?sslmode=verify-full", ""},
		"PostgreSQL, setting that makes no sense": {withPassword("postgres", dsn.Host, "/postgres", "setting") + "?sslmode=sometimes", ""},
		"PostgreSQL, password of a key":           {"postgres://app@" + dsn.Host + "/postgres?sslpassword=" + url.QueryEscape(s.new("key")), ""},
		"InfluxDB, wrong token":                   {far.url, s.new("token")},
		"InfluxDB, token in the URL":              {far.url + "?token=" + url.QueryEscape(s.new("token-in-url")), ""},
		"InfluxDB 1.x, wrong password":            {withPassword("http", hostOf(influx1.URL()), "", "1x"), ""},
		"InfluxDB 1.x, password as a parameter":   {influx1.URL() + "?p=" + url.QueryEscape(s.new("1x-param")), ""},
		"InfluxDB, nobody there":                  {"http://" + nobody, s.new("influx-nobody")},
		"InfluxDB, no such host":                  {withPassword("http", "nowhere.invalid", "/x", "influx-host"), ""},
		"InfluxDB, TLS that is not there":         {withPassword("https", hostOf(far.url), "", "influx-tls"), ""},
		"InfluxDB that repeats the token":         {echo, s.new("echo")},
		"InfluxDB that repeats the password":      {withPassword("http", hostOf(echo), "", "echo-1x"), ""},
		"InfluxDB that redirects with the token":  {redirecting, s.new("redirect")},
	} {
		var replication created
		status, text := p.api(http.MethodPost, "/api/v2/remotes", fmt.Sprintf(`{"orgID":"ORG","name":%q,"remoteURL":%q,"remoteAPIToken":%q,"remoteOrgID":"o"}`, name, remote.url, remote.token))
		s.in(name+", being made", text)
		if status != http.StatusCreated {
			t.Errorf("%s: %d %s", name, status, text)
			continue
		}
		var list struct{ Remotes []created }
		p.must(http.MethodGet, "/api/v2/remotes?orgID=ORG&name="+url.QueryEscape(name), "", &list)
		body := fmt.Sprintf(`{"orgID":"ORG","name":%q,"remoteID":%q,"localBucketID":%q,"remoteBucketName":"b"}`, name, list.Remotes[0].ID, bucket)
		_, text = p.api(http.MethodPost, "/api/v2/replications?validate=true", body)
		s.in(name+", being validated", text)
		p.must(http.MethodPost, "/api/v2/replications", body, &replication)
		replications = append(replications, replication.ID)
	}

	// What is refused is not repeated either.
	for _, remoteURL := range []string{
		withPassword("ftp", "host", "", "scheme"), withPassword("http", "169.254.169.254", "", "policy"), withPassword("postgres", "169.254.169.254", "/db", "policy-pg"),
		"postgres://app:" + s.new("raw") + "@host/db", "http://app:" + s.new("port") + "@host:port", "http://app:" + s.new("bracket") + "@[host",
		"app:" + s.new("no-scheme") + "@host/db", "host=127.0.0.1 password=" + s.new("keywords"), "http://host?bucket=" + url.QueryEscape(s.new("query")),
		"sqlite:../" + s.new("file"), "http://host/%zz" + s.new("escape"), "http://host\x7f" + s.new("control"),
	} {
		status, text := p.api(http.MethodPost, "/api/v2/remotes", fmt.Sprintf(`{"orgID":"ORG","name":"refused","remoteURL":%q,"remoteAPIToken":%q}`, remoteURL, s.new("beside")))
		if status != http.StatusBadRequest {
			t.Errorf("%q is answered %d", remoteURL, status)
		}
		if !strings.HasPrefix(remoteURL, "sqlite:") { // the name of a file is no secret
			s.in("the refusal", text)
		} else {
			s.plain = s.plain[:len(s.plain)-2]
		}
	}
	var token created
	p.must(http.MethodPost, "/api/v2/authorizations", `{"orgID":"ORG","scope":"manage"}`, &token)

	p.write("m v=1 2")
	for _, id := range replications {
		eventually(t, time.Minute, "a replication does not fail", func() bool { return p.replication(id).LatestErrorMessage != "" })
		_, text := p.api(http.MethodPost, "/api/v2/replications/"+id+"/validate", "")
		s.in("validating", text)
		_, text = p.api(http.MethodGet, "/api/v2/replications/"+id, "")
		s.in("the status", text)
	}
	s.plain = append(s.plain, token.Token, p.token()) // whose own answers are past
	s.answers(p)
	s.files(dir)
	p.kill()
	s.files(dir)

	p = launch(t, dir, "--logFormat", "json", "--verbose", "--retryDelay", "50ms")
	for _, id := range replications {
		eventually(t, time.Minute, "a replication does not fail", func() bool { return p.replication(id).LatestErrorMessage != "" })
	}
	s.answers(p)
	p.stop()
	s.in("the log", p.output())
	s.files(dir)
}
