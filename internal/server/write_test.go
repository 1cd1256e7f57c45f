package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestWritesInEveryFormAreKept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, path, body string
		header           map[string]string
		bucket, want     string
	}{
		{name: "by name", path: v2one, body: "m v=1 5\n", bucket: "a1", want: "m v=1 5\n"},
		{name: "by id", path: "/api/v2/write?bucket=00000000000000a2&org=x&orgID=y", body: "m v=1 5", bucket: "a2", want: "m v=1 5\n"},
		{name: "now", path: v2one, body: "m v=1", bucket: "a1", want: "m v=1 1700000000123456789\n"},
		{name: "v2 ns", path: v2one + "&precision=ns", body: "m v=1 5", bucket: "a1", want: "m v=1 5\n"},
		{name: "v2 us", path: v2one + "&precision=us", body: "m v=1 5\nm v=2", bucket: "a1", want: "m v=1 5000\nm v=2 1700000000123456000\n"},
		{name: "v2 ms", path: v2one + "&precision=ms", body: "m v=1 5", bucket: "a1", want: "m v=1 5000000\n"},
		{name: "v2 s", path: v2one + "&precision=s", body: "m v=1 5", bucket: "a1", want: "m v=1 5000000000\n"},
		{name: "v1", path: "/write?db=one", body: "m v=1 5", bucket: "a1", want: "m v=1 5\n"},
		{name: "v1 n", path: "/write?db=one&precision=n", body: "m v=1 5", bucket: "a1", want: "m v=1 5\n"},
		{name: "v1 u", path: "/write?db=one&precision=u", body: "m v=1 5", bucket: "a1", want: "m v=1 5000\n"},
		{name: "v1 m", path: "/write?db=one&precision=m", body: "m v=1 5", bucket: "a1", want: "m v=1 300000000000\n"},
		{name: "v1 h", path: "/write?db=one&precision=h", body: "m v=1 5", bucket: "a1", want: "m v=1 18000000000000\n"},
		{name: "db and rp", path: "/write?db=db&rp=rp&consistency=all", body: "m v=1 5", bucket: "a3", want: "m v=1 5\n"},
		{name: "db/rp", path: "/api/v2/write?bucket=db/rp", body: "m v=1 5", bucket: "a3", want: "m v=1 5\n"},
		{name: "autogen", path: "/write?db=one&rp=autogen", body: "m v=1 5", bucket: "a1", want: "m v=1 5\n"},
		{name: "gzip", path: v2one, body: zipped("m v=1 5\n"), header: map[string]string{"Content-Encoding": "gzip"}, bucket: "a1", want: "m v=1 5\n"},
		{name: "gzip in parts", path: v2one, body: zipped("m v=1 5\nm v") + zipped("=2 6"), header: map[string]string{"Content-Encoding": "GZIP"}, bucket: "a1", want: "m v=1 5\nm v=2 6\n"},
		{name: "identity", path: v2one, body: "m v=1 5\n", header: map[string]string{"Content-Encoding": "identity"}, bucket: "a1", want: "m v=1 5\n"},
		{name: "a form's type", path: "/write?db=one", body: "m v=1 5", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, bucket: "a1", want: "m v=1 5\n"},
		{name: "empty", path: v2one, body: "", want: ""},
		{name: "comments only", path: "/write?db=one", body: "# nothing\n\n", want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := start(t, Config{}, nil)
			got := st.do(t, http.MethodPost, c.path, c.body, c.header)
			if got.status != http.StatusNoContent || got.body != "" {
				t.Errorf("answer %d %s", got.status, got.body)
			}
			if kept := st.intake.kept["00000000000000"+c.bucket]; kept != c.want || st.intake.all() != c.want {
				t.Errorf("kept %q, want %q", st.intake.all(), c.want)
			}
		})
	}
}

func TestChunkedBody(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	var want strings.Builder
	r, w := io.Pipe()
	go func() {
		for i := range 1000 {
			fmt.Fprintf(&want, "m v=%d %d\n", i, i)
			fmt.Fprintf(w, "m v=%d ", i)
			fmt.Fprintf(w, "%d\n", i)
		}
		_ = w.Close()
	}()
	if got := st.send(t, http.MethodPost, v2one, r, nil); got.status != http.StatusNoContent || st.intake.all() != want.String() {
		t.Errorf("answer %d %s, %d bytes kept", got.status, got.body, len(st.intake.all()))
	}
}

func TestRefusedWritesSayWhyAndKeepNothing(t *testing.T) {
	t.Parallel()
	gz := map[string]string{"Content-Encoding": "gzip"}
	good := "m v=1 1\n"
	cut := zipped(strings.Repeat(good, 100))
	st := start(t, Config{MaxBodySize: 1 << 20}, nil)
	for _, c := range []struct {
		name, path, body string
		header           map[string]string
		status           int
		says             []string
	}{
		{name: "unknown bucket", path: "/api/v2/write?bucket=nowhere", body: good, status: 404, says: []string{`"code":"not found"`, `\"nowhere\"`}},
		{name: "no bucket", path: "/api/v2/write", body: good, status: 404, says: []string{`"code":"not found"`}},
		{name: "no database", path: "/write", body: good, status: 400, says: []string{`{"error":"database is required"}`}},
		{name: "unknown database", path: "/write?db=nowhere", body: good, status: 404, says: []string{`{"error":"database not found: \"nowhere\""}`}},
		{name: "unknown policy", path: "/write?db=one&rp=week", body: good, status: 404, says: []string{`database not found: \"one/week\"`}},
		{name: "v2 precision", path: v2one + "&precision=m", body: good, status: 400, says: []string{`"code":"invalid"`, "invalid precision", "ns, us, ms or s"}},
		{name: "v1 precision", path: "/write?db=one&precision=fortnight", body: good, status: 400, says: []string{`{"error":"invalid precision`}},
		{name: "other token", path: "/api/v2/write?bucket=two", body: good, header: map[string]string{"Authorization": "Token " + writer}, status: 403, says: []string{`"code":"forbidden"`, "two"}},
		{name: "reader", path: v2one, body: good, header: map[string]string{"Authorization": "Token " + reader}, status: 403, says: []string{`"code":"forbidden"`}},
		{name: "not gzip", path: v2one, body: good, header: gz, status: 400, says: []string{"not valid gzip"}},
		{name: "empty gzip", path: v2one, body: "", header: gz, status: 400, says: []string{"not valid gzip"}},
		{name: "half a gzip", path: v2one, body: cut[:len(cut)-9], header: gz, status: 400, says: []string{"not valid gzip"}},
		{name: "gzip with a bad sum", path: v2one, body: cut[:len(cut)-8] + "\x00\x00\x00\x00" + cut[len(cut)-4:], header: gz, status: 400, says: []string{"not valid gzip"}},
		{name: "something after gzip", path: v2one, body: cut + "x", header: gz, status: 400, says: []string{"not valid gzip"}},
		{name: "other encoding", path: v2one, body: good, header: map[string]string{"Content-Encoding": "br"}, status: 400, says: []string{"br", "gzip"}},
		{name: "too large", path: v2one, body: strings.Repeat(good, 1<<18), status: 413, says: []string{`"code":"request too large"`, "1048576"}},
		{name: "too large, v1", path: "/write?db=one", body: strings.Repeat(good, 1<<18), status: 413, says: []string{`{"error":"request body too large`}},
		{name: "zip bomb", path: v2one, body: zipped(strings.Repeat(good, 1<<20)), header: gz, status: 413, says: []string{"too large"}},
		{name: "endless empty gzip members", path: v2one, body: strings.Repeat(zipped(""), 60_000), header: gz, status: 413, says: []string{"too large"}},
		{name: "half a line", path: v2one, body: good + "weather,city=Ber", status: 400, says: []string{`"code":"invalid"`, `"line":2`, "line 2", "missing fields"}},
		{name: "NaN", path: v2one, body: good + "\n# x\nm v=NaN 1\n" + good, status: 400, says: []string{`"line":4`, "line 4"}},
		{name: "line of 2 MiB", path: v2one, body: good + `m v="` + strings.Repeat("x", 1<<20) + `" 1`, status: 413, says: []string{"too large"}},
		{name: "unterminated", path: v2one, body: good + "m v=\"x\n" + good, status: 400, says: []string{`"line":2`, "unbalanced quotes"}},
		{name: "binary", path: v2one, body: "\x00\x01\x02\xff\xfe\n", status: 400, says: []string{`"line":1`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := st.do(t, http.MethodPost, c.path, c.body, c.header)
			if got.status != c.status {
				t.Errorf("answer %d %.300s, want %d", got.status, got.body, c.status)
			}
			for _, says := range c.says {
				if !strings.Contains(got.body, says) {
					t.Errorf("answer %.300s does not say %s", got.body, says)
				}
			}
			checkForm(t, c.path, got)
		})
	}
	t.Cleanup(func() {
		if kept := st.intake.all(); kept != "" {
			t.Errorf("kept %.100q", kept)
		}
	})
}

// checkForm checks that an error has the form that clients of its API read.
func checkForm(t *testing.T, path string, got reply) {
	t.Helper()
	doc := got.fields(t)
	if !strings.HasPrefix(got.header.Get("Content-Type"), "application/json") || got.header.Get("X-Platform-Error-Code") == "" {
		t.Errorf("headers %v", got.header)
	}
	if strings.HasPrefix(path, "/write") || strings.HasPrefix(path, "/query") {
		text, _ := doc["error"].(string)
		if len(doc) != 1 || text == "" || got.header.Get("X-Influxdb-Error") != headerText(text) {
			t.Errorf("not the form of 1.x: %s, header %q", got.body, got.header.Get("X-Influxdb-Error"))
		}
		return
	}
	code, _ := doc["code"].(string)
	message, _ := doc["message"].(string)
	if code == "" || message == "" || code != got.header.Get("X-Platform-Error-Code") {
		t.Errorf("not the form of 2.x: %s", got.body)
	}
}

func TestStrictErrorListsHundredLines(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	got := st.do(t, http.MethodPost, v2one, strings.Repeat("m v=1 1\nm v=\n", 300), nil)
	doc := got.fields(t)
	message, _ := doc["message"].(string)
	if got.status != 400 || doc["line"] != 2.0 || strings.Count(message, "unable to parse") != 100 || strings.Count(message, "\n") != 100 || !strings.Contains(message, "perhaps more") {
		t.Errorf("answer %d, line %v, %.200s", got.status, doc["line"], message)
	}
	if st.intake.all() != "" {
		t.Error("something was kept")
	}
}

func TestPartialWriteKeepsTheGoodLines(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	got := st.do(t, http.MethodPost, "/write?db=one", "m v=1 1\nm v=NaN 2\nm v=3 3\nm\n", nil)
	text, _ := got.fields(t)["error"].(string)
	if got.status != 400 || !strings.HasPrefix(text, "partial write: line 2") || !strings.HasSuffix(text, " dropped=2 for database: one") ||
		!strings.Contains(text, "unable to parse 'm v=NaN 2'") || !strings.Contains(text, "line 4") {
		t.Errorf("answer %d %s", got.status, text)
	}
	if kept := st.intake.all(); kept != "m v=1 1\nm v=3 3\n" {
		t.Errorf("kept %q", kept)
	}
	got = st.do(t, http.MethodPost, "/write?db=one", "m\nm v=NaN 2\n", nil)
	if text, _ := got.fields(t)["error"].(string); got.status != 400 || strings.Contains(text, "partial") || st.intake.writes != 1 {
		t.Errorf("nothing good: answer %d %s, %d writes", got.status, text, st.intake.writes)
	}
	if n := len(got.header.Get("X-Influxdb-Error")); n == 0 || n > 1024 {
		t.Errorf("the header has %d bytes", n)
	}
}

func TestLineOfHundredMegabytesIsRefused(t *testing.T) {
	t.Parallel()
	st := start(t, Config{MaxBodySize: 200 << 20}, nil)
	long := io.MultiReader(strings.NewReader("m v=1 1\nm v=\""), io.LimitReader(xs{}, 100<<20), strings.NewReader("\" 2\nm v=3 3\n"))
	got := st.send(t, http.MethodPost, "/write?db=one", long, nil)
	if text, _ := got.fields(t)["error"].(string); got.status != 400 || !strings.Contains(text, "line 2") || !strings.Contains(text, "line too long") || len(text) > 1000 {
		t.Errorf("answer %d %.300s", got.status, text)
	}
	if kept := st.intake.all(); kept != "m v=1 1\nm v=3 3\n" {
		t.Errorf("kept %.100q", kept)
	}
	if st.metrics.bytesRead == nil || st.budget.used() != 0 {
		t.Errorf("%d bytes are still reserved", st.budget.used())
	}
}

// xs reads as x without end.
type xs struct{}

func (xs) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}
