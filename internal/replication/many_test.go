package replication

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

var seedFlag = flag.Uint64("seed", 0, "replay a randomised test with this seed")

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// TestManyHandsAtOnce has streams created, changed, moved, paused and deleted by several callers while
// their bucket is written to. Afterwards what runs is what is stored, each stream that is left has all
// that was written since it was made, and no directory is left over.
func TestManyHandsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	files := []metadata.Remote{s.file("a"), s.file("b"), s.file("c")}
	anchor := s.stream("anchor", s.file("anchor"))
	rng := seeded(t)
	ctx, stop := context.WithCancel(t.Context())
	var hands, writer sync.WaitGroup
	written := 0
	writer.Go(func() {
		for ctx.Err() == nil {
			s.point(written)
			written++
		}
	})
	for hand := range 6 {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 0))
		hands.Go(func() {
			for step := range testenv.Count(15, 300) {
				s.act(rng, fmt.Sprintf("%d-%d", hand, step), files)
			}
		})
	}
	hands.Wait()
	stop()
	writer.Wait()
	for range 2 {
		streams, err := s.service.Streams(t.Context(), metadata.StreamFilter{})
		must(t, err)
		var stored []string
		for _, st := range streams {
			if _, err := s.service.Pause(t.Context(), st.ID, false); err != nil {
				t.Error(err)
			}
			stored = append(stored, st.ID.String())
			s.settled(st.ID)
		}
		var runs []string
		for _, stream := range s.streams.All() {
			runs = append(runs, stream.ID())
		}
		dirs := s.queueDirs()
		for _, list := range [][]string{stored, runs, dirs} {
			slices.Sort(list)
		}
		if !slices.Equal(stored, runs) || !slices.Equal(stored, dirs) {
			t.Errorf("stored are %q, running %q, queues %q", stored, runs, dirs)
		}
		s.restart()
	}
	if n := s.rows("anchor", countM); n != written {
		t.Errorf("the stream that nobody touched has %d of %d points", n, written)
	}
	_ = anchor
}

// act does something to a random stream.
func (s *site) act(rng *rand.Rand, name string, files []metadata.Remote) {
	ctx := context.Background()
	streams, err := s.service.Streams(ctx, metadata.StreamFilter{})
	if err != nil {
		s.t.Error(err)
		return
	}
	streams = slices.DeleteFunc(streams, func(st metadata.Stream) bool { return st.Name == "anchor" })
	to := files[rng.IntN(len(files))]
	if len(streams) < 3 {
		if _, err := s.service.CreateStream(ctx, metadata.Stream{OrgID: s.org.ID, Name: name, BucketID: s.bucket.ID, RemoteID: to.ID}); err != nil {
			s.t.Error(err)
		}
		return
	}
	st := streams[rng.IntN(len(streams))]
	switch rng.IntN(6) {
	case 0:
		err = s.service.DeleteStream(ctx, st.ID)
	case 1, 2:
		_, err = s.service.UpdateStream(ctx, st.ID, func(x *metadata.Stream) error { x.RemoteID = to.ID; return nil })
	case 3:
		_, err = s.service.Pause(ctx, st.ID, rng.IntN(2) == 0)
	case 4:
		_, err = s.service.UpdateRemote(ctx, to.ID, func(r *metadata.Remote) error { r.Secret = name; return nil })
	case 5:
		s.service.Status(ctx, st.ID)
		s.service.Health()
	}
	if gone := new(metadata.NotFoundError); err != nil && !errors.As(err, &gone) {
		s.t.Errorf("%s: %v", st.Name, err)
	}
}

// TestManyStreamsAreCheap has many streams, without and with a dead target for each fifth of them, all
// being written to: the writes of the others get through (ISOLATED), and a stream costs few goroutines, and no
// file descriptor while it is idle. How long writes took is printed, and to be read.
func TestManyStreamsAreCheap(t *testing.T) {
	for name, every := range map[string]int{"all well": 0, "a fifth is dead": 5} {
		t.Run(name, func(t *testing.T) { manyStreams(t, every) }) // not parallel: it counts what the process has
	}
}

func manyStreams(t *testing.T, deadEvery int) {
	s := newSite(t)
	s.patient = true
	s.restart()
	n := testenv.Count(60, 1000)
	r, dead := s.file("a"), s.dead()
	s.stream("first", r)
	s.point(0)
	goroutines, descriptors, heap := runtime.NumGoroutine(), openFiles(t), liveHeap()
	var well, ill []metadata.Bucket
	for i := range n {
		b, err := s.service.CreateBucket(t.Context(), metadata.Bucket{OrgID: s.org.ID, Name: fmt.Sprintf("b%d", i)})
		must(t, err)
		to := r
		if deadEvery > 0 && i%deadEvery == 0 {
			to, ill = dead, append(ill, b)
		} else {
			well = append(well, b)
		}
		_, err = s.service.CreateStream(t.Context(), metadata.Stream{OrgID: s.org.ID, Name: fmt.Sprintf("s%d", i), BucketID: b.ID, RemoteID: to.ID})
		must(t, err)
	}
	const rounds = 3
	var took []time.Duration
	for round := range rounds {
		for i, b := range well {
			s.bucket = b
			begun := time.Now()
			must(t, s.write(fmt.Sprintf("m,b=%s v=1i %d\n", b.Name, round+1)))
			took = append(took, time.Since(begun))
			if i < len(ill) {
				s.bucket = ill[i]
				must(t, s.write(fmt.Sprintf("m,b=%s v=1i %d\n", ill[i].Name, round+1)))
			}
		}
	}
	arrived := func() int { return s.rows("a", "SELECT count(*) FROM m WHERE b IS NOT NULL") }
	for deadline := time.Now().Add(5 * time.Minute); arrived() != rounds*len(well); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d points have arrived", arrived(), rounds*len(well))
		}
	}
	for _, b := range ill {
		streams, err := s.service.Streams(t.Context(), metadata.StreamFilter{BucketID: b.ID})
		must(t, err)
		if st := s.service.Status(t.Context(), streams[0].ID); st.UnsentBytes == 0 || st.LastError == "" {
			t.Fatalf("a stream with a dead target is %+v", st)
		}
	}
	slices.Sort(took)
	at := func(thousandths int) time.Duration {
		return took[len(took)*thousandths/1000].Round(10 * time.Microsecond)
	}
	per := float64(runtime.NumGoroutine()-goroutines) / float64(n)
	t.Logf("%d streams, %d of them with a dead target: %d writes to the others took 50 %% %v, 90 %% %v, 99 %% %v, 99.9 %% %v, all %v; "+
		"each stream has %.1f goroutines and %d kB of heap; %d file descriptors are open after the writes",
		n, len(ill), len(took), at(500), at(900), at(990), at(999), took[len(took)-1].Round(10*time.Microsecond),
		per, (liveHeap()-heap)/int64(n)/1024, openFiles(t)-descriptors)
	if per > 16 {
		t.Errorf("%.1f goroutines per stream", per)
	}
	// The queues close their files when they have been idle for a while.
	defer func() { t.Logf("idle, they have %d file descriptors open", openFiles(t)-descriptors) }()
	for deadline := time.Now().Add(2 * time.Minute); openFiles(t) > descriptors+20; <-time.After(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d file descriptors are open, %d were before there were %d idle streams", openFiles(t), descriptors, n)
		}
	}
}

// liveHeap returns the bytes of the heap that are in use.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

// TestInstallationsShareADatabase has many installations, each with a stream of one name, write the same
// keys at times of their own into one PostgreSQL: none touches another's memo, lease or rows.
func TestInstallationsShareADatabase(t *testing.T) {
	t.Parallel()
	dsn := env.Postgres(t)
	const writes = 20
	sites := make([]*site, testenv.Count(8, 50))
	streams := make([]metadata.Stream, len(sites))
	for i := range sites {
		s := newSite(t)
		r, err := s.service.CreateRemote(t.Context(), metadata.Remote{OrgID: s.org.ID, Name: "default", URL: dsn})
		must(t, err)
		sites[i], streams[i] = s, s.stream("default", r)
	}
	var all sync.WaitGroup
	for i, s := range sites {
		all.Go(func() {
			for n := range writes {
				if err := s.write(fmt.Sprintf("m,site=%d v=%di %d\n", i, n, 1000*(n+1))); err != nil {
					t.Error(err)
				}
				if n == writes/2 && i%2 == 0 {
					s.restart()
				}
			}
			s.settled(streams[i].ID)
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	db, err := sql.Open("pgx", dsn)
	must(t, err)
	defer func() { _ = db.Close() }()
	count := func(query string) (n int) {
		must(t, db.QueryRow(query).Scan(&n))
		return n
	}
	if n := count("SELECT count(*) FROM m"); n != writes*len(sites) {
		t.Errorf("%d points, want %d", n, writes*len(sites))
	}
	if n := count("SELECT count(*) FROM (SELECT site FROM m GROUP BY site HAVING count(*) = " + itoa(writes) + ") x"); n != len(sites) {
		t.Errorf("%d installations have all of their points", n)
	}
	for _, table := range []string{"memo", "leases", "epochs"} {
		if n := count("SELECT count(*) FROM _tailrace." + table); n != len(sites) {
			t.Errorf("%d rows in %s, want one for each installation", n, table)
		}
	}
	must(t, sites[0].service.DeleteStream(t.Context(), streams[0].ID))
	if n := count("SELECT count(*) FROM _tailrace.memo"); n != len(sites)-1 {
		t.Errorf("after one stream was deleted there are %d memos, want %d", n, len(sites)-1)
	}
	for i, s := range sites {
		if st := s.streams.Get(streams[i].ID.String()); i > 0 && st.Status().Notice != influxlogical.Notice("") {
			t.Errorf("installation %d says %q", i, st.Status().Notice)
		}
	}
}
