package influx_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
)

var env testenv.Env

var seedFlag = flag.Uint64("seed", 0, "replay a randomised test with this seed")

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // the tests wait for servers most of the time
	flag.Parse()
	os.Exit(env.Main(m))
}

// seeded returns random numbers whose seed is printed, and can be given by -seed.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// rig is a stream, from its queue through a real loop to a remote.
type rig struct {
	t       testing.TB
	dir     string
	letters *deadletter.Store
	target  *influx.Target
	store   *queue.Store
	streams *influxlogical.Streams
	stream  *influxlogical.Stream
	closed  bool
}

func newRig(t testing.TB, dir string, cfg influx.Config, loop logical.Config) *rig {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	r := &rig{t: t, dir: dir}
	var err error
	r.letters, err = deadletter.Open(deadletter.Config{Path: filepath.Join(dir, deadletter.FileName)})
	must(t, err)
	cfg.DeadLetters, cfg.Logger, cfg.ID = r.letters, log, "one"
	if cfg.Bucket == "" {
		cfg.Bucket = "b"
	}
	r.target, err = influx.Open(cfg)
	must(t, err)
	factory, err := loops.NewFactory(loops.FactoryConfig{Holder: "test", Log: log})
	must(t, err)
	r.store, err = queue.OpenStore(queue.StoreConfig{Dir: filepath.Join(dir, "queues")})
	must(t, err)
	r.streams = influxlogical.NewStreams(influxlogical.Config{Factory: factory, Store: r.store, Installation: "test", Log: log})
	if loop.OnReject == "" {
		loop.OnReject = logical.RejectDeadLetter
	}
	if loop.RetryDelay == 0 {
		loop.RetryDelay = time.Millisecond
	}
	if loop.StandbyTimeout == 0 {
		loop.StandbyTimeout = 50 * time.Millisecond
	}
	if loop.RetryMax == 0 {
		loop.RetryMax = 20 * time.Millisecond
	}
	r.stream, err = r.streams.Add(t.Context(), influxlogical.StreamConfig{
		ID: "one", Bucket: "local", Loop: loop,
		Remote: influxlogical.Remote{Open: func(context.Context) (logical.Target, func(), error) { return r.target, func() {}, nil }},
	})
	must(t, err)
	t.Cleanup(r.close)
	return r
}

// close stops as a server does.
func (r *rig) close() {
	r.t.Helper()
	if r.closed {
		return
	}
	r.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, end := range []func() error{
		func() error { return r.streams.Close(ctx) }, r.store.Close, r.target.Close, r.letters.Close,
	} {
		if err := end(); err != nil {
			r.t.Error(err)
		}
	}
}

// write puts one write request into the queue.
func (r *rig) write(lines ...string) {
	r.t.Helper()
	var n lineprotocol.Normalizer
	res, err := n.Normalize(strings.NewReader(strings.Join(lines, "\n")), lineprotocol.Options{Now: time.Now()})
	must(r.t, err)
	must(r.t, r.streams.Write(context.Background(), "local", res.Blocks))
}

// settled waits until everything that was written is in the remote, or set aside.
func (r *rig) settled() influxlogical.Status {
	r.t.Helper()
	r.until("the stream does not settle", func(st influxlogical.Status) bool {
		point, ok := st.Loop.Point.(influxlogical.Stamp)
		return ok && point.Sequence >= st.Queue.LastSeq
	})
	return r.stream.Status()
}

// until waits for a state of the stream.
func (r *rig) until(what string, holds func(influxlogical.Status) bool) {
	r.t.Helper()
	eventually(r.t, func() string { return fmt.Sprintf("%s: %+v\n%+v", what, r.stream.Status().Loop, r.target.Facts()) },
		func() bool { return holds(r.stream.Status()) })
}

func eventually(t testing.TB, what func() string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal(what())
		}
		<-time.After(2 * time.Millisecond)
	}
}

// aside returns the lines that were set aside, and the reasons.
func (r *rig) aside() (lines, reasons []string) {
	r.t.Helper()
	list, err := r.target.ListDeadLetters(context.Background(), "test/one", 0, 100_000)
	must(r.t, err)
	for _, l := range list {
		lines = append(lines, string(l.Payload))
		reasons = append(reasons, l.Reason)
	}
	return lines, reasons
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lines returns n lines of several series, with those that are bad marked.
func lines(from, n int, bad func(i int) bool) (all, good, rejected []string) {
	for i := from; i < from+n; i++ {
		if bad != nil && bad(i) {
			all = append(all, fmt.Sprintf("m,s=%d v=\"bad\" %d", i%5, i))
			rejected = append(rejected, all[len(all)-1])
			continue
		}
		all = append(all, fmt.Sprintf("m,s=%d v=%d.5 %d", i%5, i, i))
		good = append(good, all[len(all)-1])
	}
	return all, good, rejected
}

// sameLines compares without order.
func sameLines(t testing.TB, what string, got, want []string) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d lines, want %d\n got %.2000q\nwant %.2000q", what, len(got), len(want), got, want)
	}
}

// bothModes runs a test in serial mode and in fan mode.
func bothModes(t *testing.T, test func(t *testing.T, loop logical.Config)) {
	t.Helper()
	for name, loop := range map[string]logical.Config{"serial": {}, "fan": {Immediate: true, FanShards: 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, loop)
		})
	}
}
