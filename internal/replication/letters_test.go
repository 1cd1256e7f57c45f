package replication

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
)

// TestNothingSilentLettersOfAFormerTarget moves a stream that has dead letters: it says that they are in the old
// database, until it goes there again.
func TestNothingSilentLettersOfAFormerTarget(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a, b := s.file("a"), s.file("b")
	st := s.stream("moving", a)
	s.point(1)
	must(t, s.write("m v=\"text\" 5\n"))
	s.until(st.ID, "there is no letter", func(st Status) bool { return st.DeadLetters == 1 })
	move := func(to metadata.Remote) {
		t.Helper()
		_, err := s.service.UpdateStream(t.Context(), st.ID, func(x *metadata.Stream) error { x.RemoteID = to.ID; return nil })
		must(t, err)
	}
	move(b)
	s.point(2)
	s.until(st.ID, "the new target does not count", func(st Status) bool { return st.LettersKnown && st.UnsentBytes == 0 })
	if got := s.service.Status(t.Context(), st.ID); got.DeadLetters != 0 || got.Notice != string(influxlogical.NoticeLetters) || !strings.Contains(got.Advice, "remote again") {
		t.Errorf("the status is %+v", got)
	}
	if !s.log.says("dead letters stay in its old target", "deadLetters=1") {
		t.Error("the log says nothing")
	}
	move(a)
	s.until(st.ID, "the letter is not there again", func(st Status) bool { return st.DeadLetters == 1 && st.Notice == "" })
	if n, err := s.service.EachLetter(t.Context(), st.ID, nil, s.service.DropLetters); n != 1 || err != nil {
		t.Errorf("%d letters were dropped, %v", n, err)
	}
	move(b)
	if got := s.service.Status(t.Context(), st.ID); got.Notice != "" {
		t.Errorf("no letter is left, and it says %q", got.Notice)
	}
}

// TestLettersOfAPausedStreamAreCounted starts with a stream that is paused, so that nothing has asked its target.
func TestLettersOfAPausedStreamAreCounted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	st, dead := s.stream("up", s.file("a")), s.stream("dead", s.dead())
	s.point(1)
	must(t, s.write("m v=\"text\" 5\n"))
	s.until(st.ID, "there is no letter", func(st Status) bool { return st.DeadLetters == 1 })
	for _, id := range []metadata.ID{st.ID, dead.ID} {
		_, err := s.service.Pause(t.Context(), id, true)
		must(t, err)
	}
	s.restart()
	s.until(st.ID, "the letter is not counted", func(st Status) bool { return st.LettersKnown && st.DeadLetters == 1 && st.Mode == "paused" })
	if got := s.service.Status(t.Context(), dead.ID); got.LettersKnown {
		t.Errorf("a target that cannot be reached is counted: %+v", got)
	}
}

// TestReplayGoesOnBehindWhatStays replays more letters than are handled at a time, some of which are rejected again.
func TestReplayGoesOnBehindWhatStays(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	st := s.stream("up", s.file("a"))
	const n = 2*lettersAtOnce + 100
	s.point(1)
	s.settled(st.ID)
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "m v=\"text %d\" %d\n", i, 10_000+i)
	}
	for i := range 20 {
		fmt.Fprintf(&lines, "m v=\"text\",w=1i %d\n", 90_000+i) // w is to be text
	}
	must(t, s.write("m w=\"text\" 1\n"))
	s.settled(st.ID)
	must(t, s.write(lines.String()))
	s.until(st.ID, "they are not set aside", func(st Status) bool { return st.DeadLetters == n+20 && st.UnsentBytes == 0 })
	s.execute(filepath.Join(s.dir, "a.db"), "ALTER TABLE m DROP COLUMN v")
	done, err := s.service.EachLetter(t.Context(), st.ID, nil, s.service.ReplayLetters)
	stayed := new(StayedError)
	if done != n || !errors.As(err, &stayed) || len(stayed.Reasons) != 20 || !strings.Contains(err.Error(), "and 10 more") {
		t.Fatalf("%d were replayed, %v", done, err)
	}
	if got := s.rows("a", "SELECT count(v) FROM m"); got != n {
		t.Errorf("%d points, want %d", got, n)
	}
	s.until(st.ID, "the others are not counted", func(st Status) bool { return st.DeadLetters == 20 })
}

// execute changes a database from outside.
func (s *site) execute(path, statement string) {
	s.t.Helper()
	db, err := driver.Open("file:" + path + "?_pragma=busy_timeout(10000)")
	must(s.t, err)
	defer func() { _ = db.Close() }()
	_, err = db.Exec(statement)
	must(s.t, err)
}
