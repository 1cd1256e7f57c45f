package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryMetricIsDocumented compares what a server shows with docs/metrics.md.
func TestEveryMetricIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	p := launch(t, t.TempDir())
	p.write("m v=1 1")
	awaitCount(t, openTarget(t, p.dir), "SELECT count(*) FROM m", 1)
	_, shown := p.get("/metrics")
	_, remote := launch(t, t.TempDir(), "--targetConn", p.url+"?bucket=default").get("/metrics")
	shown += remote
	found := 0
	for _, m := range regexp.MustCompile(`(?m)^# TYPE ((?:logical|replications|tailrace)_\w+) (\w+)$`).FindAllStringSubmatch(shown, -1) {
		found++
		row := regexp.MustCompile("(?m)^\\| `" + m[1] + "(\\{\\w+\\})?` \\| " + m[2] + " \\|")
		if !row.MatchString(doc) {
			t.Errorf("docs/metrics.md does not have the %s %s", m[2], m[1])
		}
	}
	if found < 30 {
		t.Errorf("only %d metrics are shown:\n%s", found, shown)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)").FindAllStringSubmatch(doc, -1) {
		// Losses exist from their first on.
		if !strings.Contains(shown, m[1]) && !strings.Contains(m[1], "points_lost") {
			t.Errorf("docs/metrics.md has %s, which the server does not show", m[1])
		}
	}
}
