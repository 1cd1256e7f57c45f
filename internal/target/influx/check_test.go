package influx_test

import (
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/target/influx"
)

// TestCheckOfInfluxDB3 tells that there is nothing to write from everything else that begins with no.
func TestCheckOfInfluxDB3(t *testing.T) {
	t.Parallel()
	for answer, good := range map[string]bool{
		`{"error":"write buffer error: no lines to write"}`:   true,
		`{"error":"incoming write was empty"}`:                true,
		`{"error":"there is no database of that name"}`:       false,
		`{"error":"the proxy has no route"}`:                  false,
		`<html>no lines at all: a page of the proxy's</html>`: false,
	} {
		f := newFake(t, "3.0.1")
		f.behave(say(400, answer))
		target, err := influx.Open(influx.Config{URL: f.URL, Kind: influx.V3, Bucket: "b"})
		if err != nil {
			t.Fatal(err)
		}
		if err := target.Check(t.Context()); (err == nil) != good {
			t.Errorf("%s: %v", strings.TrimSpace(answer), err)
		}
		_ = target.Close()
	}
}
