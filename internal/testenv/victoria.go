package testenv

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// VictoriaMetricsPackage is the Debian package that brings VictoriaMetrics.
const VictoriaMetricsPackage = "victoria-metrics"

// VictoriaMetrics is a running server.
type VictoriaMetrics struct {
	*webServer
}

// StartVictoriaMetrics starts a VictoriaMetrics that keeps points of the last hundred years, with flags of
// its own. It stops when the test ends.
func StartVictoriaMetrics(t testing.TB, flags ...string) *VictoriaMetrics {
	t.Helper()
	bin := lookUp(t, "victoria-metrics", "VictoriaMetrics", VictoriaMetricsPackage)
	root := webRoot(t, "victoria")
	s := &webServer{name: "VictoriaMetrics", root: root, ready: "/health"}
	s.command = func(port int) (string, []string, error) {
		return bin, append([]string{
			"-storageDataPath=" + filepath.Join(root, "data"), fmt.Sprintf("-httpListenAddr=127.0.0.1:%d", port),
			"-retentionPeriod=100y", "-loggerLevel=ERROR",
		}, flags...), nil
	}
	s.launch(t)
	return &VictoriaMetrics{s}
}

// Export returns the samples that match a selector, such as {__name__!=""}, as the server writes them out:
// a JSON object in each line.
func (v *VictoriaMetrics) Export(t testing.TB, selector string) string {
	t.Helper()
	// What was written becomes visible to searches a little later, unless that is asked for.
	for _, path := range []string{"/internal/force_flush", "/api/v1/export?" + url.Values{"match[]": {selector}}.Encode()} {
		resp, err := http.Get(v.URL() + path)
		if err != nil {
			t.Fatalf("testenv: %v", err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("testenv: %s: status %d, %v\n%s", path, resp.StatusCode, err, text)
		}
		if strings.HasPrefix(path, "/api") {
			return string(text)
		}
	}
	return ""
}
