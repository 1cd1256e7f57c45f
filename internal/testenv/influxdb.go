package testenv

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/errors"
)

// InfluxDBPackage is the Debian package that brings InfluxDB 1.x.
const InfluxDBPackage = "influxdb"

// InfluxDB is a running server of version 1.x. Its methods may be called by one goroutine at a time.
type InfluxDB struct {
	*webServer
}

// StartInfluxDB starts an InfluxDB 1.x without authentication, which stops when the test ends. Settings
// are lines of its configuration by section, such as "data": "max-values-per-tag = 10".
func StartInfluxDB(t testing.TB, settings map[string]string) *InfluxDB {
	t.Helper()
	bin := lookUp(t, "influxd", "InfluxDB", InfluxDBPackage)
	root := webRoot(t, "influxdb")
	rpc, err := freePort()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	sections := map[string]string{
		"meta":               fmt.Sprintf("dir = %q", filepath.Join(root, "meta")),
		"data":               fmt.Sprintf("dir = %q\nwal-dir = %q", filepath.Join(root, "data"), filepath.Join(root, "wal")),
		"monitor":            "store-enabled = false",
		"subscriber":         "enabled = false",
		"continuous_queries": "enabled = false",
		"ifql":               "enabled = false",
	}
	s := &webServer{name: "InfluxDB", root: root, ready: "/ping"}
	s.command = func(port int) (string, []string, error) {
		config := fmt.Sprintf("reporting-disabled = true\nbind-address = \"127.0.0.1:%d\"\n", rpc)
		sections["http"] = fmt.Sprintf("bind-address = \"127.0.0.1:%d\"\nlog-enabled = false", port)
		for _, name := range slices.Sorted(maps.Keys(sections)) {
			lines, more := sections[name], settings[name]
			if strings.HasPrefix(lines, "enabled =") && strings.HasPrefix(more, "enabled =") {
				lines = "" // the test wants it otherwise
			}
			config += fmt.Sprintf("[%s]\n%s\n%s\n", name, lines, more)
		}
		path := filepath.Join(root, "influxdb.conf")
		return bin, []string{"-config", path}, errors.Wrap(os.WriteFile(path, []byte(config), 0o644), "the configuration")
	}
	s.launch(t)
	return &InfluxDB{s}
}

// Query runs a statement and returns the series of its result. Numbers are json.Number.
func (db *InfluxDB) Query(t testing.TB, database, statement string) []InfluxSeries {
	t.Helper()
	resp, err := http.PostForm(db.URL()+"/query", url.Values{"db": {database}, "q": {statement}, "epoch": {"ns"}})
	if err != nil {
		t.Fatalf("testenv: %s: %v", statement, err)
	}
	defer func() { _ = resp.Body.Close() }()
	var doc struct {
		Error   string
		Results []struct {
			Error  string
			Series []InfluxSeries
		}
	}
	dec := json.NewDecoder(resp.Body)
	dec.UseNumber()
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("testenv: %s: %v", statement, err)
	}
	var all []InfluxSeries
	for _, r := range doc.Results {
		doc.Error += r.Error
		all = append(all, r.Series...)
	}
	if doc.Error != "" {
		t.Fatalf("testenv: %s: %s", statement, doc.Error)
	}
	return all
}

// An InfluxSeries is a series of an InfluxQL result.
type InfluxSeries struct {
	Name    string
	Tags    map[string]string
	Columns []string
	Values  [][]any
}
