package e2e

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// A collector takes reports of telemetry.
type collector struct {
	*httptest.Server
	t       *testing.T
	reports chan string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t, reports: make(chan string)}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case c.reports <- string(body):
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// await waits for a report that is as wanted, and looks at each that it holds what is documented and no more.
func (c *collector) await(otherwise string, wanted func(map[string]any) bool) {
	c.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case <-deadline:
			c.t.Fatal(otherwise)
		case text := <-c.reports:
			var report map[string]any
			if err := json.Unmarshal([]byte(text), &report); err != nil {
				c.t.Fatalf("%s: %v", text, err)
			}
			keys := slices.Sorted(maps.Keys(report))
			equal(c.t, "fields", keys, []string{"queueBytes", "remotes", "report", "streams", "uptimeSeconds", "version"})
			for _, key := range keys {
				if _, number := report[key].(float64); !number && key != "version" {
					c.t.Errorf("%s is no number: %s", key, text)
				}
			}
			if strings.Contains(text, "default") || strings.Contains(text, "secret") {
				c.t.Errorf("a name is reported: %s", text)
			}
			if wanted(report) {
				return
			}
		}
	}
}
