package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// dial opens a connection to the server, for what no decent client sends.
func dial(t *testing.T, st *site) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", st.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

const rawHead = "POST " + v2one + " HTTP/1.1\r\nHost: x\r\nAuthorization: Token " + operator + "\r\n"

// answerOf reads an answer from a raw connection; status 0 means that there was none.
func answerOf(conn net.Conn) (status int, body string) {
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

func TestSlowBodyIsCutOff(t *testing.T) {
	t.Parallel()
	st := start(t, Config{BodyTimeout: 100 * time.Millisecond}, nil)
	t.Run("pause", func(t *testing.T) {
		t.Parallel()
		conn := dial(t, st)
		fmt.Fprint(conn, rawHead+"Content-Length: 100\r\n\r\nm v=1 5\n")
		if status, text := answerOf(conn); status != http.StatusRequestTimeout {
			t.Errorf("answer %d %s", status, text)
		}
	})
	t.Run("drip", func(t *testing.T) {
		t.Parallel()
		conn := dial(t, st)
		fmt.Fprint(conn, rawHead+"Content-Length: 1000000\r\n\r\n")
		stop := make(chan struct{})
		var dripping sync.WaitGroup
		dripping.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					if _, err := conn.Write([]byte(" ")); err != nil {
						return
					}
				}
			}
		})
		if status, text := answerOf(conn); status != http.StatusRequestTimeout {
			t.Errorf("answer %d %s", status, text)
		}
		close(stop)
		dripping.Wait()
	})
	t.Run("header", func(t *testing.T) {
		t.Parallel()
		st := start(t, Config{ReadHeaderTimeout: 50 * time.Millisecond}, nil)
		conn := dial(t, st)
		fmt.Fprint(conn, "POST "+v2one+" HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		if status, text := answerOf(conn); status == http.StatusNoContent || strings.Contains(text, "timeout") && status == 0 {
			t.Errorf("answer %d %s", status, text)
		}
	})
	t.Cleanup(func() {
		if st.intake.all() != "" || st.budget.used() != 0 {
			t.Errorf("kept %q, %d bytes reserved", st.intake.all(), st.budget.used())
		}
	})
}

// The deadline of one body must not end the next request on the connection, or the wait between.
func TestDeadlineOfABodyEndsWithIt(t *testing.T) {
	t.Parallel()
	st := start(t, Config{BodyTimeout: 60 * time.Millisecond}, nil)
	var reused int
	for range 3 {
		after := make(chan struct{})
		st.intake.hook = func(ctx context.Context) {
			select {
			case <-ctx.Done():
				t.Error("the context ended")
			case <-time.After(120 * time.Millisecond):
			}
			close(after)
		}
		if got := st.do(t, http.MethodPost, v2one, "m v=1 5", nil); got.status != http.StatusNoContent {
			t.Errorf("answer %d %s", got.status, got.body)
		}
		<-after
		reused++
	}
	if reused != 3 {
		t.Errorf("%d writes", reused)
	}
}

func TestUploadThatBreaksOffKeepsNothing(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	for name, rest := range map[string]string{
		"length":          "Content-Length: 1000\r\n\r\nm v=1 5\nm v=2 6\n",
		"chunks":          "Transfer-Encoding: chunked\r\n\r\n8\r\nm v=1 5\n\r\n",
		"malformed chunk": "Transfer-Encoding: chunked\r\n\r\n8\r\nm v=1 5\n\r\nzz\r\n",
		"gzip":            "Content-Encoding: gzip\r\nContent-Length: 1000\r\n\r\n" + zipped("m v=1 5\n"),
	} {
		conn := dial(t, st)
		fmt.Fprint(conn, rawHead+rest)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if status, text := answerOf(conn); status != http.StatusBadRequest {
			t.Errorf("%s: answer %d %s", name, status, text)
		}
	}
	if st.intake.all() != "" {
		t.Errorf("kept %q", st.intake.all())
	}
}

func TestHeaderThatIsTooLong(t *testing.T) {
	t.Parallel()
	st := start(t, Config{MaxHeaderBytes: 4 << 10}, nil)
	conn := dial(t, st)
	fmt.Fprint(conn, rawHead+"X-Long: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	if status, text := answerOf(conn); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("answer %d %s", status, text)
	}
}

// Many large bodies at once stay within the budget: each is kept, or refused with 503.
func TestManyLargeBodiesStayWithinTheBudget(t *testing.T) {
	t.Parallel()
	const limit, clients = 8 << 20, 24
	st := start(t, Config{MaxBodySize: 4 << 20, BodyMemory: limit, BodyWait: 20 * time.Second}, nil)
	var most int64
	var mu sync.Mutex
	st.intake.hook = func(context.Context) {
		mu.Lock()
		defer mu.Unlock()
		most = max(most, st.budget.used())
	}
	line := "m,host=server01,region=eu v=1.5,w=2i 1700000000000000000\n"
	body := strings.Repeat(line, (2<<20)/len(line))
	var all sync.WaitGroup
	var kept, refused int
	for i := range clients {
		all.Go(func() {
			var r io.Reader = strings.NewReader(body)
			if i%2 == 0 {
				r = io.MultiReader(r) // without a length
			}
			got := st.send(t, http.MethodPost, v2one, r, nil)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case got.status == http.StatusNoContent:
				kept++
			case got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") != "":
				refused++
			default:
				t.Errorf("answer %d %s", got.status, got.body)
			}
		})
	}
	all.Wait()
	if kept+refused != clients || kept == 0 || most > limit || st.budget.used() != 0 {
		t.Errorf("%d kept, %d refused, at most %d bytes, %d left", kept, refused, most, st.budget.used())
	}
	if n := strings.Count(st.intake.all(), "\n"); n != kept*(len(body)/len(line)) {
		t.Errorf("%d points are kept", n)
	}
}

// A body whose points grow beyond all memory can never be taken: 413, which clients split at, and
// not 503, which they repeat for ever.
func TestBodyThatNeedsMoreThanAllMemory(t *testing.T) {
	t.Parallel()
	st := start(t, Config{MaxBodySize: 2 << 20, BodyMemory: 3 << 20}, nil)
	got := st.do(t, http.MethodPost, v2one, strings.Repeat("m v=1\n", 300_000), nil)
	if got.status != http.StatusRequestEntityTooLarge || st.intake.all() != "" || st.budget.used() != 0 {
		t.Errorf("answer %d %s", got.status, got.body)
	}
}

func TestManyClientsWriteAtOnce(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	clients, writes := 8, soak(50, 2000)
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range writes {
				path, status := v2one, http.StatusNoContent
				line := fmt.Sprintf("m,c=%d v=%di %d\n", c, i, i)
				header := map[string]string{}
				switch i % 4 {
				case 1:
					line, header["Content-Encoding"] = zipped(line), "gzip"
				case 2:
					path = "/write?db=one"
				case 3:
					line, status = line+"m v=\n", http.StatusBadRequest
				}
				if got := st.do(t, http.MethodPost, path, line, header); got.status != status {
					t.Errorf("answer %d %s", got.status, got.body)
				}
			}
		})
	}
	all.Wait()
	kept := strings.Split(strings.TrimSuffix(st.intake.all(), "\n"), "\n")
	seen := map[string]bool{}
	for _, line := range kept {
		seen[line] = true
	}
	if want := clients * (writes - writes/4); len(kept) != want || len(seen) != want {
		t.Errorf("%d lines, %d different, want %d", len(kept), len(seen), want)
	}
}
