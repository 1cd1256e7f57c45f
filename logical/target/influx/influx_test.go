package influx_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/deadletter"
	"github.com/tailrace-cdc/tailrace/logical/factory"
	"github.com/tailrace-cdc/tailrace/logical/target/influx"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// log is a source of lines, with a cursor of its own.
type log struct {
	lines  []string
	cursor atomic.Int64
}

type offset int64

func (o offset) Compare(other logical.Stamp) int { return int(o - other.(offset)) }

func (l *log) ZeroStamp() logical.Stamp { return offset(l.cursor.Load()) }

func (l *log) DecodeStamp(stored []byte) (logical.Stamp, error) {
	var o offset
	err := json.Unmarshal(stored, &o)
	return o, err
}

func (l *log) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	for n := from.(offset) + 1; int(n) <= len(l.lines); n++ {
		if err := out.Send(ctx, logical.Message{Body: n, Size: len(l.lines[n-1])}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

var measurement = &logical.Relation{Name: "m", Points: true}

func (l *log) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	for {
		msg, err := in.Receive(ctx)
		if err == nil && msg.Rollback {
			err = events.OnRollback(ctx)
		} else if err == nil {
			n := msg.Body.(offset)
			if err = events.OnBegin(ctx, n); err == nil {
				if err = events.OnData(ctx, []logical.Mutation{point(l.lines[n-1])}); err == nil {
					err = events.OnCommit(ctx)
				}
			}
		}
		if err != nil {
			return err
		}
	}
}

func point(line string) logical.Mutation {
	return logical.Mutation{Op: logical.OpPatch, Relation: measurement, Route: 1, Raw: []byte(line)}
}

func (l *log) Acknowledge(_ context.Context, stamp logical.Stamp) error {
	l.cursor.Store(int64(stamp.(offset)))
	return nil
}

func (l *log) Replay(letter logical.DeadLetter) (logical.Mutation, error) {
	m := point(string(letter.Payload))
	m.Op = logical.OpFill
	return m, nil
}

// remote takes lines, but none that is text until it is mended.
type remote struct {
	mended atomic.Bool
	mu     sync.Mutex
	stored []string
}

func (r *remote) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if !strings.HasSuffix(req.URL.Path, "/write") {
		return
	}
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		body = unzipped
	}
	text, err := io.ReadAll(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if strings.Contains(string(text), `"`) && !r.mended.Load() {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"code":"unprocessable entity","message":"field type conflict"}`)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = append(r.stored, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	w.WriteHeader(http.StatusNoContent)
}

func (r *remote) holds() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Clone(r.stored)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "; ")
}

// TestNothingSilentLettersOfARemote is what an embedding program does: a remote rejects points, they are kept in a file,
// also over a restart, and replayed or discarded when it has been looked at.
func TestNothingSilentLettersOfARemote(t *testing.T) {
	t.Parallel()
	r := &remote{}
	server := httptest.NewServer(r)
	defer server.Close()
	path := filepath.Join(t.TempDir(), "letters.db")
	source := &log{lines: []string{"m v=1 1", `m v="a" 2`, "m v=3 3", `m v="b" 4`, "m v=5 5"}}
	run := func(f func(loop *factory.Loop, letters *deadletter.Store)) {
		t.Helper()
		letters, err := deadletter.Open(deadletter.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		target, err := influx.Open(influx.Config{URL: server.URL, Kind: "2", Org: "o", Bucket: "b", DeadLetters: letters})
		if err != nil {
			t.Fatal(err)
		}
		loops, err := factory.New(factory.Config{
			Holder: "me", Target: target, Log: slog.New(slog.DiscardHandler),
			Loop: logical.Config{OnReject: logical.RejectDeadLetter, RetryDelay: time.Millisecond},
		})
		if err != nil {
			t.Fatal(err)
		}
		loop, err := loops.Get(t.Context(), factory.Spec{Name: "loop", Dialect: source})
		if err != nil {
			t.Fatal(err)
		}
		if err := loop.Wait(t.Context(), func(s factory.Status) bool { return s.Point == offset(len(source.lines)) && s.State == factory.Running }); err != nil {
			t.Fatal(err)
		}
		f(loop, letters)
		loops.Close(t.Context())
		if err := target.Close(); err != nil {
			t.Error(err)
		}
		if err := letters.Close(); err != nil {
			t.Error(err)
		}
	}
	list := func(letters *deadletter.Store) (ids []int64) {
		t.Helper()
		found, err := letters.ListDeadLetters(t.Context(), "loop", 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range found {
			if !strings.Contains(l.Reason, "field type conflict") || !strings.Contains(string(l.Payload), `"`) {
				t.Errorf("set aside: %s, because %s", l.Payload, l.Reason)
			}
			ids = append(ids, l.ID)
		}
		return ids
	}
	run(func(loop *factory.Loop, letters *deadletter.Store) {
		if n := len(list(letters)); n != 2 || loop.Status().DeadLetters != 2 || r.holds() != "m v=1 1; m v=3 3; m v=5 5" {
			t.Errorf("%d letters, and the remote holds %s", n, r.holds())
		}
	})
	source.lines = append(source.lines, "m v=6 6")
	r.mended.Store(true)
	run(func(loop *factory.Loop, letters *deadletter.Store) {
		ids := list(letters)
		if n, err := loop.Replay(t.Context(), ids[:1]); n != 1 || err != nil {
			t.Errorf("%d were replayed, error %v", n, err)
		}
		if err := loop.Discard(t.Context(), ids[1:]); err != nil {
			t.Error(err)
		}
		if n := len(list(letters)); n != 0 {
			t.Errorf("%d letters are left", n)
		}
		if s := loop.Status(); s.DeadLetters != 0 || s.LetterBytes != 0 {
			t.Errorf("the status tells of %d dead letters of %d bytes", s.DeadLetters, s.LetterBytes)
		}
	})
	if want := fmt.Sprint(`m v="a" 2; `, "m v=1 1; m v=3 3; m v=5 5; m v=6 6"); r.holds() != want {
		t.Errorf("the remote holds %s, want %s", r.holds(), want)
	}
}
