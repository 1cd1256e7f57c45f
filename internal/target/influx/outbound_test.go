package influx_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/internal/util/outbound"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A host that the operator does not allow is not connected to; why is said, and the data waits.
func TestHostsThatAreNotAllowed(t *testing.T) {
	t.Parallel()
	for list, ok := range map[string]bool{"10.0.0.0/8": false, "127.0.0.1": true} {
		remote := newFake(t, "v2.7.1")
		u, err := url.Parse(remote.URL)
		must(t, err)
		policy, err := outbound.NewPolicy([]string{list})
		must(t, err)
		for _, host := range []string{u.Hostname(), "localhost"} {
			r := newRig(t, t.TempDir(), influx.Config{URL: "http://" + host + ":" + u.Port(), Outbound: policy}, logical.Config{})
			r.write("m v=1 1")
			if ok {
				r.settled()
				continue
			}
			r.until("it does not fail", func(st influxlogical.Status) bool { return st.Loop.Err != nil })
			if st := r.stream.Status(); !strings.Contains(st.Loop.Err.Error(), "--allowRemoteHosts") || st.Queue.UnsentBytes == 0 {
				t.Errorf("%s: %v, %d bytes wait", host, st.Loop.Err, st.Queue.UnsentBytes)
			}
			if n := len(remote.writes()); n > 0 {
				t.Errorf("%s: %d requests came", host, n)
			}
		}
	}
}
