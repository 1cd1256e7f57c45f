package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/lineprotocol/filter"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/server"
	"github.com/tailrace-cdc/tailrace/internal/server/certificate"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/internal/target/sqlite"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A plant is a server in this process: over HTTPS, with a bucket "b" that has a stream into SQLite and may
// have streams to other plants.
type plant struct {
	t       *testing.T
	name    string
	url     string
	db      string
	ca      string
	client  *http.Client
	streams *influxlogical.Streams
	links   []*influxlogical.Stream
}

const plantToken = "the-plants-token"

// Bucket and Write implement server.Intake.
func (p *plant) Bucket(_ context.Context, _, ref string) (server.Bucket, error) {
	if ref != "b" {
		return server.Bucket{}, &server.UnknownBucketError{Ref: ref}
	}
	return server.Bucket{ID: "b", Name: "b"}, nil
}

func (p *plant) Write(ctx context.Context, bucket string, blocks []lineprotocol.Block) error {
	return p.streams.Write(ctx, bucket, blocks)
}

func newPlant(t *testing.T, safe *safe, name string) *plant {
	t.Helper()
	dir := t.TempDir()
	p := &plant{t: t, name: name, db: filepath.Join(dir, "target.db"), ca: safe.ca.File(t, dir), client: safe.client(t)}
	log := slog.New(slog.DiscardHandler)
	target, err := sqlite.Open(t.Context(), sqlite.Config{Path: p.db, Logger: log})
	must(t, err)
	store, err := queue.OpenStore(queue.StoreConfig{Dir: filepath.Join(dir, "queues")})
	must(t, err)
	factory, err := loops.NewFactory(loops.FactoryConfig{Holder: name, Log: log})
	must(t, err)
	p.streams = influxlogical.NewStreams(influxlogical.Config{Factory: factory, Store: store, Installation: name, Log: log})
	_, err = p.streams.Add(t.Context(), influxlogical.StreamConfig{ID: "own", Bucket: "b", Remote: opened(target), Loop: plantLoop()})
	must(t, err)
	keeper, err := certificate.Open(certificate.Config{Certificate: safe.cert, PrivateKey: safe.key, Log: log})
	must(t, err)
	origin, err := lineprotocol.NewAddedTag("tailrace_origin", name)
	must(t, err)
	s, err := server.New(server.Config{BindAddr: "127.0.0.1:0", TLS: keeper.TLS(), Origin: origin}, server.Deps{
		Intake: p, Log: log, Authorizer: server.NewTokens(map[string]server.Principal{plantToken: {Name: "plant", Grants: []server.Grant{{Action: server.Write, Type: "buckets", ID: "b"}}}}),
	})
	must(t, err)
	must(t, s.Listen())
	p.url = "https://" + s.Addr().String()
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		for _, end := range []func() error{
			func() error { return p.streams.Close(ctx) }, store.Close, target.Close,
			func() error { return s.Shutdown(ctx) }, func() error { return <-served },
		} {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened is a remote whose target is open already.
func opened(target logical.Target) influxlogical.Remote {
	return influxlogical.Remote{Open: func(context.Context) (logical.Target, func(), error) { return target, func() {}, nil }}
}

func plantLoop() logical.Config {
	return logical.Config{OnReject: logical.RejectDeadLetter, RetryDelay: 10 * time.Millisecond, StandbyTimeout: 50 * time.Millisecond}
}

// linkTo adds a stream to another plant that leaves out what was first written there.
func (p *plant) linkTo(peer *plant) {
	p.t.Helper()
	target, err := influx.Open(influx.Config{
		ID: "to-" + peer.name, URL: peer.url, Kind: influx.V2, Org: "o", Bucket: "b", Token: plantToken, CAFile: peer.ca,
	})
	must(p.t, err)
	p.t.Cleanup(func() { _ = target.Close() })
	f, err := filter.Compile(filter.Config{Tags: filter.List{Exclude: []string{"tailrace_origin=" + peer.name}}})
	must(p.t, err)
	s, err := p.streams.Add(p.t.Context(), influxlogical.StreamConfig{
		ID: "to-" + peer.name, Bucket: "b", Remote: opened(target), Filter: f, Loop: plantLoop(),
	})
	must(p.t, err)
	p.links = append(p.links, s)
}

func (p *plant) write(lines string) {
	p.t.Helper()
	req, err := http.NewRequest(http.MethodPost, p.url+"/api/v2/write?bucket=b", strings.NewReader(lines))
	if err != nil {
		p.t.Error(err)
		return
	}
	req.Header.Set("Authorization", "Token "+plantToken)
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Error(err)
		return
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		p.t.Errorf("answer %s", resp.Status)
	}
}

// sent returns how many points were queued for other plants, and whether any still wait.
func (p *plant) sent() (points uint64, waiting bool) {
	for _, s := range p.links {
		st := s.Status()
		points += st.Queue.AppendedPoints
		waiting = waiting || st.Queue.UnsentBytes > 0
	}
	return points, waiting
}

// rows returns all rows of a table, as text.
func (p *plant) rows(db *sql.DB) (rows []string) {
	p.t.Helper()
	result, err := db.QueryContext(p.t.Context(), "SELECT concat_ws('|', time, hex(series), host, tailrace_origin, v, s) FROM m ORDER BY 1")
	must(p.t, err)
	defer func() { _ = result.Close() }()
	for result.Next() {
		var row string
		must(p.t, result.Scan(&row))
		rows = append(rows, row)
	}
	must(p.t, result.Err())
	return rows
}

// CONVERGE: servers that replicate to each other over HTTP, two of them both ways or three in a ring, come
// to rest and hold the same points.
func TestConvergeOfServersThatReplicateToEachOther(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			const writers, writes = 3, 40
			safe := newSafe(t)
			plants := make([]*plant, n)
			for i := range plants {
				plants[i] = newPlant(t, safe, fmt.Sprintf("plant %c", 'a'+i))
			}
			for i, p := range plants {
				p.linkTo(plants[(i+1)%n])
			}
			var writing sync.WaitGroup
			for i, p := range plants {
				for w := range writers {
					writing.Go(func() {
						for k := range writes {
							p.write(fmt.Sprintf("m,host=h\\ %d.%d v=%di,s=\"a\\\"b\\\\c\nd\" %d\n", i, w, k, 1_700_000_000_000_000_000+k))
						}
					})
				}
			}
			writing.Wait()
			const total = writers * writes
			var all [][]string
			for _, p := range plants {
				db := openSQLite(t, p.db)
				eventually(t, 2*time.Minute, "a table does not appear", func() bool { return count(t, db, "SELECT count(*) FROM sqlite_master WHERE name = 'm'") == 1 })
				awaitCount(t, db, "SELECT count(*) FROM m", n*total)
				all = append(all, p.rows(db))
			}
			eventually(t, 2*time.Minute, "points still go around", func() bool {
				return !slices.ContainsFunc(plants, func(p *plant) bool { _, waiting := p.sent(); return waiting })
			})
			for i, p := range plants {
				if !slices.Equal(all[i], all[0]) {
					t.Errorf("%s has other rows than %s", p.name, plants[0].name)
				}
				// Each point passes each link but the last one before its origin. It does so once, but for
				// requests that were answered too late and came again, which a ring passes on.
				want := uint64((n - 1) * total)
				if points, _ := p.sent(); points < want || n == 2 && points > want || points > 2*want {
					t.Errorf("%s sent %d points, want %d", p.name, points, want)
				}
			}
			byOrigin := map[string]int{}
			for _, row := range all[0] {
				byOrigin[strings.Split(row, "|")[3]]++
			}
			for _, p := range plants {
				if byOrigin[p.name] != total {
					t.Errorf("%d points are by %s, want %d", byOrigin[p.name], p.name, total)
				}
			}
		})
	}
}
