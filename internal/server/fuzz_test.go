package server

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Whatever is asked, the answer is one of ours, errors have the form of their API, and a write is
// kept if and only if the answer says so.
func FuzzServeHTTP(f *testing.F) {
	reg := prometheus.NewRegistry()
	all, err := New(Config{}, Deps{Intake: newIntake(), Authorizer: NewTokens(nil), Registerer: reg, Gatherer: reg, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	for path, rt := range all.routes.exact {
		for method := range rt.methods {
			for _, body := range []string{"", "m v=1 5\n", zipped("m v=1 5\n"), `{"name":"x"}`, "q=SHOW+DATABASES", "\x00\xff"} {
				f.Add(method, path+"?bucket=one&db=one&q=x", "Token "+operator, "", []byte(body))
			}
			f.Add(method, path, "", "gzip", []byte("m v=1 5\n"))
		}
	}
	for _, path := range []string{v2one, "/write?db=one", "/query?q=SHOW+DATABASES", "/ping", "/health", "/ready?stream=x", "/api/v2/query", "/x"} {
		f.Add("POST", path, "Token "+operator, "", []byte("m v=1 5\nm v="))
		f.Add("GET", path, basic("u", operator), "gzip", []byte(zipped("m v=1 5\n")))
	}
	f.Add("POST", v2one+"&precision=s", "Bearer "+writer, "identity", []byte("m v=1 5\n"))
	f.Fuzz(func(t *testing.T, method, target, auth, encoding string, body []byte) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") {
			return
		}
		in := newIntake()
		reg := prometheus.NewRegistry()
		s, err := New(Config{MaxBodySize: 64 << 10}, Deps{
			Registerer: reg, Gatherer: reg,
			Intake: in, Databases: in, Authorizer: NewTokens(map[string]Principal{operator: {Manage: true}, writer: {}}),
			Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.refusals.close()
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
		r.Method, r.URL = method, u
		r.Header.Set("Authorization", auth)
		r.Header.Set("Content-Encoding", encoding)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		kept := in.all()
		switch v1 := u.Path == "/write" || u.Path == "/query"; {
		case w.Code < 200 || w.Code > 599 || w.Code == http.StatusInternalServerError:
			t.Fatalf("%s %s: %d %s", method, target, w.Code, w.Body)
		case w.Code >= 400 && w.Code != http.StatusServiceUnavailable:
			var doc map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || v1 && doc["error"] == nil || !v1 && (doc["code"] == nil || doc["message"] == nil) {
				t.Fatalf("%s %s: %d %s: %v", method, target, w.Code, w.Body, err)
			}
			if kept != "" && (u.Path != "/write" || !strings.Contains(w.Body.String(), "partial write")) {
				t.Fatalf("%s %s: refused with %s, but kept %q", method, target, w.Body, kept)
			}
		}
		if s.budget.used() != 0 {
			t.Fatalf("%d bytes are still reserved", s.budget.used())
		}
	})
}
