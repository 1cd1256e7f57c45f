package influx

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestRetryAfterForms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 1.5 ": 1500 * time.Millisecond, "-3": 0, "soon": 0, "1h": 0,
		"7200": time.Hour, "99999999999999999999": time.Hour, "1e3": 0,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Fri, 02 Jan 2026 03:00:00 GMT": 0,
		"Friday, 02-Jan-26 03:05:05 GMT": time.Minute, "Fri Jan  2 03:04:06 2026": time.Second,
		"Fri, 01 Jan 2100 00:00:00 GMT": time.Hour,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestSizerScenarios(t *testing.T) {
	t.Parallel()
	s := newSizer(1 << 20)
	want := func(what string, n int) {
		t.Helper()
		if got := s.bytes(); got != n {
			t.Errorf("%s: %d bytes, want %d", what, got, n)
		}
	}
	want("at first", 1<<20)
	s.tooLarge(1<<20, 0)
	want("after a 413", 1<<19)
	s.tooLarge(1<<19, 100_000)
	want("after a 413 that says how much", 100_000)
	s.tooLarge(100_000, 200_000) // it cannot be
	want("after a 413 that says nonsense", 50_000)
	s.tooSlow(50_000)
	want("after a timeout", 25_000)
	for range 20 {
		s.tooSlow(s.bytes())
	}
	want("after many timeouts", leastInTime)
	for range 4 {
		s.stored(leastInTime, time.Millisecond)
	}
	want("after four in good time", 2*leastInTime)
	for range 100 {
		s.stored(10, time.Millisecond)
		s.stored(s.bytes(), time.Minute)
	}
	want("after small and slow ones", 2*leastInTime)
	for range 40 {
		s.stored(s.bytes(), time.Millisecond)
	}
	want("no further than was refused", 50_000)
	for range forgiveAfter + 4 {
		s.stored(s.bytes(), time.Millisecond)
	}
	want("after many, more is tried", 100_000)
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://h:8086?bucket=b":                     "http://h:8086  b ",
		"https://h/x/?org=o&bucket=a%20b":            "https://h/x o a b ",
		"http://h?db=d":                              "http://h  d 1",
		"http://h?db=d&rp=r":                         "http://h  d/r 1",
		"http://h?db=d&kind=3":                       "http://h  d 3",
		"http://u:p%40@h?bucket=b":                   "http://h  b ",
		"http://u:s3cret@h":                          "!bucket",
		"http://u:s3cret%zz@h?bucket=b":              "!%XX",
		"http://h?bucket=b&token=s3cret":             "!secret",
		"http://h?bucket=b&u=x&p=s3cret":             "!secret",
		"http://h?bucket=b&precision=s3cret":         "!precision",
		"http://h?bucket=b&db=d":                     "!both",
		"http://h?bucket=%zz":                        "!malformed",
		"udp://u:s3cret@h?bucket=b":                  "!http or https",
		"http:///x?bucket=b":                         "!names no host",
		"http://h?bucket=b&kind=4":                   "!give auto",
		"http://u%3As3cret:p@h?bucket=b":             "!colon",
		"postgres://u:s3cret@h/db?sslmode=disable":   "!http or https",
		"http://h:8086/#frag?bucket=b":               "!no parameters",
		"http://[::1]:8086?bucket=b":                 "http://[::1]:8086  b ",
		"HTTP://h?bucket=b":                          "http://h  b ",
		"http://h?bucket=b&org=":                     "http://h  b ",
		"http://h/pre%20fix?bucket=b":                "http://h/pre%20fix  b ",
		"http://u:s3cret@h:port?bucket=b":            "!cannot be read",
		"http://h?bucket=b&bucket=c&%73ecret=x":      "!means nothing",
		"https://user:s3cret@h?rp=x&bucket=":         "",
		"http://h?bucket=b;db=c":                     "!malformed",
		"http://h?bucket=b&org=" + long('o', 10_000): "",
	} {
		cfg, err := ParseURL(text)
		var target *Target
		if err == nil {
			target, err = Open(cfg)
		}
		if err != nil {
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: a secret shows: %v", text, err)
			}
			if want != "" && (!strings.HasPrefix(want, "!") || !strings.Contains(err.Error(), want[1:])) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
			continue
		}
		if got := fmt.Sprintf("%s %s %s %s", target.cfg.URL, cfg.Org, cfg.Bucket, cfg.Kind); want != "" && got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if strings.Contains(target.Name(), "s3cret") {
			t.Errorf("a secret shows: %s", target.Name())
		}
	}
}

func long(c byte, n int) string { return strings.Repeat(string(c), n) }

// TestGoneReaderLetsGo: a transport that reads on when the request is over gets nothing of memory that is used
// for something else by then.
func TestGoneReaderLetsGo(t *testing.T) {
	t.Parallel()
	muts := []logical.Mutation{{Raw: []byte("one")}, {Raw: nil}, {Raw: []byte(long('x', 2000))}}
	for _, compress := range []bool{false, true} {
		b, err := newBody(muts, compress)
		if err != nil {
			t.Fatal(err)
		}
		r := b.reader()
		if n, err := io.Copy(io.Discard, b.reader()); err != nil || n != int64(b.length()) {
			t.Errorf("%d bytes of %d, %v", n, b.length(), err)
		}
		one := make([]byte, 1)
		if _, err := r.Read(one); err != nil {
			t.Error(err)
		}
		r.detach()
		if n, err := r.Read(one); n != 0 || err == nil {
			t.Errorf("%d bytes after the end, %v", n, err)
		}
		b.free()
	}
}

// FuzzJudge looks for answers that are taken for what they are not: a success must come with a status that
// says so and without a page, a rejection with a status that can be one, and what is named must be among the
// lines.
func FuzzJudge(f *testing.F) {
	for _, body := range []string{
		"", "<html>", `{"error":"partial write: field type conflict dropped=1"}`, `{"code":"invalid","message":"unable to parse"}`,
		`{"error":"partial write of line protocol occurred","data":[{"original_line":"x","line_number":2,"error_message":"no"}]}`,
		`{"error":"parsing failed for write_lp endpoint","data":{"original_line":"x","line_number":1,"error_message":"no"}}`,
		`{"data":[{"line_number":-1},{"line_number":99999999999}]}`, `{"maxLength":-5}`, `[]`, `null`, "\xff\x00",
	} {
		for _, status := range []int{200, 204, 301, 400, 404, 413, 422, 429, 500, 503} {
			f.Add(status, "text/plain", "3", body, true, "3")
		}
	}
	target, err := Open(Config{URL: "http://user:pass-word@h", Bucket: "b", Token: "s3cret-token"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, contentType, after, body string, known bool, kind string) {
		a := &answer{status: status, body: []byte(body), header: http.Header{"Content-Type": {contentType}, "Retry-After": {after}}}
		v := target.judge(Kind(kind), a, known)
		switch v.outcome {
		case accepted:
			if status/100 != 2 || status != 204 && (!known || looksLikeHTML(a)) {
				t.Errorf("a success: %d %q", status, body)
			}
			return
		case rejected:
			if status != 400 && status != 422 && status != 500 {
				t.Errorf("a rejection: %d %q", status, body)
			}
		case tooLarge:
			if status != 413 || v.maxLength < 0 {
				t.Errorf("too large: %d %q %d", status, body, v.maxLength)
			}
		case unsettled:
			if logical.ClassOf(v.err) != logical.ClassRetry {
				t.Errorf("not to be tried again: %v", v.err)
			}
		}
		if d := logical.RetryAfterOf(v.err); d < 0 || d > maxRetryAfter {
			t.Errorf("wait %s", d)
		}
		if text := v.err.Error(); strings.Contains(text, "s3cret-token") || strings.Contains(text, "pass-word") || strings.ContainsAny(text, "\n\r\x00") || len(text) > 5000 {
			t.Errorf("the error is %q", text)
		}
		for i, l := range v.within(10) {
			if l.line < 0 || l.line >= 10 || l.reason == nil || i > 0 && l.line <= v.lines[i-1].line {
				t.Errorf("lines %+v", v.lines)
			}
		}
	})
}

// FuzzParseURL looks for the password in errors and names.
func FuzzParseURL(f *testing.F) {
	f.Add("user", "h:1/p?org=o&bucket=b")
	f.Add("", "h?db=d&rp=r&kind=2")
	f.Fuzz(func(t *testing.T, user, rest string) {
		const password = "s3cret-word"
		if strings.Contains(user+rest, password) {
			return
		}
		cfg, err := ParseURL("http://" + user + ":" + password + "@" + rest)
		if err == nil {
			var target *Target
			if target, err = Open(cfg); err == nil {
				if strings.Contains(target.Name(), password) || target.cfg.Password != password && target.cfg.Username != "" {
					t.Errorf("the name is %s, the password %q", target.Name(), target.cfg.Password)
				}
				return
			}
		}
		if strings.Contains(err.Error(), password) {
			t.Errorf("the error shows the password: %v", err)
		}
	})
}
