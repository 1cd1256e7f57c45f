package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	remotes "github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/replication"
	"github.com/tailrace-cdc/tailrace/internal/server"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/target/sqlite"
	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const operator = "operator-token"

// A site is a server with this API, over real parts: metadata and queues in a directory, SQLite as target.
type site struct {
	t       testing.TB
	dir     string
	url     string
	log     *logBuffer
	service *replication.Service
	streams *influxlogical.Streams
	client  *http.Client
	org     metadata.Org
	bucket  metadata.Bucket
	answers func(*http.Request, reply) // looks at every answer, if it is set
}

func start(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), log: &logBuffer{}, client: &http.Client{Transport: &http.Transport{}}}
	log := slog.New(slog.NewTextHandler(s.log, nil))
	store, err := metadata.Open(t.Context(), metadata.Config{Path: filepath.Join(s.dir, "metadata.db"), Key: bytes.Repeat([]byte{1}, metadata.KeySize)})
	must(t, err)
	queues, err := queue.OpenStore(queue.StoreConfig{Dir: filepath.Join(s.dir, "replicationq")})
	must(t, err)
	factory, err := loops.NewFactory(loops.FactoryConfig{Holder: "here", Log: log})
	must(t, err)
	s.streams = influxlogical.NewStreams(influxlogical.Config{Factory: factory, Store: queues, Installation: "here", Log: log})
	s.service = replication.New(replication.Config{
		Installation: "here", Store: store, Streams: s.streams, Log: log,
		Limits: remotes.Limits{DataDir: s.dir, SQLiteDir: s.dir, Reserved: []string{"metadata.db", "replicationq"}},
		Loop:   logical.Config{OnReject: logical.RejectDeadLetter, RetryDelay: time.Millisecond},
		Open: func(ctx context.Context, c remotes.Connection) (logical.Target, error) {
			return sqlite.Open(ctx, sqlite.Config{Path: c.Address.Path})
		},
	})
	must(t, s.service.Start(t.Context()))
	s.org, err = s.service.CreateOrg(t.Context(), metadata.Org{Name: "default"})
	must(t, err)
	s.bucket, err = s.service.CreateBucket(t.Context(), metadata.Bucket{OrgID: s.org.ID, Name: "default"})
	must(t, err)
	in := intake{s}
	srv, err := server.New(server.Config{BindAddr: "127.0.0.1:0"}, server.Deps{
		Intake: in, Authorizer: in, Databases: in, Log: log, Routes: New(s.service, s.backup).Routes(),
	})
	must(t, err)
	must(t, srv.Listen())
	s.url = "http://" + srv.Addr().String()
	served := make(chan error, 1)
	go func() { served <- srv.Serve() }()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for _, stop := range []func() error{
			func() error { return srv.Shutdown(ctx) }, func() error { return <-served },
			func() error { s.service.Close(); return nil }, func() error { return s.streams.Close(ctx) },
			queues.Close, store.Close,
		} {
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

// backup stands for one: what is in it is the business of package backup.
func (s *site) backup(_ context.Context, w io.Writer, withQueues, withKey bool) error {
	if withKey && !withQueues {
		return errors.New("nothing to be had")
	}
	_, err := fmt.Fprintf(w, "a backup %v %v", withQueues, withKey)
	if withKey {
		err = errors.New("in the middle of it")
	}
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// intake is what the server needs beside this API.
type intake struct{ s *site }

func (in intake) Authorize(_ context.Context, token string) (server.Principal, bool) {
	if token == operator {
		return server.Principal{Name: "operator", Manage: true}, true
	}
	return Principal(in.s.service, token)
}

func (in intake) Bucket(_ context.Context, org, ref string) (server.Bucket, error) {
	b, err := in.s.service.FindBucket(org, ref)
	if err != nil {
		return server.Bucket{}, &server.UnknownBucketError{Ref: ref}
	}
	return server.Bucket{ID: b.ID.String(), Name: b.Name, OrgID: b.OrgID.String()}, nil
}

func (in intake) Write(ctx context.Context, bucket string, blocks []lineprotocol.Block) error {
	return in.s.streams.Write(ctx, bucket, blocks)
}

func (in intake) Owner(context.Context, string) (string, error) { return in.s.org.ID.String(), nil }

func (in intake) Create(ctx context.Context, _, name string) error {
	_, err := in.s.service.CreateBucket(ctx, metadata.Bucket{OrgID: in.s.org.ID, Name: name})
	return err
}

func (in intake) List(context.Context) ([]server.Bucket, error) { return nil, nil }

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

// A reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   string
}

// as sends a request with a token, or with none if it is empty.
func (s *site) as(token, method, path, body string) reply {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	must(s.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Token "+token)
	}
	resp, err := s.client.Do(req)
	must(s.t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	must(s.t, err)
	r := reply{resp.StatusCode, resp.Header, string(text)}
	if s.answers != nil {
		s.answers(req, r)
	}
	return r
}

// do sends a request as the operator, and wants a status. The answer is read into result, unless it is nil.
func (s *site) do(method, path, body string, want int, result any) reply {
	s.t.Helper()
	r := s.as(operator, method, path, body)
	if r.status != want {
		s.t.Fatalf("%s %s: %d %s, want %d", method, path, r.status, r.body, want)
	}
	if result != nil {
		if err := json.Unmarshal([]byte(r.body), result); err != nil {
			s.t.Fatalf("%s %s: %v: %s", method, path, err, r.body)
		}
	}
	return r
}

// document is any JSON object.
type document map[string]any

func (d document) id() string { return d["id"].(string) }

// remote makes a remote that is a file.
func (s *site) remote(name string) document {
	s.t.Helper()
	var d document
	s.do(http.MethodPost, "/api/v2/remotes", text(map[string]any{
		"name": name, "orgID": s.org.ID, "remoteURL": "sqlite:" + name + ".db", "remoteAPIToken": "",
	}), http.StatusCreated, &d)
	return d
}

// replication makes a replication of the default bucket.
func (s *site) replication(name string, remote document, more map[string]any) document {
	s.t.Helper()
	body := map[string]any{"name": name, "orgID": s.org.ID, "remoteID": remote.id(), "localBucketID": s.bucket.ID, "remoteBucketName": "main"}
	for k, v := range more {
		body[k] = v
	}
	var d document
	s.do(http.MethodPost, "/api/v2/replications", text(body), http.StatusCreated, &d)
	return d
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// eventually waits until a condition holds.
func (s *site) eventually(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("after a minute: %s\n%s", what, s.log.String())
		}
	}
}
