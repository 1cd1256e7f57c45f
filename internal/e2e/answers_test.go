package e2e

import (
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A stage is a remote under each path prefix, for answers that no real one gives. Each is played until it is over;
// then everything is accepted.
type stage struct {
	mu     sync.Mutex
	scenes map[string]*scene
}

type scene struct {
	answer  func(w http.ResponseWriter, r *http.Request)
	version string // what it says it is
	partial bool   // the answer is for lines with "bad" in them, and the others are stored
	over    bool
	stored  []string
}

func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, rest, _ := strings.Cut(r.URL.Path, "/")
	prefix, path, _ := strings.Cut(rest, "/")
	s.mu.Lock()
	c := s.scenes[prefix]
	over := c != nil && c.over
	s.mu.Unlock()
	if c == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("X-Influxdb-Version", c.version)
	if path == "ping" || path == "health" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, "gzip", http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	good := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.Contains(l, "bad") })
	answer := c.answer
	switch {
	case over, c.partial && len(good) == len(lines):
		good, answer = lines, say(http.StatusNoContent, "")
	case !c.partial:
		good = nil
	}
	s.mu.Lock()
	c.stored = append(c.stored, good...)
	s.mu.Unlock()
	answer(w, r)
}

func (s *stage) end(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scenes[name].over = true
}

func (s *stage) inside(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := slices.Clone(s.scenes[name].stored)
	slices.Sort(lines)
	return slices.Compact(lines)
}

// say answers with a status, a body and headers (name, value, …).
func say(status int, body string, headers ...string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client may have gone
	}
}

const webPage = "<!DOCTYPE html>\n<html><body>Please sign in</body></html>"

// TestNothingSilentInTheStatusOfAnyAnswer has a replication for each kind of answer, in one server, and reads what the
// API says of it: while the trouble lasts everything waits, and afterwards everything is in the remote.
func TestNothingSilentInTheStatusOfAnyAnswer(t *testing.T) {
	t.Parallel()
	reset := func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, ".")
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	later := func(status int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			say(status, "busy", "Retry-After", time.Now().Add(2*time.Second).UTC().Format(http.TimeFormat))(w, r)
		}
	}
	cases := []struct {
		name          string
		version       string // default 2
		answer        func(http.ResponseWriter, *http.Request)
		code          int
		says, advises string
	}{
		{name: "200-html", answer: say(200, webPage, "Content-Type", "text/html"), code: 200, says: "web page", advises: "sign in"},
		{name: "301", answer: say(301, "", "Location", "http://elsewhere/"), code: 301, says: "redirects to", advises: "own URL"},
		{name: "400", answer: say(400, `{"error":"database is required"}`), version: "1.8.10", code: 400, says: "database is required", advises: "compare"},
		{name: "401", answer: say(401, `{"code":"unauthorized","message":"unauthorized access"}`), code: 401, says: "does not know who we are", advises: "token"},
		{name: "403", answer: say(403, `{"code":"forbidden","message":"insufficient permissions"}`), code: 403, says: "does not let us write", advises: "allow"},
		{name: "404", answer: say(404, `{"code":"not found","message":"bucket \"b\" not found"}`), code: 404, says: "bucket b is gone", advises: "waits in the queue"},
		{name: "408", answer: say(408, ""), code: 408, says: "408", advises: "between"},
		{name: "422", answer: say(422, webPage), code: 422, says: "web page", advises: "compare"},
		{name: "429", answer: say(429, "slow down", "Retry-After", "1"), code: 429, says: "fewer requests", advises: "as long as it takes"},
		{name: "429-date", answer: later(429), code: 429, says: "fewer requests", advises: "as long as it takes"},
		{name: "500", answer: say(500, `{"code":"internal error","message":"oh"}`), code: 500, says: "in trouble", advises: "log"},
		{name: "502", answer: say(502, webPage), code: 502, says: "web page", advises: "log"},
		{name: "503", answer: say(503, "busy", "Retry-After", "1"), code: 503, says: "busy", advises: "log"},
		{name: "503-date", answer: later(503), code: 503, says: "busy", advises: "log"},
		{name: "504", answer: say(504, ""), code: 504, says: "504", advises: "log"},
		{name: "reset", answer: reset, code: 0, says: "influx: http", advises: "network"},
		{name: "endless", answer: endless, code: 0, says: "did not end", advises: "between"},
		// What settles at once.
		{name: "204", answer: say(204, ""), code: 204},
		{name: "200-json", answer: say(200, `{"results":[{}]}`), code: 200},
		{name: "rejects-1", version: "1.8.10", answer: say(400, `{"error":"partial write: field type conflict: input field \"v\" on measurement \"m\" is type string, already exists as type float dropped=1"}`)},
		{name: "rejects-2", answer: say(422, `{"code":"unprocessable entity","message":"failure writing points to database: partial write: field type conflict dropped=1"}`)},
		{name: "rejects-3", version: "3.1.0", answer: say(400, `{"error":"partial write of line protocol occurred","data":[{"original_line":"x","line_number":2,"error_message":"it does not fit"}]}`)},
		{name: "rejects-413", answer: say(413, webPage)},
	}
	s := &stage{scenes: map[string]*scene{}}
	remote := httptest.NewServer(s)
	t.Cleanup(remote.Close)
	p := launch(t, t.TempDir(), "--retryDelay", "50ms")
	ids := map[string]string{}
	for i := range cases {
		c := &cases[i]
		if c.version == "" {
			c.version = "v2.7.1"
		}
		s.scenes[c.name] = &scene{answer: c.answer, version: c.version, partial: strings.HasPrefix(c.name, "rejects")}
		ids[c.name] = p.bucketTo(c.name, remote.URL+"/"+c.name, "t0ken-4711")
	}
	lines := []string{"m,s=1 v=1 1", `m,s=2 v="bad" 2`, "m,s=3 v=3 3"}
	for _, c := range cases {
		body := strings.Join(lines, "\n")
		if status, text, err := p.post(p.token(), v2(c.name), body); err != nil || status != http.StatusNoContent {
			t.Fatalf("write: %d %s, %v", status, text, err)
		}
	}
	for _, c := range cases {
		id := ids[c.name]
		troubled := c.says != ""
		rejects := strings.HasPrefix(c.name, "rejects")
		var st status
		eventually(t, time.Minute, c.name+": the status does not tell", func() bool {
			st = p.replication(id)
			if troubled {
				return st.LatestErrorMessage != "" && st.State == "retrying"
			}
			return st.RemainingBytesToBeSynced == 0 && st.State == "running"
		})
		switch {
		case troubled:
			if st.LatestResponseCode == nil || *st.LatestResponseCode != c.code || !strings.Contains(st.LatestErrorMessage, c.says) ||
				!strings.Contains(st.Advice, c.advises) || st.Advice == "" || st.RemainingBytesToBeSynced == 0 {
				t.Errorf("%s: the status is %+v", c.name, st)
			}
			if inside := s.inside(c.name); len(inside) > 0 {
				t.Errorf("%s: in the remote: %q", c.name, inside)
			}
		case rejects:
			if st.DeadLetters == nil || *st.DeadLetters != 1 || st.LatestErrorMessage != "" {
				t.Errorf("%s: the status is %+v", c.name, st)
			}
			if list := p.letters(id, "").DeadLetters; len(list) != 1 || list[0].Payload != lines[1] || list[0].Reason == "" {
				t.Errorf("%s: the letters are %+v", c.name, list)
			}
			if inside := s.inside(c.name); !slices.Equal(inside, []string{lines[0], lines[2]}) {
				t.Errorf("%s: in the remote: %q", c.name, inside)
			}
		case st.LatestResponseCode == nil || *st.LatestResponseCode != c.code || st.LatestErrorMessage != "" || st.Advice != "":
			t.Errorf("%s: the status is %+v", c.name, st)
		}
		if !troubled {
			continue
		}
		s.end(c.name)
		eventually(t, time.Minute, c.name+": it does not heal", func() bool {
			p.must(http.MethodPost, "/api/v2/replications/"+id+"/flush", "", nil)
			st = p.replication(id)
			return st.RemainingBytesToBeSynced == 0 && st.State == "running"
		})
		if inside := s.inside(c.name); !slices.Equal(inside, sorted(lines)) {
			t.Errorf("%s: in the remote: %q", c.name, inside)
		}
		if *st.LatestResponseCode != http.StatusNoContent || st.LatestErrorMessage != "" || st.DeadLetters == nil || *st.DeadLetters != 0 || st.LastSuccessAt == nil {
			t.Errorf("%s: healed, the status is %+v", c.name, st)
		}
	}
	if strings.Contains(p.output(), "t0ken-4711") {
		t.Error("the token is in the log")
	}
}

func sorted(lines []string) []string {
	lines = slices.Clone(lines)
	slices.Sort(lines)
	return lines
}

// bucketTo makes a bucket, a remote and a replication of one name, and returns the replication's id.
func (p *process) bucketTo(name, url, token string) string {
	p.t.Helper()
	var bucket, remote, replication created
	p.must(http.MethodPost, "/api/v2/buckets", fmt.Sprintf(`{"orgID":"ORG","name":%q}`, name), &bucket)
	p.must(http.MethodPost, "/api/v2/remotes", fmt.Sprintf(`{"orgID":"ORG","name":%q,"remoteURL":%q,"remoteAPIToken":%q,"remoteOrgID":"o","allowInsecureTLS":false}`, name, url, token), &remote)
	p.must(http.MethodPost, "/api/v2/replications", fmt.Sprintf(`{"orgID":"ORG","name":%q,"remoteID":%q,"localBucketID":%q,"remoteBucketName":"b"}`, name, remote.ID, bucket.ID), &replication)
	return replication.ID
}
