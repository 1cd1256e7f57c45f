package influx_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// open opens a target on a remote, with a store for dead letters.
func open(t testing.TB, url string) *influx.Target {
	t.Helper()
	letters, err := deadletter.Open(deadletter.Config{Path: filepath.Join(t.TempDir(), deadletter.FileName)})
	must(t, err)
	target, err := influx.Open(influx.Config{URL: url, Bucket: "b", DeadLetters: letters})
	must(t, err)
	t.Cleanup(func() {
		must(t, target.Close())
		must(t, letters.Close())
	})
	return target
}

func TestConformanceOfDeadLetters(t *testing.T) {
	t.Parallel()
	f := newFake(t, "v2.7.1")
	logicaltest.RunDeadLetters(t, func(t testing.TB) logical.Target { return open(t, f.URL) })
}

// mutations makes mutations of lines that are of one series each.
func mutations(lines ...string) []logical.Mutation {
	rel := &logical.Relation{Name: "m", Points: true}
	var muts []logical.Mutation
	for _, l := range lines {
		muts = append(muts, logical.Mutation{Op: logical.OpPatch, Relation: rel, Route: 1, Raw: []byte(l)})
	}
	return muts
}

func take(t testing.TB, target logical.Target, holder string) logical.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := target.Take(ctx, logical.Claim{Loop: "loop", Holder: holder, TTL: time.Minute})
	must(t, err)
	return s
}

func begin(t testing.TB, s logical.Session) logical.Tx {
	t.Helper()
	x, err := s.Begin(t.Context())
	must(t, err)
	return x
}

func wantFenced(t testing.TB, what string, err error) {
	t.Helper()
	if err == nil || logical.ClassOf(err) != logical.ClassFenced {
		t.Errorf("%s: got %v, want an error of class fenced", what, err)
	}
}

// TestFencedAsFarAsHTTPGoes: an old session begins nothing any more, and a fence waits for what is in flight.
func TestFencedAsFarAsHTTPGoes(t *testing.T) {
	t.Parallel()
	f := newFake(t, "v2.7.1")
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	f.behave(func(_ http.ResponseWriter, _ *http.Request, lines []string) bool {
		if slices.Contains(lines, "slow v=1 1") {
			held <- struct{}{}
			<-hold
		}
		return false
	})
	target := open(t, f.URL)
	s := take(t, target, "me")
	early, slow := begin(t, s), begin(t, s)
	sent := make(chan error, 1)
	go func() { sent <- slow.Apply(context.Background(), mutations("slow v=1 1")) }()
	<-held
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Fence(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a fence does not wait for what is in flight: %v", err)
	}
	fenced := make(chan error, 1)
	go func() { fenced <- s.Fence(context.Background()) }()
	close(hold)
	must(t, <-sent)
	must(t, slow.Commit(t.Context())) // it has sent, and ends as it would have
	must(t, <-fenced)
	wantFenced(t, "a transaction begun before the fence", early.Apply(t.Context(), mutations("early v=1 1")))
	must(t, early.Rollback(t.Context()))
	x := begin(t, s)
	must(t, x.Apply(t.Context(), mutations("m v=1 1")))

	young := take(t, openSame(t, target, x), "me")
	wantFenced(t, "the old session", s.SaveMemo(t.Context(), logical.MemoState{}))
	_, err := s.Begin(t.Context())
	wantFenced(t, "the old session's Begin", err)
	<-s.Lost()
	must(t, s.Release(t.Context()))
	select {
	case <-young.Lost():
		t.Error("the new session is lost by the old one's release")
	default:
	}
	y := begin(t, young)
	must(t, y.Apply(t.Context(), mutations("m v=2 2")))
	must(t, y.Commit(t.Context()))
	if got := f.inside(); !slices.Equal(got, []string{"slow v=1 1", "m v=1 1", "m v=2 2"}) {
		t.Errorf("in the remote: %q", got)
	}
}

// openSame ends a transaction soon, for which a takeover has to wait.
func openSame(t testing.TB, target *influx.Target, x logical.Tx) *influx.Target {
	time.AfterFunc(20*time.Millisecond, func() { _ = x.Rollback(context.Background()) })
	return target
}

func TestLeaseKeepsAnotherHolderOut(t *testing.T) {
	t.Parallel()
	target := open(t, newFake(t, "v2.7.1").URL)
	s := take(t, target, "one")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := target.Take(short, logical.Claim{Loop: "loop", Holder: "two"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another holder got the lease, or: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { _ = s.Release(context.Background()) })
	two := take(t, target, "two")
	must(t, two.Release(t.Context()))
	must(t, target.Close())
	if _, err := target.Take(t.Context(), logical.Claim{Loop: "loop"}); err == nil {
		t.Error("a closed target takes loops over")
	}
	if err := two.SaveMemo(t.Context(), logical.MemoState{}); err == nil {
		t.Error("a closed target takes memos")
	}
}

func TestCancelledContextLeavesTheTargetUsable(t *testing.T) {
	t.Parallel()
	f := newFake(t, "v2.7.1")
	target := open(t, f.URL)
	s := take(t, target, "me")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	x := begin(t, s)
	must(t, x.Apply(t.Context(), mutations("m v=1 1")))
	if err := x.Apply(gone, mutations("m v=2 2")); !errors.Is(err, context.Canceled) {
		t.Errorf("Apply returned %v", err)
	}
	if err := x.Commit(t.Context()); err == nil {
		t.Error("a transaction whose Apply failed was committed")
	}
	must(t, x.Rollback(gone))
	if _, err := s.LoadMemo(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("LoadMemo returned %v", err)
	}
	if _, err := target.Take(gone, logical.Claim{Loop: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Take returned %v", err)
	}
	x = begin(t, s)
	must(t, x.Apply(t.Context(), mutations("m v=3 3")))
	must(t, x.Apply(t.Context(), nil))
	must(t, x.Commit(t.Context()))
	if got := f.inside(); !slices.Equal(got, []string{"m v=1 1", "m v=3 3"}) {
		t.Errorf("in the remote: %q", got)
	}
}

// TestReplayedLetterIsTakenBackWhenItsLineIsSent sends a line again that was set aside.
func TestReplayedLetterIsTakenBackWhenItsLineIsSent(t *testing.T) {
	t.Parallel()
	f := newFake(t, "v2.7.1")
	target := open(t, f.URL)
	s := take(t, target, "me")
	x := begin(t, s)
	muts := mutations("m v=1 1", "m v=2 2")
	for i := range muts {
		must(t, x.SetAside(t.Context(), []logical.DeadLetter{logical.NewDeadLetter(&muts[i], "loop", nil, i, errors.New("no"), time.Now())}))
	}
	must(t, x.Commit(t.Context()))
	list, err := target.ListDeadLetters(t.Context(), "loop", 0, 10)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	for _, commit := range []bool{false, true} {
		x = begin(t, s)
		again := mutations(string(list[0].Payload))
		again[0].Op = logical.OpFill
		must(t, x.Apply(t.Context(), again))
		must(t, x.TakeBack(t.Context(), []int64{list[0].ID}))
		if commit {
			must(t, x.Commit(t.Context()))
		} else {
			must(t, x.Rollback(t.Context()))
		}
		if n, _, err := target.CountDeadLetters(t.Context(), "loop"); err != nil || n != 2 && !commit || n != 1 && commit {
			t.Errorf("committed %v: %d letters, %v", commit, n, err)
		}
	}
	if got := f.inside(); !slices.Equal(got, []string{"m v=1 1"}) {
		t.Errorf("in the remote: %q", got)
	}
}

// TestOrderIsNotSkippedOver fails attempts behind a stored beginning, and sends something newer of the series in
// between: what was stored must then be sent again, or the older one would stay.
func TestOrderIsNotSkippedOver(t *testing.T) {
	t.Parallel()
	f := newFake(t, "v2.7.1")
	letters, err := deadletter.Open(deadletter.Config{Path: filepath.Join(t.TempDir(), deadletter.FileName)})
	must(t, err)
	defer func() { must(t, letters.Close()) }()
	target, err := influx.Open(influx.Config{URL: f.URL, Bucket: "b", MaxRequestBytes: 10, DeadLetters: letters})
	must(t, err)
	defer func() { must(t, target.Close()) }()
	s := take(t, target, "me")
	try := func(lines ...string) error {
		x := begin(t, s)
		err := x.Apply(t.Context(), mutations(lines...))
		if err != nil {
			must(t, x.Rollback(t.Context()))
			return err
		}
		return x.Commit(t.Context())
	}
	f.behave(func(w http.ResponseWriter, r *http.Request, l []string) bool {
		return slices.Contains(l, "m v=3 1") && say(500, "")(w, r, l)
	})
	sent := func() (all []string) {
		for _, w := range f.writes() {
			all = append(all, w.lines...)
		}
		return all
	}
	if try("m v=1 1", "m v=2 1", "m v=3 1") == nil {
		t.Fatal("it did not fail")
	}
	f.behave(nil)
	must(t, try("m v=1 1", "m v=2 1", "m v=3 1")) // goes on behind what is stored
	if got, want := sent(), []string{"m v=1 1", "m v=2 1", "m v=3 1", "m v=3 1"}; !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	must(t, try("m v=1 1", "m v=2 1", "m v=3 1")) // new, and the same: all of it is sent
	if n := len(sent()); n != 7 {
		t.Errorf("%d lines were sent, want 7", n)
	}
	f.behave(func(w http.ResponseWriter, r *http.Request, l []string) bool {
		return slices.Contains(l, "m v=3 1") && say(500, "")(w, r, l)
	})
	if try("m v=1 1", "m v=2 1", "m v=3 1") == nil {
		t.Fatal("it did not fail")
	}
	f.behave(nil)
	must(t, try("m v=9 1"))
	must(t, try("m v=1 1", "m v=2 1"))
	if got := sent(); !slices.Equal(got[len(got)-3:], []string{"m v=9 1", "m v=1 1", "m v=2 1"}) {
		t.Errorf("sent %q: the last ones were skipped although something newer lies over them", got)
	}
}

// TestNothingSilentRejectedBeforeAFailure rejects a line, and fails behind it: the next attempt must not take it for
// stored.
func TestNothingSilentRejectedBeforeAFailure(t *testing.T) {
	t.Parallel()
	f := newFake(t, "v2.7.1")
	target, err := influx.Open(influx.Config{URL: f.URL, Bucket: "b", MaxRequestBytes: 10})
	must(t, err)
	defer func() { must(t, target.Close()) }()
	s := take(t, target, "me")
	broken := true
	f.behave(func(w http.ResponseWriter, r *http.Request, l []string) bool {
		switch {
		case slices.Contains(l, "bad v=2 1"):
			return say(400, `{"code":"invalid","message":"unable to parse it"}`)(w, r, l)
		case slices.Contains(l, "m v=3 1") && broken:
			broken = false
			return say(500, "")(w, r, l)
		}
		return false
	})
	muts := mutations("m v=1 1", "bad v=2 1", "m v=3 1")
	x := begin(t, s)
	if err := x.Apply(t.Context(), muts); logical.ClassOf(err) != logical.ClassRetry || err == nil {
		t.Fatalf("got %v", err)
	}
	must(t, x.Rollback(t.Context()))
	x = begin(t, s)
	err = x.Apply(t.Context(), muts)
	if list := logical.RejectedOf(err); len(list) != 1 || list[0].Index != 1 {
		t.Errorf("got %v, rejected %v", err, list)
	}
	must(t, x.Rollback(t.Context()))
	sameLines(t, "in the remote", f.inside(), []string{"m v=1 1", "m v=3 1"})
}
