package influx_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/logical"
)

// TestRequestsAsTheyTravel looks at routes, parameters and authentication of each version.
func TestRequestsAsTheyTravel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version           string
		cfg               influx.Config
		prefix            string
		path, query, auth string
	}{
		"1.x": {
			"1.6.7~rc0",
			influx.Config{Bucket: "db/two weeks", Username: "u", Password: "p:w"},
			"",
			"/write", "db=db&precision=ns&rp=two+weeks", "Basic dTpwOnc=",
		},
		"1.x without a policy": {"1.8.0", influx.Config{Bucket: "db"}, "", "/write", "db=db&precision=ns", ""},
		"2.x": {
			"v2.7.1",
			influx.Config{Bucket: "line 4", Org: "plant", Token: "t0ken"},
			"",
			"/api/v2/write", "bucket=line+4&org=plant&precision=ns", "Token t0ken",
		},
		"3.x": {
			"3.0.1",
			influx.Config{Bucket: "db", Org: "o", Token: "t0ken"},
			"",
			"/api/v3/write_lp", "accept_partial=true&db=db&precision=nanosecond", "Bearer t0ken",
		},
		"prefix":              {"v2.7.1", influx.Config{}, "/proxy/influx%20db", "/proxy/influx db/api/v2/write", "bucket=b&precision=ns", ""},
		"silent, with an org": {"", influx.Config{Org: "o"}, "", "/api/v2/write", "bucket=b&org=o&precision=ns", ""},
		"silent, with a user": {"", influx.Config{Username: "u"}, "", "/write", "db=b&precision=ns", "Basic dTo="},
		"told to be 1.x":      {"v2.7.1", influx.Config{Kind: influx.V1, Token: "u:p"}, "", "/write", "db=b&precision=ns", "Token u:p"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, c.version)
			c.cfg.URL, c.cfg.Version = f.URL+c.prefix+"/", "v1.2.3"
			r := newRig(t, t.TempDir(), c.cfg, logical.Config{})
			r.write(`m,t=a\ b s="x, y=\"z\"" 5`)
			r.settled()
			w := f.writes()[0]
			if w.path != "POST "+c.path || w.query != c.query || w.auth != c.auth || w.agent != "tailrace/v1.2.3" {
				t.Errorf("got %+v", w)
			}
			if !slices.Equal(w.lines, []string{`m,t=a\ b s="x, y=\"z\"" 5`}) {
				t.Errorf("the line became %q", w.lines)
			}
		})
	}
}

// TestCompression compares what arrives, compressed or not.
func TestCompression(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		how  influx.Compression
		want string
	}{{influx.CompressAuto, ""}, {influx.CompressNone, ""}, {influx.CompressGzip, "gzip"}} {
		t.Run(string(c.how), func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "v2.7.1")
			r := newRig(t, t.TempDir(), influx.Config{URL: f.URL, Compression: c.how}, logical.Config{})
			all, _, _ := lines(0, 500, nil)
			r.write(all...)
			r.settled()
			r.write("small v=1 1")
			r.settled()
			sameLines(t, "in the remote", f.inside(), append(all, "small v=1 1"))
			w := f.writes()
			if w[0].encoding != c.want || w[len(w)-1].encoding != "" {
				t.Errorf("encodings %q and, of a small one, %q", w[0].encoding, w[len(w)-1].encoding)
			}
		})
	}
}

// TestWaitingWritesAreJoined writes a lot while one request is being answered, and counts requests and
// connections.
func TestWaitingWritesAreJoined(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	f := newFake(t, "v2.7.1", func(s *http.Server) {
		s.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns.Add(1)
			}
		}
	})
	hold, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	f.behave(func(http.ResponseWriter, *http.Request, []string) bool {
		once.Do(func() {
			close(held)
			<-hold
		})
		return false
	})
	r := newRig(t, t.TempDir(), influx.Config{URL: f.URL}, logical.Config{})
	all, _, _ := lines(0, 200, nil)
	r.write(all[0])
	<-held
	for _, l := range all[1:] {
		r.write(l)
	}
	close(hold)
	r.settled()
	if got := f.inside(); !slices.Equal(got, all) {
		t.Errorf("in the remote: %q", got)
	}
	if n := len(f.writes()); n > 10 {
		t.Errorf("%d requests for 199 writes that waited", n)
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestOneRequestInSerialModeSeveralInFanMode counts what is in flight.
func TestOneRequestInSerialModeSeveralInFanMode(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, loop logical.Config) {
		f := newFake(t, "v2.7.1")
		var now, most atomic.Int64
		f.behave(func(http.ResponseWriter, *http.Request, []string) bool {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			<-time.After(3 * time.Millisecond)
			return false
		})
		r := newRig(t, t.TempDir(), influx.Config{URL: f.URL}, loop)
		all, _, _ := lines(0, 2000, nil)
		for i := 0; i < len(all); i += 50 {
			r.write(all[i : i+50]...)
		}
		r.settled()
		sameLines(t, "in the remote", f.inside(), all)
		if n := most.Load(); loop.Immediate && (n < 2 || n > 3) || !loop.Immediate && n != 1 {
			t.Errorf("%d requests at once", n)
		}
	})
}

// TestDrainEndsWhatIsInFlight stops while the remote takes its time; what it then answers counts.
func TestDrainEndsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, loop logical.Config) {
		f := newFake(t, "v2.7.1")
		hold, held := make(chan struct{}), make(chan struct{}, 1)
		f.behave(func(http.ResponseWriter, *http.Request, []string) bool {
			held <- struct{}{}
			<-hold
			return false
		})
		dir := t.TempDir()
		r := newRig(t, dir, influx.Config{URL: f.URL}, loop)
		r.write("m v=1 1")
		<-held
		time.AfterFunc(50*time.Millisecond, func() { close(hold) })
		r.close()
		f.behave(nil)
		r = newRig(t, dir, influx.Config{URL: f.URL}, loop)
		r.write("m v=2 2")
		r.settled()
		var sent []string
		for _, w := range f.writes() {
			sent = append(sent, w.lines...)
		}
		if !slices.Equal(sent, []string{"m v=1 1", "m v=2 2"}) {
			t.Errorf("sent %q: after a restart from the stored cursor nothing is sent twice", sent)
		}
	})
}

// TestStopDoesNotWaitForARemoteThatHangs stops in less time than the remote takes for its answer.
func TestStopDoesNotWaitForARemoteThatHangs(t *testing.T) {
	t.Parallel()
	f := newFake(t, "v2.7.1")
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	defer close(hold)
	f.behave(func(http.ResponseWriter, *http.Request, []string) bool {
		held <- struct{}{}
		<-hold
		return false
	})
	dir := t.TempDir()
	r := newRig(t, dir, influx.Config{URL: f.URL}, logical.Config{ApplyTimeout: time.Hour})
	r.write("m v=1 1")
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r.stream.Pause(ctx)
	f.behave(nil)
	must(t, r.stream.Resume(t.Context()))
	r.settled()
	if got := f.inside(); !slices.Equal(got, []string{"m v=1 1"}) {
		t.Errorf("in the remote: %q", got)
	}
}

// TestSlowLinkMakesProgress has a remote that takes longer for a write than the loop waits.
func TestSlowLinkMakesProgress(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, loop logical.Config) {
		f := newFake(t, "v2.7.1")
		var mu sync.Mutex // the link is one
		total := 0
		f.behave(func(_ http.ResponseWriter, r *http.Request, lines []string) bool {
			mu.Lock()
			defer mu.Unlock()
			select {
			case <-time.After(time.Duration(len(lines)) * time.Millisecond / 2):
			case <-r.Context().Done():
			}
			total += len(lines)
			return false
		})
		loop.ApplyTimeout = 700 * time.Millisecond
		r := newRig(t, t.TempDir(), influx.Config{URL: f.URL}, loop)
		all, _, _ := lines(0, 6000, nil) // three seconds
		r.write(all...)
		r.settled()
		sameLines(t, "in the remote", f.inside(), all)
		mu.Lock()
		defer mu.Unlock()
		t.Logf("%d lines were sent for %d", total, len(all))
	})
}

// TestTLS trusts a certificate that it was given, anyone's if it was told to, and no other.
func TestTLS(t *testing.T) {
	t.Parallel()
	plain := newFake(t, "v2.7.1")
	secure := httptest.NewTLSServer(plain)
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	for _, cfg := range []influx.Config{
		{URL: secure.URL, CAFile: ca}, {URL: secure.URL, AllowInsecureTLS: true},
	} {
		r := newRig(t, t.TempDir(), cfg, logical.Config{})
		r.write("m v=1 1")
		r.settled()
		r.close()
	}
	for url, hint := range map[string]string{secure.URL: "authority", strings.Replace(plain.URL, "http", "https", 1): "speaks http, not https"} {
		r := newRig(t, t.TempDir(), influx.Config{URL: url}, logical.Config{})
		r.write("m v=1 1")
		r.until("it does not fail", func(st influxlogical.Status) bool { return st.Loop.Err != nil })
		if err := r.stream.Status().Loop.Err; !strings.Contains(logical.HintOf(err), hint) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := influx.Open(influx.Config{URL: secure.URL, Bucket: "b", CAFile: os.DevNull}); err == nil {
		t.Error("a file without a certificate is taken")
	}
}

// TestNothingListens names what to do where there is nobody, and goes on when there is.
func TestNothingListens(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	must(t, l.Close())
	r := newRig(t, t.TempDir(), influx.Config{URL: "http://user:s3cret@" + address, Token: "t0ken"}, logical.Config{})
	r.write("m v=1 1")
	r.until("it does not fail", func(st influxlogical.Status) bool { return st.Loop.Err != nil })
	st, facts := r.stream.Status().Loop, r.target.Facts()
	if !strings.Contains(logical.HintOf(st.Err), "nothing listens there") || facts.LatestResponseCode != 0 {
		t.Errorf("%v, %+v", st.Err, facts)
	}
	if err := r.target.Ping(t.Context()); err == nil {
		t.Error("a ping of nobody is answered")
	}
	for _, text := range []string{st.Err.Error(), facts.LatestErrorMessage, r.target.Name()} {
		if strings.Contains(text, "s3cret") || strings.Contains(text, "t0ken") {
			t.Errorf("a secret shows: %s", text)
		}
	}
	f := &fake{version: "1.8.0"}
	if l, err = net.Listen("tcp", address); err != nil {
		t.Skipf("somebody else has the port: %v", err)
	}
	f.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: f}}
	f.Start()
	defer f.Close()
	r.settled()
	must(t, r.target.Ping(t.Context()))
	if w := f.writes()[0]; w.path != "POST /write" || w.auth != "Basic dXNlcjpzM2NyZXQ=" {
		t.Errorf("got %+v", w)
	}
}

// TestRemoteBecomesAnother upgrades the remote from 1.x to 2.x while the stream runs.
func TestRemoteBecomesAnother(t *testing.T) {
	t.Parallel()
	f := newFake(t, "1.8.10")
	r := newRig(t, t.TempDir(), influx.Config{URL: f.URL}, logical.Config{})
	r.write("m v=1 1")
	r.settled()
	f.mu.Lock()
	f.version = "v2.7.1"
	f.mu.Unlock()
	f.behave(func(w http.ResponseWriter, r *http.Request, _ []string) bool {
		return r.URL.Path == "/write" && say(404, "404 page not found")(w, r, nil)
	})
	r.write("m v=2 2")
	r.settled()
	if facts := r.target.Facts(); facts.Kind != influx.V2 || facts.Version != "v2.7.1" {
		t.Errorf("got %+v", facts)
	}
}

// TestCheckNeedsNoMoreThanAWrite tests address, token and bucket with a write of nothing.
func TestCheckNeedsNoMoreThanAWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version string
		answer  trouble
		says    string
	}{
		"fine":         {"v2.7.1", nil, ""},
		"3.x is empty": {"3.1.0", say(400, `{"error":"write buffer error: no lines to write"}`), ""},
		"401":          {"v2.7.1", say(401, `{"code":"unauthorized","message":"unauthorized access"}`), "does not know who we are"},
		"404":          {"1.8.0", say(404, `{"error":"database not found: \"b\""}`), "is gone or was never there"},
		"portal":       {"", say(200, page), "web page"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, c.version)
			f.behave(c.answer)
			target, err := influx.Open(influx.Config{URL: f.URL, Bucket: "b"})
			must(t, err)
			defer func() { must(t, target.Close()) }()
			err = target.Check(t.Context())
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v", err)
			}
			if w := f.writes(); len(w) != 1 || len(w[0].lines) != 0 {
				t.Errorf("asked with %+v", w)
			}
		})
	}
}

// TestDeadLettersThatCannotBeStored holds the stream until they can.
func TestDeadLettersThatCannotBeStored(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, loop logical.Config) {
		f := newFake(t, "v2.7.1")
		f.behave(func(w http.ResponseWriter, r *http.Request, lines []string) bool {
			return slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "bad") }) &&
				say(400, `{"code":"invalid","message":"unable to parse it"}`)(w, r, lines)
		})
		dir := t.TempDir()
		path := filepath.Join(dir, "deadletters.db")
		must(t, os.MkdirAll(path, 0o700)) // in its place
		r := newRig(t, dir, influx.Config{URL: f.URL}, loop)
		r.write("m v=1 1", `m v="bad" 2`, "m v=3 3")
		r.until("it does not fail", func(st influxlogical.Status) bool {
			return st.Loop.Err != nil && strings.Contains(st.Loop.Err.Error(), "deadletter")
		})
		must(t, os.Remove(path))
		r.settled()
		kept, _ := r.aside()
		sameLines(t, "set aside", kept, []string{`m v="bad" 2`})
		sameLines(t, "in the remote", f.inside(), []string{"m v=1 1", "m v=3 3"})
	})
}

// TestBoundedDeadLetters stops the stream when everything is rejected: a configuration fault, not a million
// letters.
func TestBoundedDeadLetters(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, loop logical.Config) {
		f := newFake(t, "v2.7.1")
		f.behave(say(400, `{"code":"invalid","message":"unable to parse it"}`))
		loop.MaxDeadLetterBytes = 3000
		r := newRig(t, t.TempDir(), influx.Config{URL: f.URL}, loop)
		all, _, _ := lines(0, 100, nil)
		for _, l := range all {
			r.write(l)
		}
		r.until("it is not told", func(st influxlogical.Status) bool {
			return st.Loop.Err != nil && strings.Contains(st.Loop.Err.Error(), "have reached their bound")
		})
		n, bytes, err := r.target.CountDeadLetters(t.Context(), "test/one")
		// Each shard may have one more under way.
		if err != nil || n > 20 || bytes > 3000+3*300 {
			t.Errorf("%d letters of %d bytes, %v", n, bytes, err)
		}
		f.behave(nil)
		r.settled()
		kept, _ := r.aside()
		sameLines(t, "in the remote or set aside", append(f.inside(), kept...), all)
	})
}

func ExampleParseURL() {
	cfg, err := influx.ParseURL("https://host:8086/prefix?org=plant&bucket=line+4")
	fmt.Println(cfg.URL, cfg.Org, cfg.Bucket, err)
	cfg, err = influx.ParseURL("http://host:8086?db=telegraf&rp=two_weeks")
	fmt.Println(cfg.Kind, cfg.Bucket, err)
	// Output:
	// https://host:8086/prefix plant line 4 <nil>
	// 1 telegraf/two_weeks <nil>
}
