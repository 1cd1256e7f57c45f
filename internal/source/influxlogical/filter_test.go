package influxlogical

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/lineprotocol/filter"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/logical"
)

func compileFilter(t *testing.T, c filter.Config) *filter.Filter {
	t.Helper()
	f, err := filter.Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// addPaused adds a stream whose queue the test reads.
func (r *rig) addPaused(id string, f *filter.Filter, limits queue.Limits) *Stream {
	r.t.Helper()
	s, err := r.streams.Add(r.t.Context(), StreamConfig{
		ID: id, Bucket: "b", Remote: remoteOf(r.target, r.dir), Filter: f, Loop: logical.Config{OnReject: logical.RejectDeadLetter},
		Queue: queue.Config{Limits: limits},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	s.Pause(r.t.Context())
	return s
}

// take returns the blocks that wait in a queue, and acknowledges them.
func (s *Stream) take(t *testing.T) (blocks []queue.Block) {
	t.Helper()
	reader, err := s.queue.Load().NewReader(s.queue.Load().Cursor())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	for s.queue.Load().Newest() > s.queue.Load().Cursor() {
		b, err := reader.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.Payload = slices.Clone(b.Payload)
		blocks = append(blocks, b)
		if err := s.queue.Load().Ack(b.Sequence); err != nil {
			t.Fatal(err)
		}
	}
	return blocks
}

func join(blocks []queue.Block) string {
	var b strings.Builder
	for _, block := range blocks {
		b.Write(block.Payload)
	}
	return b.String()
}

func TestFilteredPointsAreNotQueuedAndAreCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	defer r.close()
	cpu := r.addPaused("cpu", compileFilter(t, filter.Config{Measurements: filter.List{Include: []string{"cpu"}}}), queue.Limits{})
	none := r.addPaused("none", compileFilter(t, filter.Config{Measurements: filter.List{Include: []string{"x"}}}), queue.Limits{})
	all := r.addPaused("all", compileFilter(t, filter.Config{Measurements: filter.List{Include: []string{"*"}}}), queue.Limits{})
	r.write("cpu v=1 1\nmem v=1 2\ncpu v=2 3\n")
	r.write("mem v=1 4\n")
	for _, c := range []struct {
		stream   *Stream
		lines    string
		filtered uint64
		groups   uint64
	}{
		{cpu, "cpu v=1 1\ncpu v=2 3\n", 2, 1},
		{none, "", 4, 0},
		{all, "cpu v=1 1\nmem v=1 2\ncpu v=2 3\nmem v=1 4\n", 0, 2},
	} {
		st := c.stream.Status()
		if got := join(c.stream.take(t)); got != c.lines || st.Filtered != c.filtered || uint64(st.Queue.LastSeq) != c.groups {
			t.Errorf("%s: %d writes are queued, %q, and %d points are filtered; want %d, %q and %d",
				st.ID, st.Queue.LastSeq, got, st.Filtered, c.groups, c.lines, c.filtered)
		}
	}
	r.settled()
	if r.points("cpu") != 2 || r.points("mem") != 2 {
		t.Errorf("the stream without a filter has %d and %d points", r.points("cpu"), r.points("mem"))
	}
}

// ATOMIC: what passes of one write request, of several blocks, is one group, whose last block says so.
func TestAtomicGroupIsWhatPasses(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	defer r.close()
	odd := r.addPaused("odd", compileFilter(t, filter.Config{Tags: filter.List{Include: []string{"odd=1"}}}), queue.Limits{})
	var lines, want strings.Builder
	const n = 60_000 // some three blocks
	for i := range n {
		keep := i%2 == 1 && i < n-25_000 // nothing of the last block
		line := fmt.Sprintf("m,odd=%d,pad=%040d v=%di %d\n", map[bool]int{true: 1}[keep], i, i, i)
		lines.WriteString(line)
		if keep {
			want.WriteString(line)
		}
	}
	r.write(lines.String())
	got := odd.take(t)
	if join(got) != want.String() {
		t.Errorf("%d bytes are queued, want %d", len(join(got)), want.Len())
	}
	for i, b := range got {
		if b.Last != (i == len(got)-1) || b.Group != got[0].Group {
			t.Errorf("block %d of %d: last %v, group %d", i, len(got), b.Last, b.Group)
		}
	}
	if len(got) < 2 {
		t.Errorf("%d blocks", len(got))
	}
}

// ACKED: what was accepted for a stream stays, whatever its filter becomes.
func TestAckedWritesOutliveAChangeOfTheFilter(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	defer r.close()
	s := r.addPaused("s", nil, queue.Limits{})
	r.write("a v=1 1\nb v=1 1\n")
	s.SetFilter(compileFilter(t, filter.Config{Measurements: filter.List{Exclude: []string{"a"}}}))
	r.write("a v=1 2\nb v=1 2\n")
	s.SetFilter(nil)
	r.write("a v=1 3\nb v=1 3\n")
	if got := join(s.take(t)); got != "a v=1 1\nb v=1 1\nb v=1 2\na v=1 3\nb v=1 3\n" {
		t.Errorf("queued are %q", got)
	}
}

// A full queue refuses only what it would have to take.
func TestFullQueueDoesNotRefuseWhatItsFilterKeepsBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	defer r.close()
	s := r.addPaused("s", compileFilter(t, filter.Config{Measurements: filter.List{Include: []string{"a"}}}), queue.Limits{MaxBytes: 1 << 20})
	text := func(measurement string, i int) string {
		rnd := rand.New(rand.NewPCG(uint64(i), 1))
		b := []byte(measurement + ` v="`)
		for range 100_000 {
			b = append(b, byte('a'+rnd.IntN(26)))
		}
		return string(fmt.Appendf(b, "\" %d\n", i))
	}
	try := func(lines string) error {
		var n lineprotocol.Normalizer
		res, err := n.Normalize(strings.NewReader(lines), lineprotocol.Options{Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return r.streams.Write(t.Context(), "b", res.Blocks)
	}
	var full *queue.FullError
	for i := 0; full == nil && i < 100; i++ {
		if err := try(text("a", i)); err != nil && !errors.As(err, &full) {
			t.Fatal(err)
		}
	}
	if full == nil {
		t.Fatal("the queue does not become full")
	}
	before := s.Status().Filtered
	if err := try("b v=1 1\n"); err != nil {
		t.Errorf("a write that the stream does not take: %v", err)
	}
	if err := try(text("a", 1000) + "b v=1 2\n"); !errors.As(err, &full) {
		t.Errorf("a write that the stream takes in part: %v", err)
	}
	if got := s.Status().Filtered; got != before+1 {
		t.Errorf("%d points are counted, want 1: not those of a write that was refused", got-before)
	}
}

// A twin is one of two servers that replicate to each other: a stream of its own points, and one to its
// peer, which leaves out what bears the peer's origin.
type twin struct {
	*rig
	own, toPeer *Stream
	tag         *lineprotocol.AddedTag
	forwarded   int
}

func newTwin(t *testing.T, name, peer string) *twin {
	tag, err := lineprotocol.NewAddedTag("tailrace_origin", name)
	if err != nil {
		t.Fatal(err)
	}
	w := &twin{rig: newRig(t, t.TempDir()), tag: tag}
	w.own = w.addPaused("own", nil, queue.Limits{})
	w.toPeer = w.addPaused("to-"+peer, compileFilter(t, filter.Config{
		Tags: filter.List{Exclude: []string{"tailrace_origin=" + strings.ReplaceAll(peer, "*", `\*`)}},
	}), queue.Limits{})
	return w
}

// intake takes a request as the server does.
func (w *twin) intake(body string) {
	w.t.Helper()
	var n lineprotocol.Normalizer
	res, err := n.Normalize(strings.NewReader(body), lineprotocol.Options{Now: time.Now(), AddTag: w.tag})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.streams.Write(context.WithoutCancel(w.t.Context()), "b", res.Blocks); err != nil {
		w.t.Fatal(err)
	}
}

// forward sends what waits for the peer to it; now and then a request arrives twice, as over a poor network.
func (w *twin) forward(peer *twin, rnd *rand.Rand) {
	for _, b := range w.toPeer.take(w.t) {
		for range 1 + rnd.IntN(2) {
			peer.intake(string(b.Payload))
		}
		w.forwarded += b.Points
	}
}

// CONVERGE: two servers that replicate to each other come to rest, and hold the same points, each with the
// origin that it was written at.
func TestConvergeOfTwoServersThatReplicateToEachOther(t *testing.T) {
	t.Parallel()
	seed, _ := strconv.ParseUint(os.Getenv("TAILRACE_SEED"), 10, 64)
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with TAILRACE_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	a, b := newTwin(t, "plant a", "plant*b"), newTwin(t, "plant*b", "plant a")
	defer a.close()
	defer b.close()
	written := map[*twin]int{}
	for i := range 200 {
		w := a
		if rnd.IntN(2) == 0 {
			w = b
		}
		line := fmt.Sprintf("m\\ x,zone=%d,host=a\\,%d v=%di,s=\"a\\\"\nb\" %d\n", rnd.IntN(3), rnd.IntN(5), i, i)
		if rnd.IntN(4) == 0 {
			line = fmt.Sprintf("n v=%di\n", i) // without tags and time
		}
		w.intake(line)
		written[w]++
		if rnd.IntN(10) == 0 {
			a.forward(b, rnd)
		}
		if rnd.IntN(10) == 0 {
			b.forward(a, rnd)
		}
	}
	for range 2 {
		a.forward(b, rnd)
		b.forward(a, rnd)
	}
	if a.forwarded != written[a] || b.forwarded != written[b] {
		t.Errorf("%d and %d points went to the peer, %d and %d were written: none goes back, and none goes twice",
			a.forwarded, b.forwarded, written[a], written[b])
	}
	if n := a.toPeer.queue.Load().Stats().UnsentBytes + b.toPeer.queue.Load().Stats().UnsentBytes; n > 0 {
		t.Errorf("%d bytes still go around", n)
	}
	set := func(w *twin) []string {
		var lines []string
		split := lineprotocol.NewSplitter(strings.NewReader(join(w.own.take(t))))
		for {
			line, err := split.Next()
			if errors.Is(err, io.EOF) {
				slices.Sort(lines)
				return slices.Compact(lines)
			}
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(line.Text))
		}
	}
	have, other := set(a), set(b)
	if !slices.Equal(have, other) || len(have) != written[a]+written[b] {
		t.Errorf("%d and %d points, want %d", len(have), len(other), written[a]+written[b])
	}
	for _, line := range have {
		if strings.Count(line, "tailrace_origin=") != 1 {
			t.Errorf("%q has no origin, or several", line)
		}
	}
}
