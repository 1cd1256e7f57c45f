package dashboards

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tailrace-cdc/tailrace/internal/source/logical"
)

// ours matches the names of our metrics.
var ours = regexp.MustCompile(`\b(?:logical|replications|tailrace)_\w+`)

// documented returns the metrics of docs/metrics.md, by name, with their kinds.
func documented(t *testing.T) map[string]string {
	t.Helper()
	kinds := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)(?:\\{\\w+\\})?` \\| (\\w+) \\|").FindAllStringSubmatch(read(t, "../docs/metrics.md"), -1) {
		kinds[m[1]] = m[2]
	}
	if len(kinds) < 30 {
		t.Fatalf("docs/metrics.md has %d metrics", len(kinds))
	}
	return kinds
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestMetricsOfLoopsAreDocumented compares the code with the document.
func TestMetricsOfLoopsAreDocumented(t *testing.T) {
	t.Parallel()
	metrics, err := logical.NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc, 100)
	metrics.Describe(descs)
	close(descs)
	doc := documented(t)
	names := map[string]bool{}
	for d := range descs {
		name := ours.FindString(d.String())
		names[name] = true
		if doc[name] == "" {
			t.Errorf("docs/metrics.md does not have %s", name)
		}
	}
	for name := range doc {
		if strings.HasPrefix(name, "logical_") && !names[name] {
			t.Errorf("docs/metrics.md has %s, which no loop shows", name)
		}
	}
}

// exists checks that an expression names metrics that exist, and treats them as what they are.
func exists(t *testing.T, doc map[string]string, where, expr string) (named []string) {
	t.Helper()
	names := ours.FindAllString(expr, -1)
	if len(names) == 0 {
		t.Errorf("%s asks for none of our metrics: %s", where, expr)
	}
	for _, name := range names {
		base := strings.TrimSuffix(name, "_bucket")
		kind := doc[base]
		switch rated := strings.Contains(expr, "rate("+name) || strings.Contains(expr, "increase("+name); {
		case kind == "" || (kind == "histogram") != (base != name):
			t.Errorf("%s asks for %s, which does not exist", where, name)
		case kind == "counter" && !rated:
			t.Errorf("%s shows the counter %s as it is", where, name)
		}
		named = append(named, base)
	}
	return named
}

func TestDashboardShowsWhatExists(t *testing.T) {
	t.Parallel()
	var board struct {
		Title, UID    string
		SchemaVersion int
		Templating    struct {
			List []struct {
				Name, Type string
				Query      any
			}
		}
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Datasource  struct{ Type, UID string }
			Targets     []struct{ RefID, Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "tailrace.json")), &board); err != nil {
		t.Fatal(err)
	}
	if board.Title == "" || board.UID == "" || board.SchemaVersion < 30 || len(board.Templating.List) != 2 {
		t.Errorf("the dashboard has title %q, uid %q, schema version %d and %d variables",
			board.Title, board.UID, board.SchemaVersion, len(board.Templating.List))
	}
	doc, ids, taken, shown := documented(t), map[int]bool{}, map[[2]int]string{}, map[string]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("the panel %q has the number of another one, %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("the panel %q does not fit at %d, %d: there is %q", p.Title, x, y, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("the panel %q shows nothing, or from a fixed source", p.Title)
		}
		for _, target := range p.Targets {
			for _, name := range exists(t, doc, "the panel "+p.Title, target.Expr) {
				shown[name] = true
			}
		}
	}
	for name := range doc {
		if strings.HasPrefix(name, "logical_") && !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

func TestAlertsAskForWhatExists(t *testing.T) {
	t.Parallel()
	doc, rules := documented(t), read(t, "alerts.yaml")
	names := regexp.MustCompile(`(?m)^\s+- alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	exprs := regexp.MustCompile(`(?m)^\s+expr: (.+)$`).FindAllStringSubmatch(rules, -1)
	if len(names) == 0 || len(names) != len(exprs) {
		t.Fatalf("%d alerts with %d expressions", len(names), len(exprs))
	}
	tests := read(t, "alerts_test.yaml")
	for i := range names {
		exists(t, doc, "the alert "+names[i][1], exprs[i][1])
		if n := strings.Count(tests, "alertname: "+names[i][1]+"\n"); n < 2 {
			t.Errorf("the alert %s has %d tests, want one in which it fires and one in which it does not", names[i][1], n)
		}
	}
}

// TestAlertsFire runs the tests of the alerts, with Prometheus' own tool.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v (scripts/deps.sh installs it)\n%s", args, err, out)
		}
	}
}
