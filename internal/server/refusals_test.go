package server

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRefusalsAreLoggedOnceASecondWithACount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &logBuffer{}
		l := newRefusalLog(slog.New(slog.NewTextHandler(out, nil)))
		lines := func() []string { return strings.Split(strings.TrimSpace(out.String()), "\n") }
		write, other := refusalKind{"/write", 400}, refusalKind{"/write", 401}
		for range 1000 {
			l.add(write, "first", "10.0.0.1")
		}
		l.add(other, "token", "10.0.0.2")
		if got := lines(); len(got) != 2 || !strings.Contains(got[0], "count=1 ") || !strings.Contains(got[1], "status=401") {
			t.Errorf("at once: %q", got)
		}
		time.Sleep(logEvery) // of the bubble's clock
		synctest.Wait()
		if got := lines(); len(got) != 3 || !strings.Contains(got[2], "count=999 ") || !strings.Contains(got[2], "status=400") {
			t.Errorf("after a second: %q", got)
		}
		l.add(write, "second", "10.0.0.1")
		time.Sleep(3 * logEvery)
		synctest.Wait()
		if got := lines(); len(got) != 4 || !strings.Contains(got[3], "count=1 ") {
			t.Errorf("after a pause: %q", got)
		}
		for range 5 {
			l.add(write, strings.Repeat("x", 10_000), "10.0.0.1")
		}
		l.close()
		if got := lines(); len(got) != 6 || !strings.Contains(got[5], "count=4 ") || len(got[5]) > 600 {
			t.Errorf("at the end: %.300q", got)
		}
	})
}
