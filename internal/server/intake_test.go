package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
)

func TestErrorsOfTheIntakeAreToldApart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		err    error
		status int
		retry  string
		says   []string
	}{
		{"unknown bucket", &UnknownBucketError{"one"}, 404, "", []string{`"one"`}},
		{"queue full", errors.WithStack(&QueueFullError{Stream: "north"}), 503, "7", []string{`"north"`, "full", "nothing"}},
		{"queue full, with a time", &QueueFullError{Stream: "north", RetryAfter: 1500 * time.Millisecond}, 503, "2", []string{"north"}},
		{"unavailable", errors.Wrap(&UnavailableError{Reason: "the disk's reserve is used up"}, "x"), 503, "7", []string{"reserve"}},
		{"two queues, one failed", &StoreError{Kept: []string{"north"}, Failed: []string{"south"}, Err: errors.New("no space left on device")}, 500, "", []string{"kept by north", "south", "no space left", "harmless"}},
		{"no queue", &StoreError{Failed: []string{"south"}, Err: errors.New("input/output error")}, 500, "", []string{"no stream kept it", "south"}},
		{"timeout", errors.Wrap(context.DeadlineExceeded, "queue"), 503, "7", []string{"not durable in time"}},
		{"another", errors.New("surprise"), 500, "", []string{"surprise"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := start(t, Config{RetryAfter: 7 * time.Second}, nil)
			st.intake.err = c.err
			for _, path := range []string{v2one, "/write?db=one"} {
				got := st.do(t, http.MethodPost, path, "m v=1 5", nil)
				if got.status != c.status || got.header.Get("Retry-After") != c.retry {
					t.Errorf("%s: %d, Retry-After %q, %s", path, got.status, got.header.Get("Retry-After"), got.body)
				}
				text := fmt.Sprint(got.fields(t))
				for _, says := range c.says {
					if !strings.Contains(text, says) {
						t.Errorf("%s: %q is not said in %s", path, says, text)
					}
				}
				checkForm(t, path, got)
			}
		})
	}
}

// Telegraf and the client libraries drop a batch when a failure holds one of these phrases.
func TestNoFailureReadsLikeASuccess(t *testing.T) {
	t.Parallel()
	s, err := New(Config{}, Deps{Intake: newIntake(), Authorizer: NewTokens(nil)})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*problem{
		s.intakeProblem(&QueueFullError{Stream: "x"}), s.intakeProblem(&StoreError{Failed: []string{"x"}, Err: errors.New("e")}),
		s.intakeProblem(&UnavailableError{Reason: "stopping"}), s.intakeProblem(context.DeadlineExceeded), s.intakeProblem(errors.New("e")),
		s.memoryProblem(errNoMemory),
		problemf(http.StatusUnauthorized, "unauthorized access: nobody has this token"),
	} {
		for _, phrase := range []string{
			"partial write", "unable to parse", "points beyond retention policy", "retention policy not found", "hinted handoff queue not empty", "database not found",
		} {
			if strings.Contains(p.message, phrase) {
				t.Errorf("%d %q holds %q", p.status, p.message, phrase)
			}
		}
	}
}

// Once the upload is complete, the write goes on although the client has gone.
func TestClientThatGoesAwayDoesNotCutAWrite(t *testing.T) {
	t.Parallel()
	gone, began, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	st := start(t, Config{}, nil)
	st.intake.hook = func(ctx context.Context) {
		close(began)
		<-gone
		ended <- ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, st.url+v2one, strings.NewReader("m v=1 5"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Token "+operator)
	failed := make(chan error, 1)
	go func() {
		resp, err := st.client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		failed <- err
	}()
	<-began
	cancel()
	if err := <-failed; err == nil {
		t.Error("the client got an answer")
	}
	close(gone)
	if err := <-ended; err != nil {
		t.Errorf("the write's context ended with the client: %v", err)
	}
}

func TestIntakeThatHangsIsAnswered(t *testing.T) {
	t.Parallel()
	st := start(t, Config{IntakeTimeout: 20 * time.Millisecond}, nil)
	st.intake.hook = func(ctx context.Context) { <-ctx.Done() }
	st.intake.err = context.DeadlineExceeded
	if got := st.do(t, http.MethodPost, v2one, "m v=1 5", nil); got.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	st.intake.hook = func(context.Context) { panic("boom") }
	got := st.do(t, http.MethodPost, v2one, "m v=1 5", nil)
	if got.status != http.StatusInternalServerError || strings.Contains(got.body, "boom") || !strings.Contains(st.log.String(), "boom") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if st.budget.used() != 0 {
		t.Errorf("%d bytes are still reserved", st.budget.used())
	}
}
