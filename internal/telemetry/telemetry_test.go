package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func counts() Counts { return Counts{Streams: 3, Remotes: 2, QueueBytes: 1 << 20} }

func TestReportIsWhatIsDocumentedAndNothingElse(t *testing.T) {
	t.Parallel()
	type received struct {
		method, body string
		header       http.Header
	}
	got := make(chan received, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case got <- received{r.Method + " " + r.URL.String(), string(body), r.Header}:
		default:
		}
	}))
	defer server.Close()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	r, err := New(Config{URL: server.URL + "/report", Interval: time.Millisecond, Version: "v1.2.3", Counts: counts, Transport: tr})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	defer running.Wait()
	defer stop()
	first := <-got
	if first.method != "POST /report" || first.body != `{"report":1,"version":"v1.2.3","uptimeSeconds":0,"streams":3,"remotes":2,"queueBytes":1048576}` {
		t.Errorf("%s %s", first.method, first.body)
	}
	for name, values := range first.header {
		switch name {
		case "Content-Type", "Content-Length", "Accept-Encoding", "User-Agent":
		default:
			t.Errorf("the header %s: %q is sent too", name, values)
		}
	}
	if agent := first.header.Get("User-Agent"); agent != "tailrace/v1.2.3" {
		t.Errorf("the user agent is %s", agent)
	}
}

func TestReportsAreSpreadAroundTheInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var at []time.Duration
		var uptimes []string
		r, err := New(Config{URL: "http://x.example", Counts: counts, Transport: transport(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			at, uptimes = append(at, time.Since(begun)), append(uptimes, string(body))
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 100*24*time.Hour)
		defer stop()
		r.Run(ctx)
		if n := len(at); n < 290 || n > 310 {
			t.Fatalf("%d reports in a hundred days", n)
		}
		if at[0] > DefaultInterval {
			t.Errorf("the first report is sent after %s", at[0])
		}
		different := map[time.Duration]bool{}
		for i := 1; i < len(at); i++ {
			gap := at[i] - at[i-1]
			if different[gap] = true; gap < DefaultInterval*9/10 || gap > DefaultInterval*11/10 {
				t.Errorf("%s between two reports", gap)
			}
		}
		if len(different) < len(at)/2 {
			t.Errorf("%d different times of %d: they are not jittered", len(different), len(at))
		}
		if uptimes[0] == uptimes[1] {
			t.Error("the uptime does not grow")
		}
	})
}

// A server that fails, hangs or redirects costs nothing but a line of the debug log, which holds no URL.
func TestFailureIsADetail(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]transport{
		"broken": func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") },
		"hangs": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"500": func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusInternalServerError, Status: "500 no", Body: io.NopCloser(strings.NewReader("x"))}, nil
		},
		"redirect": func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "x.example" {
				t.Error("a redirect is followed")
			}
			return &http.Response{StatusCode: http.StatusTemporaryRedirect, Status: "307", Header: http.Header{"Location": {"http://other.example"}}, Body: http.NoBody}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				tries := 0
				r, err := New(Config{
					URL: "http://x.example/?key=s3cret", Counts: counts,
					Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
					Transport: transport(func(r *http.Request) (*http.Response, error) {
						tries++
						return answer(r)
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeout(t.Context(), 5*24*time.Hour)
				defer stop()
				r.Run(ctx)
				if text := log.String(); tries < 13 || strings.Count(text, "level=DEBUG") != tries || strings.Contains(text, "level=WARN") ||
					strings.Contains(text, "level=ERROR") || strings.Contains(text, "s3cret") {
					t.Errorf("%d tries, the log is\n%s", tries, text)
				}
			})
		})
	}
}

func TestRunEndsInTheMiddleOfAReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r, err := New(Config{URL: "http://x.example", Counts: counts, Transport: transport(func(r *http.Request) (*http.Response, error) {
			stop()
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if r.Run(ctx); time.Since(begun) > DefaultInterval {
			t.Error("it waits for the report")
		}
	})
}

func TestConfigurationThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "x", "ftp://x.example", "http://", "https://user:s3cret@x.example", "http://%zz"} {
		if err := ValidateURL(url); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := New(Config{URL: "http://x.example"}); err == nil {
		t.Error("there is nothing to count")
	}
}
