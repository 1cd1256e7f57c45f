package deadletter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func letter(loop string, n int) logical.DeadLetter {
	return logical.DeadLetter{
		Loop: loop, Stamp: json.RawMessage(fmt.Sprintf(`{"seq":%d}`, n)), Table: "cpu", Key: []byte{0, byte(n), 255},
		Op: logical.OpPatch, Payload: fmt.Appendf(nil, "cpu v=\"\x00é\" %d", n), Reason: "no \xff fit",
		Time: time.Unix(5, int64(n)).UTC(),
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDurableThereAfterAReopen lists from stored state what was set aside, unchanged.
func TestDurableThereAfterAReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "with space?", FileName)
	check(t, os.Mkdir(filepath.Dir(path), 0o700))
	first := open(t, path)
	want := []logical.DeadLetter{letter("a", 1), letter("a", 2), letter("b", 1), letter("a", 3)}
	check(t, first.SetAside(t.Context(), want))
	check(t, first.Close())
	s := open(t, path)
	got, err := s.ListDeadLetters(t.Context(), "a", 0, 2)
	check(t, err)
	more, err := s.ListDeadLetters(t.Context(), "a", got[len(got)-1].ID, 10)
	check(t, err)
	got = append(got, more...)
	if len(got) != 3 {
		t.Fatalf("%d letters, want 3", len(got))
	}
	var size int64
	for i, w := range []logical.DeadLetter{want[0], want[1], want[3]} {
		size += w.Size()
		g := got[i]
		if !bytes.Equal(g.Payload, w.Payload) || !bytes.Equal(g.Key, w.Key) || string(g.Stamp) != string(w.Stamp) ||
			g.Op != w.Op || g.Table != w.Table || g.Loop != "a" || !g.Time.Equal(w.Time) || g.Reason != "no \uFFFD fit" {
			t.Errorf("letter %d is %+v, want %+v", i, g, w)
		}
	}
	if n, b, err := s.CountDeadLetters(t.Context(), "a"); err != nil || n != 3 || b != size {
		t.Errorf("%d letters of %d bytes, %v; want 3 of %d: what the loop counts", n, b, err, size)
	}
	files, err := filepath.Glob(path + "*")
	check(t, err)
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
}

// TestLetterIsKeptOnce sets the same aside twice, as after a crash before the consistent point moved.
func TestLetterIsKeptOnce(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), FileName))
	again := letter("a", 1)
	again.Reason, again.Time = "other words", time.Now()
	for _, l := range []logical.DeadLetter{letter("a", 1), again, letter("a", 1)} {
		check(t, s.SetAside(t.Context(), []logical.DeadLetter{l, letter("a", 2)}))
	}
	bare := logical.DeadLetter{Loop: "a", Table: "m", Op: logical.OpUpsert, Reason: "x"}
	for range 2 {
		check(t, s.SetAside(t.Context(), []logical.DeadLetter{bare}))
	}
	list, err := s.ListDeadLetters(t.Context(), "a", 0, 10)
	check(t, err)
	if len(list) != 3 || list[2].Stamp != nil || list[2].Time.IsZero() {
		t.Errorf("%d letters: %+v", len(list), list)
	}
}

func TestLettersOfLoopsAreApart(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), FileName))
	check(t, s.SetAside(t.Context(), []logical.DeadLetter{letter("a", 1), letter("b", 1), letter("b", 2)}))
	list, err := s.ListDeadLetters(t.Context(), "a", 0, 10)
	check(t, err)
	check(t, s.DiscardDeadLetters(t.Context(), "b", []int64{list[0].ID}))
	check(t, s.Forget(t.Context(), "b"))
	for loop, want := range map[string]int64{"a": 1, "b": 0, "nobody": 0} {
		if n, _, err := s.CountDeadLetters(t.Context(), loop); err != nil || n != want {
			t.Errorf("%s has %d letters, want %d, %v", loop, n, want, err)
		}
	}
	check(t, s.DiscardDeadLetters(t.Context(), "a", []int64{list[0].ID}))
	check(t, s.SetAside(t.Context(), []logical.DeadLetter{letter("a", 1)})) // rejected again after a replay
	after, err := s.ListDeadLetters(t.Context(), "a", 0, 10)
	check(t, err)
	if len(after) != 1 || after[0].ID <= list[0].ID {
		t.Errorf("ids are used again: %+v", after)
	}
}

func TestStreamsShareTheStore(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), FileName))
	var all sync.WaitGroup
	for loop := range 8 {
		all.Go(func() {
			for n := range 20 {
				if err := s.SetAside(t.Context(), []logical.DeadLetter{letter(fmt.Sprint(loop), n)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for loop := range 8 {
		if n, _, err := s.CountDeadLetters(t.Context(), fmt.Sprint(loop)); err != nil || n != 20 {
			t.Errorf("loop %d has %d letters, %v", loop, n, err)
		}
	}
}

// TestBrokenFileHeals lets the store find something else in its place, which an operator then takes away.
func TestBrokenFileHeals(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), FileName)
	check(t, os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600))
	s := open(t, path)
	err := s.SetAside(t.Context(), []logical.DeadLetter{letter("a", 1)})
	if err == nil || logical.ClassOf(err) != logical.ClassRetry || logical.HintOf(err) == "" || !strings.Contains(err.Error(), path) {
		t.Fatalf("got %v", err)
	}
	check(t, os.Remove(path))
	check(t, s.SetAside(t.Context(), []logical.DeadLetter{letter("a", 1)}))
	check(t, s.Close())
	if err := s.SetAside(t.Context(), []logical.DeadLetter{letter("a", 2)}); err == nil {
		t.Error("a closed store takes letters")
	}
}

// TestExchangedInItsOwnPlace: NOTHING SILENT. A letter that is refused again stays, with the new reason.
func TestExchangedInItsOwnPlace(t *testing.T) {
	t.Parallel()
	s, err := Open(Config{Path: filepath.Join(t.TempDir(), FileName)})
	check(t, err)
	defer func() { check(t, s.Close()) }()
	l := letter("a", 1)
	check(t, s.SetAside(t.Context(), []logical.DeadLetter{l, letter("a", 2)}))
	list, err := s.ListDeadLetters(t.Context(), "a", 0, 10)
	check(t, err)
	l.Reason = "refused again"
	check(t, s.Exchange(t.Context(), "a", []int64{list[0].ID}, []logical.DeadLetter{l}))
	after, err := s.ListDeadLetters(t.Context(), "a", 0, 10)
	check(t, err)
	if len(list) != 2 || len(after) != 2 || after[1].Reason != "refused again" || after[1].ID == list[0].ID || string(after[1].Payload) != string(l.Payload) {
		t.Errorf("there were %+v, and are %+v", list, after)
	}
}
