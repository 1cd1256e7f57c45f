package replication

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/target/postgres"
	"github.com/tailrace-cdc/tailrace/internal/target/sqlite"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
)

var env testenv.Env

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// A site is an installation: it can be stopped and started anew on its directory.
type site struct {
	t       testing.TB
	dir     string
	key     []byte
	flush   time.Duration
	patient bool // loops wait between their tries as they do by default
	log     *logBuffer
	store   *metadata.Store
	queues  *queue.Store
	streams *influxlogical.Streams
	service *Service
	reg     *prometheus.Registry
	org     metadata.Org
	bucket  metadata.Bucket
	running bool
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), key: bytes.Repeat([]byte{1}, metadata.KeySize), flush: 10 * time.Second, log: &logBuffer{}}
	s.start()
	var err error
	s.org, err = s.service.CreateOrg(t.Context(), metadata.Org{Name: "org"})
	must(t, err)
	s.bucket, err = s.service.CreateBucket(t.Context(), metadata.Bucket{OrgID: s.org.ID, Name: "bucket"})
	must(t, err)
	t.Cleanup(s.stop)
	return s
}

// start starts what is in the directory.
func (s *site) start() {
	s.t.Helper()
	s.open()
	must(s.t, s.service.Start(s.t.Context()))
}

// open is start up to the streams.
func (s *site) open() {
	s.t.Helper()
	log := slog.New(slog.NewTextHandler(s.log, nil))
	var err error
	s.store, err = metadata.Open(s.t.Context(), metadata.Config{Path: filepath.Join(s.dir, "metadata.db"), Key: s.key})
	must(s.t, err)
	s.queues, err = queue.OpenStore(queue.StoreConfig{Dir: filepath.Join(s.dir, "replicationq")})
	must(s.t, err)
	s.reg = prometheus.NewRegistry()
	metrics, err := loops.NewMetrics(s.reg)
	must(s.t, err)
	factory, err := loops.NewFactory(loops.FactoryConfig{Holder: s.dir, Log: log, Metrics: metrics})
	must(s.t, err)
	s.streams = influxlogical.NewStreams(influxlogical.Config{Factory: factory, Store: s.queues, Installation: s.dir, Log: log})
	must(s.t, s.reg.Register(s.streams.Collector()))
	s.service = New(Config{
		Installation: s.dir, Store: s.store, Streams: s.streams, Log: log, FlushWithin: s.flush,
		Limits: remote.Limits{DataDir: s.dir, SQLiteDir: s.dir, Reserved: []string{"metadata.db", "replicationq"}},
		Loop:   logical.Config{OnReject: logical.RejectDeadLetter, RetryDelay: time.Millisecond, RetryMax: 20 * time.Millisecond, StandbyTimeout: 50 * time.Millisecond},
		Queue:  queue.Config{IdleAfter: 300 * time.Millisecond},
		Open:   openTarget,
	})
	if s.patient {
		s.service.config.Loop.RetryDelay, s.service.config.Loop.RetryMax = 0, 0
	}
	s.running = true
}

// openTarget opens databases. The password "refuse" makes opening fail.
func openTarget(ctx context.Context, c remote.Connection) (logical.Target, error) {
	if c.Secret == "refuse" {
		return nil, &logical.Error{Err: fmt.Errorf("the settings make no sense"), Hint: "correct them"}
	}
	if c.Address.Kind == remote.Postgres {
		return postgres.Open(ctx, postgres.Config{DSN: c.Address.Text})
	}
	return sqlite.Open(ctx, sqlite.Config{Path: c.Address.Path})
}

// stop stops as a server does.
func (s *site) stop() {
	s.t.Helper()
	if !s.running {
		return
	}
	s.running = false
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s.service.Close()
	for _, stop := range []func() error{func() error { return s.streams.Close(ctx) }, s.queues.Close, s.store.Close} {
		if err := stop(); err != nil {
			s.t.Error(err)
		}
	}
	if n := s.service.pool.Len(); n > 0 {
		s.t.Errorf("%d targets are still open", n)
	}
}

func (s *site) restart() {
	s.t.Helper()
	s.stop()
	s.start()
}

// file makes a remote that is a file of that name.
func (s *site) file(name string) metadata.Remote {
	s.t.Helper()
	r, err := s.service.CreateRemote(s.t.Context(), metadata.Remote{OrgID: s.org.ID, Name: name, URL: "sqlite:" + name + ".db"})
	must(s.t, err)
	return r
}

// dead makes a remote at which nobody listens.
func (s *site) dead() metadata.Remote {
	s.t.Helper()
	r, err := s.service.CreateRemote(s.t.Context(), metadata.Remote{OrgID: s.org.ID, Name: "dead", URL: "postgres://nobody@127.0.0.1:1/nothing"})
	must(s.t, err)
	return r
}

// stream makes a stream from the bucket to a remote.
func (s *site) stream(name string, r metadata.Remote) metadata.Stream {
	s.t.Helper()
	st, err := s.service.CreateStream(s.t.Context(), metadata.Stream{OrgID: s.org.ID, Name: name, BucketID: s.bucket.ID, RemoteID: r.ID})
	must(s.t, err)
	return st
}

// write writes lines to the bucket.
func (s *site) write(lines string) error {
	var n lineprotocol.Normalizer
	res, err := n.Normalize(strings.NewReader(lines), lineprotocol.Options{Now: time.Now()})
	if err != nil {
		return err
	}
	return s.streams.Write(s.t.Context(), s.bucket.ID.String(), res.Blocks)
}

// point writes the n-th point.
func (s *site) point(n int) {
	s.t.Helper()
	must(s.t, s.write(fmt.Sprintf("m v=%di %d\n", n, 1000+n)))
}

// settled waits until everything has landed, and the queue knows.
func (s *site) settled(id metadata.ID) {
	s.t.Helper()
	s.until(id, "it does not settle", func(st Status) bool { return st.UnsentBytes == 0 })
}

func (s *site) until(id metadata.ID, what string, holds func(Status) bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		st := s.service.Status(s.t.Context(), id)
		if holds(st) {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %+v\n%s", what, st, s.log.String())
		}
	}
}

// rows counts what a query finds in the file of a remote; a table that is not there has none.
func (s *site) rows(name, query string) (n int) {
	s.t.Helper()
	dsn := url.URL{Scheme: "file", Opaque: url.PathEscape(filepath.Join(s.dir, name+".db")), RawQuery: "mode=ro"}
	db, err := driver.Open(dsn.String())
	must(s.t, err)
	defer func() { _ = db.Close() }()
	var count sql.NullInt64
	if err := db.QueryRow(query).Scan(&count); err != nil && !strings.Contains(err.Error(), "no such table") {
		s.t.Fatal(err)
	}
	return int(count.Int64)
}

// queueDirs returns the names of the directories of queues.
func (s *site) queueDirs() (names []string) {
	s.t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.dir, "replicationq"))
	must(s.t, err)
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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

// says reports whether a line of the log has all of these texts.
func (l *logBuffer) says(texts ...string) bool {
	for line := range strings.Lines(l.String()) {
		all := true
		for _, text := range texts {
			all = all && strings.Contains(line, text)
		}
		if all {
			return true
		}
	}
	return false
}
