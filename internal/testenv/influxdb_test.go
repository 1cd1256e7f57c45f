package testenv

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

func post(t *testing.T, url, body string, want int) {
	t.Helper()
	resp, err := http.Post(url, "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != want {
		t.Fatalf("%s: status %d, want %d", url, resp.StatusCode, want)
	}
}

func TestInfluxDBKeepsItsDataOverARestart(t *testing.T) {
	t.Parallel()
	defer http.DefaultClient.CloseIdleConnections()
	db := StartInfluxDB(t, map[string]string{"http": "max-body-size = 100"})
	db.Query(t, "", "CREATE DATABASE d")
	post(t, db.URL()+"/write?db=d", "m,a=b v=9007199254740993i 7\n", 204)
	post(t, db.URL()+"/write?db=d", strings.Repeat("m v=1 1\n", 100), 413)
	db.Kill()
	db.Restart(t)
	got := db.Query(t, "d", "SELECT * FROM m GROUP BY *")
	if len(got) != 1 || got[0].Tags["a"] != "b" || len(got[0].Values) != 1 || got[0].Values[0][1] != json.Number("9007199254740993") {
		t.Errorf("got %+v", got)
	}
}

func TestVictoriaMetricsKeepsOldPoints(t *testing.T) {
	t.Parallel()
	defer http.DefaultClient.CloseIdleConnections()
	v := StartVictoriaMetrics(t)
	post(t, v.URL()+"/api/v2/write?bucket=b", "m,a=b v=1.5 1600000000000000000\n", 204)
	if text := v.Export(t, `{a="b"}`); !strings.Contains(text, "m_v") || !strings.Contains(text, "1.5") {
		t.Errorf("got %s", text)
	}
}
