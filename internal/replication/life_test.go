package replication

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
)

const countM = "SELECT count(*) FROM m"

func TestStreamsComeBackAfterARestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.stream("a", s.file("a")), s.stream("b", s.file("b"))
	_, err := s.service.Pause(t.Context(), b.ID, true)
	must(t, err)
	s.point(1)
	s.settled(a.ID)
	s.restart()
	s.point(2)
	s.settled(a.ID)
	if st := s.service.Status(t.Context(), b.ID); st.State != StatePaused || st.Mode != "paused" || st.UnsentBytes == 0 || !st.Stalled {
		t.Errorf("the paused stream is %+v", st)
	}
	if n := s.rows("a", countM); n != 2 {
		t.Errorf("%d points have arrived, want 2", n)
	}
	_, err = s.service.Pause(t.Context(), b.ID, false)
	must(t, err)
	s.settled(b.ID)
	if n := s.rows("b", countM); n != 2 {
		t.Errorf("%d points have arrived, want 2", n)
	}
	if s.log.says("belongs to no stream") {
		t.Error("a queue is taken for an orphan")
	}
}

// TestAnotherTargetStartsAtTheCursor moves a stream to and fro while it is written to: each point is in
// one of the targets (those in flight may be in both), and none is missing.
func TestAnotherTargetStartsAtTheCursor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.file("a"), s.file("b")
	st := s.stream("moving", a)
	const moves, writes = 6, 20
	n := 0
	for move := range moves {
		for range writes {
			s.point(n)
			n++
		}
		to := b
		if move%2 == 1 {
			to = a
		}
		if move == 2 {
			s.restart()
		}
		_, err := s.service.UpdateStream(t.Context(), st.ID, func(x *metadata.Stream) error { x.RemoteID = to.ID; return nil })
		must(t, err)
	}
	s.point(n)
	n++
	s.settled(st.ID)
	seen := map[int]bool{}
	for _, file := range []string{"a", "b"} {
		for v := range n {
			if s.rows(file, "SELECT count(*) FROM m WHERE v = "+itoa(v)) > 0 {
				seen[v] = true
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d of %d points are anywhere", len(seen), n)
	}
	if st := s.service.Status(t.Context(), st.ID); st.Notice != "" {
		t.Errorf("the stream says %q: the old target has not forgotten it", st.Notice)
	}
	if memos := s.rows("a", "SELECT count(*) FROM _tailrace_memo") + s.rows("b", "SELECT count(*) FROM _tailrace_memo"); memos != 1 {
		t.Errorf("there are %d memos, want that of the present target", memos)
	}
}

func TestUpdatesTakeEffectWhileTheStreamRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	st := s.stream("up", s.file("a"))
	s.point(1)
	s.settled(st.ID)
	size, policy, age, window, shards := int64(2<<20), "dropOldest", int64(3600), 7*time.Minute, 3
	st, err := s.service.UpdateStream(t.Context(), st.ID, func(x *metadata.Stream) error {
		x.Name, x.MaxQueueBytes, x.QueueFullPolicy, x.MaxAgeSeconds, x.BackfillWindow, x.FanShards = "renamed", &size, &policy, age, &window, &shards
		return nil
	})
	must(t, err)
	stream := s.streams.Get(st.ID.String())
	if got := stream.Status(); got.Name != "renamed" || got.Queue.Limit != size {
		t.Errorf("the stream runs as %+v", got)
	}
	want := Effective{MaxQueueBytes: size, QueueFullPolicy: policy, OnReject: "deadLetter", BackfillWindow: window, FanShards: shards, BytesInFlight: 10 << 20}
	if got := s.service.Effective(st); got != want {
		t.Errorf("in force is %+v, want %+v", got, want)
	}
	s.point(2)
	s.settled(st.ID)
	// null gives the server's settings back.
	st, err = s.service.UpdateStream(t.Context(), st.ID, func(x *metadata.Stream) error {
		x.MaxQueueBytes, x.QueueFullPolicy, x.BackfillWindow, x.FanShards = nil, nil, nil, nil
		return nil
	})
	must(t, err)
	if got := stream.Status(); got.Queue.Limit != queue.DefaultMaxBytes || s.service.Effective(st).QueueFullPolicy != "refuse" {
		t.Errorf("the stream runs as %+v", got)
	}
	if n := s.rows("a", countM); n != 2 {
		t.Errorf("%d points have arrived, want 2", n)
	}
}

func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.file("a")
	st := s.stream("up", r)
	small, bad, negative, no := int64(5), "sometimes", -time.Second, 0
	for field, change := range map[string]func(*metadata.Stream){
		"maxQueueSizeBytes": func(x *metadata.Stream) { x.MaxQueueBytes = &small },
		"queueFullPolicy":   func(x *metadata.Stream) { x.QueueFullPolicy = &bad },
		"onReject":          func(x *metadata.Stream) { x.OnReject = &bad },
		"backfillWindow":    func(x *metadata.Stream) { x.BackfillWindow = &negative },
		"fanShards":         func(x *metadata.Stream) { x.FanShards = &no },
		"bytesInFlight":     func(x *metadata.Stream) { x.BytesInFlight = &small },
		"maxAgeSeconds":     func(x *metadata.Stream) { x.MaxAgeSeconds = -1 },
	} {
		_, err := s.service.UpdateStream(t.Context(), st.ID, func(x *metadata.Stream) error { change(x); return nil })
		created := metadata.Stream{OrgID: s.org.ID, Name: "new", BucketID: s.bucket.ID, RemoteID: r.ID}
		change(&created)
		_, err2 := s.service.CreateStream(t.Context(), created)
		for _, err := range []error{err, err2} {
			if invalid := new(metadata.InvalidError); !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("%s: got %v, want an error about it", field, err)
			}
		}
	}
	if dirs := s.queueDirs(); len(dirs) != 1 {
		t.Errorf("there are the queues %q: one was made for a stream that was not", dirs)
	}
}

func TestCreatingIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.file("a")
	s.stream("up", r)
	_, err := s.service.CreateStream(t.Context(), metadata.Stream{OrgID: s.org.ID, Name: "up", BucketID: s.bucket.ID, RemoteID: r.ID})
	if conflict := new(metadata.ConflictError); !errors.As(err, &conflict) {
		t.Errorf("the second stream of a name: %v", err)
	}
	if dirs := s.queueDirs(); len(dirs) != 1 {
		t.Errorf("there are the queues %q", dirs)
	}
	s.point(1)
}

// TestCrashBetweenTheStepsHurtsNobody leaves what crashes leave, and starts.
func TestCrashBetweenTheStepsHurtsNobody(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.file("a")
	kept, going := s.stream("kept", r), s.stream("going", r)
	s.point(1)
	s.settled(kept.ID)
	s.settled(going.ID)
	// Created, and not stored.
	half := s.store.NewStreamID().String()
	must(t, s.streams.MakeQueue(influxlogical.StreamConfig{ID: half}))
	// Deleted, and not removed; and a bucket with its stream.
	_, err := s.store.RetireStream(t.Context(), going.ID)
	must(t, err)
	other, err := s.service.CreateBucket(t.Context(), metadata.Bucket{OrgID: s.org.ID, Name: "other"})
	must(t, err)
	_, err = s.service.CreateStream(t.Context(), metadata.Stream{OrgID: s.org.ID, Name: "of other", BucketID: other.ID, RemoteID: r.ID})
	must(t, err)
	_, err = s.store.RetireBucket(t.Context(), other.ID)
	must(t, err)
	// And a queue of nobody that holds something.
	foreign := s.store.NewStreamID().String()
	s.stop()
	fillQueue(t, filepath.Join(s.dir, "replicationq", foreign))
	fillQueue(t, filepath.Join(s.dir, "replicationq", "a copy"))

	s.start()
	s.eventually("what was being deleted is left", func() bool {
		left, err := s.store.Streams(t.Context(), metadata.StreamFilter{Deleting: true})
		must(t, err)
		return len(left) == 0 && len(s.service.directory.Load().all) == 1
	})
	want := []string{kept.ID.String(), foreign, "a copy"}
	slices.Sort(want)
	if dirs := s.queueDirs(); !slices.Equal(dirs, want) {
		t.Errorf("the queues are %q, want %q", dirs, want)
	}
	if !s.log.says("an empty queue that belongs to no stream was removed", half) || !s.log.says("holds what was never sent", foreign) {
		t.Errorf("the log does not say so:\n%s", s.log.String())
	}
	if n := len(s.service.Buckets()); n != 1 {
		t.Errorf("%d buckets, want 1", n)
	}
	if memos := s.rows("a", "SELECT count(*) FROM _tailrace_memo"); memos != 1 {
		t.Errorf("%d memos, want that of the stream that is there", memos)
	}
	s.point(2)
	s.settled(kept.ID)
	if n := s.rows("a", countM); n != 2 {
		t.Errorf("%d points, want 2", n)
	}
}

// fillQueue makes a queue with something in it.
func fillQueue(t *testing.T, dir string) {
	t.Helper()
	q, err := queue.Open(queue.Config{Dir: dir})
	must(t, err)
	var g queue.Group
	must(t, g.Add(queue.KindLineProtocol, 1, []byte("m v=1 1\n")))
	room, err := q.Reserve(&g)
	must(t, err)
	_, _, err = q.Append(t.Context(), room, &g)
	must(t, err)
	must(t, q.Close())
}

// notices sums up how often something was said about the position of a stream.
func (s *site) notices() (sum float64) {
	s.t.Helper()
	families, err := s.reg.Gather()
	must(s.t, err)
	for _, family := range families {
		if family.GetName() == "replications_queue_notices_total" {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// TestQueueThatIsMissingIsSaid, NOTHING SILENT, takes a queue away while the server is stopped.
func TestQueueThatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	st := s.stream("up", s.file("a"))
	s.point(1)
	s.settled(st.ID)
	s.stop()
	must(t, os.RemoveAll(filepath.Join(s.dir, "replicationq", st.ID.String())))
	s.start()
	s.point(2)
	s.settled(st.ID)
	if got := s.service.Status(t.Context(), st.ID); got.Notice == "" || got.Advice == "" {
		t.Errorf("the status says nothing: %+v", got)
	}
	if n := s.notices(); n == 0 {
		t.Error("no metric says so")
	}
	if !s.log.says("the queue of a stream was not there", st.ID.String()) {
		t.Error("the log says nothing")
	}
	if n := s.rows("a", countM); n != 2 {
		t.Errorf("%d points, want 2: no acknowledged write is skipped", n)
	}
}

// TestDeletingFlushesAndLeavesNothing deletes a stream with much in its queue, and a dead letter.
func TestDeletingFlushesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.file("a")
	st, other := s.stream("going", a), s.stream("staying", s.file("b"))
	s.point(0)
	must(t, s.write("m v=\"text\" 5\n"))
	for n := 1; n < 200; n++ {
		s.point(n)
	}
	must(t, s.service.DeleteStream(t.Context(), st.ID))
	if n := s.rows("a", countM); n != 200 {
		t.Errorf("%d points have arrived, want all 200", n)
	}
	for _, table := range []string{"_tailrace_memo", "_tailrace_loops WHERE holder <> '' OR expires > 0", "_tailrace_dead_letters"} {
		if n := s.rows("a", "SELECT count(*) FROM "+table); n != 0 {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	if dirs := s.queueDirs(); len(dirs) != 1 || dirs[0] != other.ID.String() {
		t.Errorf("the queues are %q", dirs)
	}
	families, err := s.reg.Gather()
	must(t, err)
	for _, family := range families {
		for _, m := range family.Metric {
			for _, label := range m.Label {
				if label.GetValue() == st.ID.String() {
					t.Errorf("the series %s %v is left", family.GetName(), m.Label)
				}
			}
		}
	}
	if _, err := s.service.Stream(t.Context(), st.ID); err == nil {
		t.Error("the stream is still there")
	}
	if !s.log.says("stream deleted with data that was not in its target", "deadLetters=1") {
		t.Errorf("the dead letter is lost in silence:\n%s", s.log.String())
	}
	must(t, s.service.DeleteRemote(t.Context(), a.ID))
	s.point(200)
	s.settled(other.ID)
}

// TestDeletingDoesNotWaitForADeadTarget says what is lost.
func TestDeletingDoesNotWaitForADeadTarget(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.stop()
	s.flush = time.Hour
	s.start()
	st := s.stream("up", s.dead())
	for n := range 5 {
		s.point(n)
	}
	s.until(st.ID, "it does not fail", func(st Status) bool { return st.LastError != "" })
	must(t, s.service.DeleteStream(t.Context(), st.ID))
	if !s.log.says("stream deleted with data", "reason=deleted", "unsentPoints=5") {
		t.Errorf("what is lost is not said:\n%s", s.log.String())
	}
	if dirs := s.queueDirs(); len(dirs) != 0 {
		t.Errorf("the queues are %q", dirs)
	}
	if err := s.write("m v=1 1\n"); !errors.Is(err, influxlogical.ErrNoStream) {
		t.Errorf("a write to a bucket without a stream: %v", err)
	}
}

func TestDeletingABucketDeletesItsStreams(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.stream("a", s.file("a"))
	s.stream("b", s.dead())
	s.point(1)
	must(t, s.service.DeleteBucket(t.Context(), s.bucket.ID))
	if n := s.rows("a", countM); n != 1 {
		t.Errorf("%d points, want 1", n)
	}
	streams, err := s.service.Streams(t.Context(), metadata.StreamFilter{})
	if err != nil || len(streams) != 0 || len(s.queueDirs()) != 0 || len(s.service.Buckets()) != 0 {
		t.Errorf("%d streams, %v, queues %q, %d buckets", len(streams), err, s.queueDirs(), len(s.service.Buckets()))
	}
	s.restart()
}

func TestStreamsShareTargets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.file("a")
	a, b := s.stream("a", r), s.stream("b", r)
	if n := s.service.pool.Len(); n != 1 {
		t.Errorf("%d targets for one remote", n)
	}
	must(t, s.service.DeleteStream(t.Context(), a.ID))
	s.point(1)
	s.settled(b.ID)
	must(t, s.service.DeleteStream(t.Context(), b.ID))
	if n := s.service.pool.Len(); n != 0 {
		t.Errorf("%d targets for nobody", n)
	}
}

func TestPurgeIsDeclared(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	st := s.stream("up", s.dead())
	for n := range 7 {
		s.point(n)
	}
	got, err := s.service.Purge(t.Context(), st.ID)
	if err != nil || got.Points != 7 {
		t.Errorf("purged %+v, %v; want 7 points", got, err)
	}
	if status := s.service.Status(t.Context(), st.ID); status.Lost["purge"] != 7 || status.UnsentBytes != 0 {
		t.Errorf("the status is %+v", status)
	}
	if !s.log.says("queue purged", "points=7") {
		t.Error("the log says nothing")
	}
}
