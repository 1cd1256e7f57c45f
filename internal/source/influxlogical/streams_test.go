package influxlogical

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/target/sqlite"
	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is an installation with one stream into SQLite.
type rig struct {
	t       *testing.T
	dir     string
	target  *sqlite.Target
	store   *queue.Store
	streams *Streams
	stream  *Stream
}

func newRig(t *testing.T, dir string) *rig {
	t.Helper()
	target, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "target.db")})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	factory, err := loops.NewFactory(loops.FactoryConfig{Holder: "test", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, dir: dir, target: target}
	r.store, err = queue.OpenStore(queue.StoreConfig{Dir: filepath.Join(dir, "queues")})
	if err != nil {
		t.Fatal(err)
	}
	r.streams = NewStreams(Config{Factory: factory, Store: r.store, Installation: "test", Log: log})
	r.stream, err = r.streams.Add(t.Context(), StreamConfig{
		ID: "one", Bucket: "b", Remote: remoteOf(target, dir),
		Loop: logical.Config{OnReject: logical.RejectDeadLetter, RetryDelay: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// remoteOf is a remote whose target is open.
func remoteOf(target logical.Target, place string) Remote {
	return Remote{Place: place, Connection: place, Open: func(context.Context) (logical.Target, func(), error) {
		return target, func() {}, nil
	}}
}

// close stops as a server does.
func (r *rig) close() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.streams.Close(ctx); err != nil {
		r.t.Error(err)
	}
	if err := r.store.Close(); err != nil {
		r.t.Error(err)
	}
	if err := r.target.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) write(lines string) {
	r.t.Helper()
	var n lineprotocol.Normalizer
	res, err := n.Normalize(strings.NewReader(lines), lineprotocol.Options{Now: time.Now()})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.streams.Write(r.t.Context(), "b", res.Blocks); err != nil {
		r.t.Fatal(err)
	}
}

// settled waits until everything that was written has landed.
func (r *rig) settled() Status {
	r.t.Helper()
	for {
		loop := r.stream.loop.Load()
		changed := loop.Changed()
		st := r.stream.Status()
		if point, ok := st.Loop.Point.(Stamp); ok && point.Sequence >= st.Queue.LastSeq {
			return st
		}
		select {
		case <-changed:
		case <-r.t.Context().Done():
			r.t.Fatal("the stream did not settle")
		}
	}
}

func (r *rig) points(measurement string) int64 {
	r.t.Helper()
	list, err := r.target.Measurements(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range list {
		if m.Name == measurement {
			return m.Points
		}
	}
	return 0
}

func TestStreamResumesFromStoredState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for run := range 3 {
		r := newRig(t, dir)
		for i := range 50 {
			r.write(fmt.Sprintf("m,run=%d v=%di %d\n", run, i, 1000+i))
		}
		st := r.settled()
		if want := int64(50 * (run + 1)); r.points("m") != want {
			t.Errorf("run %d: %d points, want %d", run, r.points("m"), want)
		}
		if st.Loop.Mutations != 50 {
			t.Errorf("run %d: %d mutations landed, want 50: none twice", run, st.Loop.Mutations)
		}
		r.close()
	}
}

// TestAckedAfterTheDataDirectoryWasRestored lets the target know more than the queue: what is written then
// must not be taken for what the target has.
func TestAckedAfterTheDataDirectoryWasRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, dir)
	r.write("m v=1i 1\n")
	r.settled()
	r.close()
	backup := filepath.Join(t.TempDir(), "queues")
	if err := os.CopyFS(backup, os.DirFS(filepath.Join(dir, "queues"))); err != nil {
		t.Fatal(err)
	}
	r = newRig(t, dir)
	for i := range 50 {
		r.write(fmt.Sprintf("m v=1i %d\n", 10+i))
	}
	r.settled()
	r.close()
	if err := os.RemoveAll(filepath.Join(dir, "queues")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "queues"), os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	for run := range 2 {
		r = newRig(t, dir)
		for i := range 5 {
			r.write(fmt.Sprintf("m v=1i %d\n", 1000+10*run+i))
		}
		st := r.settled()
		if want := int64(51 + 5*(run+1)); r.points("m") != want {
			t.Errorf("run %d: %d points, want %d", run, r.points("m"), want)
		}
		if behind := st.Notice == NoticeBehind; behind != (run == 0) {
			t.Errorf("run %d: the notice is %q", run, st.Notice)
		}
		r.close()
	}
}

func TestRejectedPointIsSetAsideAndTheRestGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	defer r.close()
	r.write("m v=1i 1\n")
	r.settled()
	r.write("m v=2i 2\nm v=\"text\" 3\nm v=4i 4\nm v=\"more\" 5\n")
	st := r.settled()
	letters, err := r.target.ListDeadLetters(t.Context(), "test/one", 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if r.points("m") != 3 || st.Loop.Rejected != 2 || len(letters) != 2 {
		t.Fatalf("%d points, %d rejected, %d letters; want 3, 2, 2", r.points("m"), st.Loop.Rejected, len(letters))
	}
	if got := string(letters[0].Payload); got != `m v="text" 3` {
		t.Errorf("the letter holds %q, want the line as it came", got)
	}
}

func TestTransactionLargerThanTheBudgetArrivesWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	defer r.close()
	r.stream.Pause(t.Context())
	r.stream.change(func(c *StreamConfig) { c.Loop.BytesInFlight = logical.MinBytesInFlight })
	if err := r.stream.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	var lines []byte
	const n = 20_000
	for i := range n {
		lines = fmt.Appendf(lines, "big,host=h%d v=%di,w=%d.5 %d\n", i%10, i, i, i)
	}
	lines = fmt.Appendf(lines, "big v=\"text\" 1\n") // rejected, in the last part
	r.write(string(lines))
	st := r.settled()
	if r.points("big") != n || st.Loop.Rejected != 1 {
		t.Errorf("%d points, %d rejected; want %d and 1", r.points("big"), st.Loop.Rejected, n)
	}
	if st.Loop.Err != nil {
		t.Errorf("the loop says %v", st.Loop.Err)
	}
}
