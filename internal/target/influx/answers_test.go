package influx_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/logical"
)

type trouble func(w http.ResponseWriter, r *http.Request, lines []string) bool

// reset cuts the connection in the middle of an answer's beginning.
func reset(w http.ResponseWriter, _ *http.Request, _ []string) bool {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
	return true
}

// endless begins an answer and goes on for ever.
func endless(status int) trouble {
	return func(w http.ResponseWriter, r *http.Request, _ []string) bool {
		w.WriteHeader(status)
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte("."))
			if http.NewResponseController(w).Flush() != nil {
				break
			}
			<-time.After(5 * time.Millisecond)
		}
		return true
	}
}

const page = "<!DOCTYPE html>\n<html><body>Please sign in</body></html>"

// TestNothingSilentWhatMayHealIsSentAgain goes through the answers after which everything is sent again, and
// looks at what the status says meanwhile, at what is in the remote in the end, and that nothing is set
// aside.
func TestNothingSilentWhatMayHealIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  trouble
		version string // of the remote; default 2
		code    int
		says    string // in the error message
		hint    string // in the hint
	}{
		"200 HTML":                 {answer: say(200, page), code: 200, says: "web page", hint: "sign in"},
		"200 HTML by its type":     {answer: say(200, "hello", "Content-Type", "text/html"), code: 200, says: "web page", hint: "sign in"},
		"200 JSON of a stranger":   {answer: say(200, `{"ok":true}`), version: "none", code: 200, says: "does not say it is an InfluxDB", hint: "sign in"},
		"200 with an error":        {answer: say(200, `{"error":"no such thing"}`), code: 200, says: "no such thing"},
		"301":                      {answer: say(301, "", "Location", "https://user:secret@elsewhere/x?token=secret"), code: 301, says: "https://elsewhere/x", hint: "own URL"},
		"302 without goal":         {answer: say(302, ""), code: 302, says: "nowhere", hint: "own URL"},
		"307":                      {answer: say(307, "", "Location", "/other"), code: 307, says: "/other", hint: "own URL"},
		"400 of a proxy":           {answer: say(400, page), code: 400, says: "web page"},
		"400 about the request":    {answer: say(400, `{"error":"database is required"}`), version: "1.8.10", code: 400, says: "database is required", hint: "compare"},
		"400 unknown, no InfluxDB": {answer: say(400, "nope"), version: "none", code: 400, says: "nope"},
		"401":                      {answer: say(401, `{"code":"unauthorized","message":"unauthorized access"}`), code: 401, says: "unauthorized access", hint: "token"},
		"401 of 1.x":               {answer: say(401, `{"error":"unable to parse authentication credentials"}`), version: "1.8.10", code: 401, says: "credentials", hint: "token"},
		"403":                      {answer: say(403, `{"code":"forbidden","message":"insufficient permissions"}`), code: 403, says: "insufficient", hint: "bucket b"},
		"404 bucket":               {answer: say(404, `{"code":"not found","message":"bucket \"b\" not found"}`), code: 404, says: "bucket b is gone", hint: "waits in the queue"},
		"404 database":             {answer: say(404, `{"error":"database not found: \"b\""}`), version: "1.8.10", code: 404, says: "bucket b is gone", hint: "waits in the queue"},
		"404 of the path":          {answer: say(404, "404 page not found"), code: 404, says: "takes no writes there", hint: "path prefix"},
		"405":                      {answer: say(405, ""), code: 405, says: "takes no writes there", hint: "path prefix"},
		"408":                      {answer: say(408, ""), code: 408, says: "408"},
		"409":                      {answer: say(409, ""), code: 409, says: "409"},
		"422 of a proxy":           {answer: say(422, "what"), version: "none", code: 422, says: "what"},
		"429":                      {answer: say(429, `{"code":"too many requests","message":"slow down"}`), code: 429, says: "slow down"},
		"500":                      {answer: say(500, `{"code":"internal error","message":"oh"}`), code: 500, says: "oh", hint: "log"},
		"500 retention policy":     {answer: say(500, `{"error":"retention policy not found: x"}`), version: "1.6.7", code: 500, says: "retention policy not found"},
		"500 hinted handoff":       {answer: say(500, `{"error":"partial write: write failed: hinted handoff queue not empty"}`), version: "1.8.10-c", code: 500, says: "hinted handoff"},
		"500 without a word":       {answer: say(500, ""), code: 500, says: "500 Internal Server Error"},
		"502":                      {answer: say(502, page), code: 502, says: "web page"},
		"503":                      {answer: say(503, "busy"), code: 503, says: "busy"},
		"504":                      {answer: say(504, ""), code: 504, says: "504"},
		"511 captive portal":       {answer: say(511, page), code: 511, says: "web page"},
		"reset connection":         {answer: reset, code: 0, says: "influx: http"},
		"100 MB of answer":         {answer: say(500, strings.Repeat("x", 100<<20)), code: 500, says: "xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(t *testing.T, loop logical.Config) {
				version := map[string]string{"": "v2.7.1", "none": ""}[c.version]
				if version == "" && c.version != "none" {
					version = c.version
				}
				f := newFake(t, version)
				f.behave(c.answer)
				r := newRig(t, t.TempDir(), influx.Config{URL: f.URL, Org: "o", Token: "t0ken"}, loop)
				all, _, _ := lines(0, 40, nil)
				r.write(all[:20]...)
				r.until("the trouble does not show", func(st influxlogical.Status) bool {
					facts := r.target.Facts()
					return st.Loop.Err != nil && facts.LatestErrorMessage != ""
				})
				r.write(all[20:]...)
				facts, st := r.target.Facts(), r.stream.Status().Loop
				if facts.LatestResponseCode != c.code || !strings.Contains(facts.LatestErrorMessage, c.says) || facts.LatestErrorAt.IsZero() {
					t.Errorf("the status is %d %q, want %d and %q", facts.LatestResponseCode, facts.LatestErrorMessage, c.code, c.says)
				}
				if st.State != loops.StateRetrying || logical.ClassOf(st.Err) != logical.ClassRetry || !strings.Contains(logical.HintOf(st.Err), c.hint) {
					t.Errorf("the loop is %s: %v", st.State, st.Err)
				}
				if strings.Contains(facts.LatestErrorMessage, "secret") {
					t.Errorf("a secret shows: %s", facts.LatestErrorMessage)
				}
				if !facts.LastSuccessAt.IsZero() || len(f.inside()) > 0 {
					t.Errorf("something counts as sent: %v, %v", facts, f.inside())
				}
				f.behave(nil)
				r.settled()
				sameLines(t, "in the remote", f.inside(), all)
				if kept, _ := r.aside(); len(kept) > 0 {
					t.Errorf("set aside: %q", kept)
				}
				facts = r.target.Facts()
				if facts.LatestResponseCode != 204 || facts.LatestErrorMessage != "" || facts.LastSuccessAt.IsZero() || facts.PointsSent < 40 || facts.InFlight != 0 {
					t.Errorf("after it has healed: %+v", facts)
				}
				for _, w := range f.writes() {
					if !strings.HasPrefix(w.path, "POST ") {
						t.Errorf("a write became %s", w.path)
					}
				}
			})
		})
	}
}

// TestNothingSilentEndlessAnswer lets answers begin and not end.
func TestNothingSilentEndlessAnswer(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 400, 500} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "v2.7.1")
			f.behave(endless(status))
			r := newRig(t, t.TempDir(), influx.Config{URL: f.URL}, logical.Config{ApplyTimeout: 300 * time.Millisecond})
			all, _, _ := lines(0, 20, nil)
			r.write(all...)
			r.until("the trouble does not show", func(influxlogical.Status) bool { return r.target.Facts().LatestErrorMessage != "" })
			if facts := r.target.Facts(); facts.LatestResponseCode != 0 || !strings.Contains(facts.LatestErrorMessage, "no answer") {
				t.Errorf("the status is %+v", facts)
			}
			f.behave(nil)
			r.settled()
			sameLines(t, "in the remote", f.inside(), all)
			if kept, _ := r.aside(); len(kept) > 0 {
				t.Errorf("set aside: %q", kept)
			}
		})
	}
}

// TestSuccessIsBelievedOfAnInfluxDB: 200 counts if the remote is known to be one, by its headers or by asking.
func TestSuccessIsBelievedOfAnInfluxDB(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]trouble{
		"JSON": say(200, `{"results":[{}]}`), "empty": say(200, ""), "202": say(202, ""), "206 text": say(206, "ok"),
	} {
		for _, kind := range []influx.Kind{influx.Auto, influx.V2} {
			t.Run(name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				f := newFake(t, "v2.7.1")
				f.behave(func(w http.ResponseWriter, r *http.Request, lines []string) bool {
					w.Header().Del("X-Influxdb-Version") // it is a proxy that answers
					f.keep(lines...)
					return answer(w, r, lines)
				})
				r := newRig(t, t.TempDir(), influx.Config{URL: f.URL, Kind: kind}, logical.Config{})
				all, _, _ := lines(0, 20, nil)
				r.write(all...)
				r.settled()
				if n := len(f.writes()); n != 1 {
					t.Errorf("%d requests for one write", n)
				}
			})
		}
	}
}

// TestRetryAfterIsHonoured expects no request before the time that the remote asked for, whatever is written
// meanwhile, and that neither a kick nor a probe ends it.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		after  func() string
	}{
		"429 seconds": {429, func() string { return "1" }},
		"503 seconds": {503, func() string { return "1.5" }},
		"429 date":    {429, func() string { return time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat) }},
		"503 date":    {503, func() string { return time.Now().Add(2 * time.Second).UTC().Format(time.RFC850) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(t *testing.T, loop logical.Config) {
				f := newFake(t, "v2.7.1")
				asked := make(chan time.Time, 100)
				f.behave(func(w http.ResponseWriter, r *http.Request, l []string) bool {
					asked <- time.Now()
					return say(c.status, `{"code":"too many requests","message":"slow down"}`, "Retry-After", c.after())(w, r, l)
				})
				r := newRig(t, t.TempDir(), influx.Config{URL: f.URL}, loop)
				all, _, _ := lines(0, 60, nil)
				r.write(all[:20]...)
				var first time.Time
				r.until("it is not told", func(st influxlogical.Status) bool { return logical.RetryAfterOf(st.Loop.Err) > 0 })
				first = <-asked
				before := len(f.writes())
				f.behave(nil)
				if err := r.target.Ping(t.Context()); logical.RetryAfterOf(err) <= 0 {
					t.Errorf("a probe says %v", err)
				}
				r.write(all[20:40]...)
				r.write(all[40:]...)
				r.settled()
				if waited := r.target.Facts().LastSuccessAt.Sub(first); waited < 900*time.Millisecond {
					t.Errorf("it was asked again after %s", waited)
				}
				if loop.Immediate && before > loop.FanShards || !loop.Immediate && before > 1 {
					t.Errorf("%d requests although the first was told to wait", before)
				}
				sameLines(t, "in the remote", f.inside(), all)
			})
		})
	}
}

// TestNothingSilentRejectedLines goes through the ways in which versions refuse lines.
func TestNothingSilentRejectedLines(t *testing.T) {
	t.Parallel()
	isBad := func(l string) bool { return strings.Contains(l, `"bad"`) }
	for name, c := range map[string]struct {
		version string
		partial bool // good lines of a refused request are stored
		answer  func(lines []string) trouble
		names   bool // which lines
	}{
		"1.x partial": {"1.8.10", true, func([]string) trouble {
			return say(400, `{"error":"partial write: field type conflict: input field \"v\" on measurement \"m\" is type string, already exists as type float dropped=1"}`)
		}, false},
		"1.x whole": {"1.8.10", false, func([]string) trouble {
			return say(400, `{"error":"unable to parse 'm v': missing field value"}`)
		}, false},
		"1.x cluster": {"1.8.10-c1.8.10", true, func([]string) trouble {
			return say(500, `{"error":"partial write: field type conflict: input field \"v\" dropped=1"}`)
		}, false},
		"1.x by header": {"1.8.10", true, func([]string) trouble {
			return say(400, "", "X-Influxdb-Error", "partial write: points beyond retention policy dropped=1")
		}, false},
		"2.x whole": {"v2.7.1", false, func([]string) trouble {
			return say(400, `{"code":"invalid","message":"unable to parse 'm v': missing field value"}`)
		}, false},
		"2.x partial": {"v2.7.1", true, func([]string) trouble {
			return say(422, `{"code":"unprocessable entity","message":"failure writing points to database: partial write: field type conflict: input field \"v\" dropped=1"}`)
		}, false},
		"2.x unknown words": {"v2.7.1", false, func([]string) trouble {
			return say(400, `{"code":"invalid","message":"something about a value"}`)
		}, false},
		"3.x partial": {"3.1.0", true, func(lines []string) trouble {
			var data []string
			for i, l := range lines {
				if isBad(l) {
					data = append(data, `{"original_line":"x","line_number":`+itoa(i+1)+`,"error_message":"line `+itoa(i+1)+` does not fit"}`)
				}
			}
			return say(400, `{"error":"partial write of line protocol occurred","data":[`+strings.Join(data, ",")+`]}`)
		}, true},
		"3.x limit": {"3.1.0", false, func([]string) trouble {
			return say(422, `{"error":"partial write: update to schema would exceed number of columns per table limit of 500 columns"}`)
		}, false},
		"413 for a line": {"v2.7.1", false, func([]string) trouble {
			return say(413, page)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(t *testing.T, loop logical.Config) {
				f := newFake(t, c.version)
				f.behave(func(w http.ResponseWriter, r *http.Request, lines []string) bool {
					if !slices.ContainsFunc(lines, isBad) {
						return false
					}
					if c.partial {
						f.keep(slices.DeleteFunc(slices.Clone(lines), isBad)...)
					}
					return c.answer(lines)(w, r, lines)
				})
				r := newRig(t, t.TempDir(), influx.Config{URL: f.URL, Org: "o"}, loop)
				all, good, bad := lines(0, 600, func(i int) bool { return i%97 == 5 || i > 590 })
				r.write(all[:300]...)
				r.write(all[300:]...)
				st := r.settled()
				sameLines(t, "in the remote", f.inside(), good)
				kept, reasons := r.aside()
				sameLines(t, "set aside", kept, bad)
				if st.Loop.Rejected != int64(len(bad)) || st.Loop.Mutations != int64(len(good)) {
					t.Errorf("%d rejected and %d landed, want %d and %d", st.Loop.Rejected, st.Loop.Mutations, len(bad), len(good))
				}
				for _, reason := range reasons {
					if c.names && !strings.Contains(reason, "does not fit") || reason == "" {
						t.Errorf("the reason is %q", reason)
					}
				}
				if facts := r.target.Facts(); facts.PointsSetAside != int64(len(bad)) || facts.BytesSetAside == 0 {
					t.Errorf("the facts are %+v", facts)
				}
				if n := len(f.writes()); c.names && n > 20 {
					t.Errorf("%d requests, although the remote named the lines", n)
				}
			})
		})
	}
}

// TestNothingSilentRejectedAndStopped: with the policy to stop nothing is skipped, and nothing set aside.
func TestNothingSilentRejectedAndStopped(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, loop logical.Config) {
		f := newFake(t, "v2.7.1")
		f.behave(say(400, `{"code":"invalid","message":"unable to parse 'x'"}`))
		loop.OnReject = logical.RejectStop
		r := newRig(t, t.TempDir(), influx.Config{URL: f.URL}, loop)
		all, _, _ := lines(0, 5, nil)
		r.write(all...)
		r.until("it does not show", func(st influxlogical.Status) bool { return st.Loop.State == loops.StateRejecting })
		f.behave(nil)
		r.settled()
		sameLines(t, "in the remote", f.inside(), all)
		if kept, _ := r.aside(); len(kept) > 0 {
			t.Errorf("set aside: %q", kept)
		}
	})
}

// TestBoundedRequests splits what the remote refuses as too large, and remembers how large it may be.
func TestBoundedRequests(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"nginx": page, "2.x": `{"code":"request too large","message":"too much","maxLength":1000}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothModes(t, func(t *testing.T, loop logical.Config) {
				const most = 1000
				f := newFake(t, "v2.7.1")
				f.behave(func(w http.ResponseWriter, r *http.Request, lines []string) bool {
					if len(strings.Join(lines, "\n"))+1 <= most {
						return false
					}
					return say(413, body)(w, r, lines)
				})
				r := newRig(t, t.TempDir(), influx.Config{URL: f.URL}, loop)
				all, _, _ := lines(0, 3000, nil)
				r.write(all[:1500]...)
				r.settled()
				refused := 0
				for _, w := range f.writes() {
					if len(strings.Join(w.lines, "\n"))+1 > most {
						refused++
					}
				}
				before := len(f.writes())
				r.write(all[1500:]...)
				r.settled()
				for _, w := range f.writes()[before:] {
					if len(strings.Join(w.lines, "\n"))+1 > most {
						t.Errorf("a request of %d lines although the limit is known", len(w.lines))
					}
				}
				sameLines(t, "in the remote", f.inside(), all)
				if n := r.target.Facts().RequestBytes; n > most || refused == 0 || refused > 60 {
					t.Errorf("requests may be %d bytes, %d were refused", n, refused)
				}
				if kept, _ := r.aside(); len(kept) > 0 {
					t.Errorf("set aside: %q", kept)
				}
			})
		})
	}
}

func itoa(n int) string { return strconv.Itoa(n) }

// TestQuestionsThatAreNotAnswered: a proxy may let nothing but writes pass; a portal, or a remote in trouble, is not
// written to before it says something else.
func TestQuestionsThatAreNotAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		question trouble
		code     int
		says     string // "" for a remote that is written to all the same
	}{
		"401": {say(401, ""), 0, ""}, "403": {say(403, page), 0, ""}, "404": {say(404, page), 0, ""}, "405": {say(405, ""), 0, ""},
		"portal": {say(200, page), 200, "web page"}, "redirect": {say(302, "", "Location", "http://portal"), 302, "http://portal"},
		"503": {say(503, "starting"), 503, "starting"}, "reset": {reset, 0, "influx: http"}, "413": {say(413, ""), 413, "413"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "")
			f.question = c.question
			r := newRig(t, t.TempDir(), influx.Config{URL: f.URL}, logical.Config{})
			r.write("m v=1 1")
			if c.says != "" {
				r.until("it is not told", func(st influxlogical.Status) bool { return st.Loop.Err != nil })
				if facts := r.target.Facts(); facts.LatestResponseCode != c.code || !strings.Contains(facts.LatestErrorMessage, c.says) || facts.Kind != "" {
					t.Errorf("the facts are %+v", facts)
				}
				if n := len(f.writes()); n > 0 {
					t.Errorf("%d writes", n)
				}
				f.mu.Lock()
				f.question = nil
				f.mu.Unlock()
			}
			r.settled()
			if got := f.inside(); !slices.Equal(got, []string{"m v=1 1"}) {
				t.Errorf("in the remote: %q", got)
			}
		})
	}
}

// TestLargeRequestsThatAreCutOff: somebody in between closes the connection before the word for it gets through.
func TestLargeRequestsThatAreCutOff(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, loop logical.Config) {
		var cut atomic.Int64
		f := newFake(t, "v2.7.1", func(s *http.Server) {
			inner := s.Handler
			s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ContentLength > 70_000 {
					cut.Add(1)
					reset(w, r, nil)
					return
				}
				inner.ServeHTTP(w, r)
			})
		})
		loop.FanShards = 1
		r := newRig(t, t.TempDir(), influx.Config{URL: f.URL}, loop)
		var all []string
		for i := range 4000 {
			all = append(all, fmt.Sprintf("m s=%q %d", strings.Repeat("x", 300), i))
		}
		r.write(all...)
		r.settled()
		sameLines(t, "in the remote", f.inside(), all)
		if n := cut.Load(); n < 2 {
			t.Errorf("%d requests were cut off", n)
		}
	})
}
