package influx_test

import (
	"bufio"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fake is a remote for answers that no real one gives. It stores what it accepts.
type fake struct {
	*httptest.Server

	mu       sync.Mutex
	version  string                                                            // in its headers; "" for none
	question trouble                                                           // how /ping and /health are answered, if not well
	trouble  func(w http.ResponseWriter, r *http.Request, lines []string) bool // reports whether it has answered
	requests []seen
	stored   []string
}

// seen is a write as it arrived.
type seen struct {
	path, query, auth, agent, encoding string
	lines                              []string
}

func newFake(t *testing.T, version string, settings ...func(*http.Server)) *fake {
	f := &fake{version: version}
	f.Server = httptest.NewUnstartedServer(f)
	for _, set := range settings {
		set(f.Config)
	}
	f.Start()
	t.Cleanup(f.Close)
	return f
}

// behave sets how writes are answered; nil is well.
func (f *fake) behave(trouble func(w http.ResponseWriter, r *http.Request, lines []string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trouble = trouble
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.version != "" {
		w.Header().Set("X-Influxdb-Version", f.version)
	}
	if strings.HasSuffix(r.URL.Path, "/ping") || strings.HasSuffix(r.URL.Path, "/health") {
		f.mu.Lock()
		question := f.question
		f.mu.Unlock()
		if question != nil && question(w, r, nil) {
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, "gzip", http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	var lines []string
	for scan := bufio.NewScanner(body); scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	f.mu.Lock()
	f.requests = append(f.requests, seen{
		path: r.Method + " " + r.URL.Path, query: r.URL.RawQuery, auth: r.Header.Get("Authorization"),
		agent: r.UserAgent(), encoding: r.Header.Get("Content-Encoding"), lines: lines,
	})
	trouble := f.trouble
	f.mu.Unlock()
	if trouble != nil && trouble(w, r, lines) {
		return
	}
	f.keep(lines...)
	w.WriteHeader(http.StatusNoContent)
}

// keep stores lines.
func (f *fake) keep(lines ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stored = append(f.stored, lines...)
}

func (f *fake) writes() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// inside returns the lines that were accepted, each once, in the order of their first arrival.
func (f *fake) inside() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var once []string
	have := map[string]bool{}
	for _, l := range f.stored {
		if !have[l] {
			have[l] = true
			once = append(once, l)
		}
	}
	return once
}

// say answers with a status, a body and headers (name, value, …).
func say(status int, body string, headers ...string) func(http.ResponseWriter, *http.Request, []string) bool {
	return func(w http.ResponseWriter, _ *http.Request, _ []string) bool {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the client may have gone
		return true
	}
}
