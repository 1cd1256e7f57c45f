package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	operator = "operator-token-1"
	writer   = "writer-token-2" // may write to the bucket "one"
	reader   = "reader-token-3" // may read it
)

var testNow = time.Unix(1700000000, 123456789)

// soak returns few, or many if TAILRACE_SOAK is set.
func soak(few, many int) int {
	if os.Getenv("TAILRACE_SOAK") != "" {
		return many
	}
	return few
}

// An intake keeps what is written to it, by bucket id.
type intake struct {
	mu      sync.Mutex
	buckets []Bucket
	kept    map[string]string
	writes  int
	err     error
	hook    func(context.Context) // called by Write before anything else
}

func newIntake() *intake {
	return &intake{
		buckets: []Bucket{{ID: "00000000000000a1", Name: "one"}, {ID: "00000000000000a2", Name: "two"}, {ID: "00000000000000a3", Name: "db/rp"}},
		kept:    map[string]string{},
	}
}

func (i *intake) Bucket(_ context.Context, _, ref string) (Bucket, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, b := range i.buckets {
		if b.ID == ref || b.Name == ref {
			return b, nil
		}
	}
	return Bucket{}, &UnknownBucketError{Ref: ref}
}

func (i *intake) Write(ctx context.Context, bucket string, blocks []lineprotocol.Block) error {
	if i.hook != nil {
		i.hook(ctx)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil {
		return i.err
	}
	i.writes++
	for _, b := range blocks {
		i.kept[bucket] += string(b.Data)
	}
	return nil
}

func (i *intake) Owner(context.Context, string) (string, error) { return "", nil }

func (i *intake) Create(_ context.Context, _, name string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.buckets = append(i.buckets, Bucket{ID: "id of " + name, Name: name})
	return i.err
}

func (i *intake) List(context.Context) ([]Bucket, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.buckets, i.err
}

// all returns everything that was kept.
func (i *intake) all() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var b strings.Builder
	for _, text := range i.kept {
		b.WriteString(text)
	}
	return b.String()
}

// A logBuffer is a log that can be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// A site is a server that listens, with all around it.
type site struct {
	*Server
	intake *intake
	log    *logBuffer
	reg    *prometheus.Registry
	url    string
	client *http.Client
}

// start starts a server on a free port, and stops it when the test ends.
func start(tb testing.TB, cfg Config, change func(*Deps)) *site {
	tb.Helper()
	st := &site{intake: newIntake(), log: &logBuffer{}, reg: prometheus.NewRegistry(), client: &http.Client{Transport: &http.Transport{}}}
	id := st.intake.buckets[0].ID
	deps := Deps{
		Intake: st.intake,
		Authorizer: NewTokens(map[string]Principal{
			operator: {Name: "operator", Manage: true},
			writer:   {Name: "writer", Grants: []Grant{{Action: Write, Type: "buckets", ID: id}}},
			reader:   {Name: "reader", Grants: []Grant{{Action: Read, Type: "buckets", ID: id}}},
		}),
		Databases: st.intake, Registerer: st.reg, Gatherer: st.reg,
		Log: slog.New(slog.NewTextHandler(st.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now: func() time.Time { return testNow },
	}
	if change != nil {
		change(&deps)
	}
	cfg.BindAddr = "127.0.0.1:0"
	s, err := New(cfg, deps)
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.Listen(); err != nil {
		tb.Fatal(err)
	}
	st.Server, st.url = s, "http://"+s.Addr().String()
	if cfg.TLS != nil {
		st.url = "https://" + s.Addr().String()
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	tb.Cleanup(func() {
		st.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			tb.Error(err)
		}
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return st
}

// A reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// fields returns the JSON document that the answer is.
func (r reply) fields(tb testing.TB) map[string]any {
	tb.Helper()
	doc := map[string]any{}
	if err := json.Unmarshal([]byte(r.body), &doc); err != nil {
		tb.Errorf("%d %q is not JSON: %v", r.status, r.body, err)
	}
	return doc
}

// do sends a request with the operator's token, unless the header says otherwise.
func (st *site) do(tb testing.TB, method, path, body string, header map[string]string) reply {
	tb.Helper()
	return st.send(tb, method, path, strings.NewReader(body), header)
}

func (st *site) send(tb testing.TB, method, path string, body io.Reader, header map[string]string) reply {
	tb.Helper()
	req, err := http.NewRequestWithContext(tb.Context(), method, st.url+path, body)
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Authorization", "Token "+operator)
	for name, value := range header {
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	resp, err := st.client.Do(req)
	if err != nil {
		tb.Errorf("%s %s: %v", method, path, err)
		return reply{header: http.Header{}}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Error(err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

func zipped(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.String()
}

const v2one = "/api/v2/write?bucket=one"
