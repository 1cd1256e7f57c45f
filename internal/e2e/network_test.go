package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
)

// far is a remote behind a network that can be cut.
type far struct {
	conn         string // --targetConn without host and port
	port         int
	end, restart func()
	count        func() int // of the points of m, each once
}

var fars = map[string]func(t *testing.T) far{
	"InfluxDB 1.x": func(t *testing.T) far {
		db := testenv.StartInfluxDB(t, nil)
		db.Query(t, "", "CREATE DATABASE d")
		return far{
			conn: "http://HOST?db=d", port: db.Port(), end: db.Kill, restart: func() { db.Restart(t) },
			count: func() int { return countInflux(t, db, "d") },
		}
	},
	// It keeps the last seconds in memory, so that it is stopped and not killed.
	"VictoriaMetrics": func(t *testing.T) far {
		v := testenv.StartVictoriaMetrics(t)
		return far{
			conn: "http://HOST?org=o&bucket=b", port: v.Port(), end: func() { v.Stop(t) }, restart: func() { v.Restart(t) },
			count: func() int {
				points := map[string]bool{}
				var doc struct {
					Metric     map[string]string
					Timestamps []int64
				}
				for dec := json.NewDecoder(strings.NewReader(v.Export(t, `{__name__="m_v"}`))); dec.More(); {
					if err := dec.Decode(&doc); err != nil {
						t.Fatal(err)
					}
					for _, at := range doc.Timestamps {
						points[fmt.Sprint(doc.Metric["s"], at)] = true
					}
				}
				return len(points)
			},
		}
	},
	"another Tailrace": func(t *testing.T) far {
		dir := t.TempDir()
		o, db := launch(t, dir), openTarget(t, dir)
		u, err := url.Parse(o.url)
		if err != nil {
			t.Fatal(err)
		}
		port, _ := strconv.Atoi(u.Port())
		return far{
			conn: "http://HOST?org=any&bucket=default&token=" + o.token(), port: port, end: o.kill,
			restart: func() { begin(t, dir, nil, "--dataDir", dir, "--bindAddr", net.JoinHostPort("127.0.0.1", u.Port())) },
			count: func() (n int) {
				_ = db.QueryRow("SELECT count(*) FROM m").Scan(&n) // the table is made with the first point
				return n
			},
		}
	},
}

func countInflux(t *testing.T, db *testenv.InfluxDB, name string) int {
	t.Helper()
	series := db.Query(t, name, "SELECT count(v) FROM m")
	if len(series) == 0 {
		return 0
	}
	n, err := series[0].Values[0][1].(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// TestPrefixThroughATroubledNetwork writes all the time, while the network freezes and is cut, and while the remote
// ends and comes back. In the end each write that was acknowledged is in the remote.
func TestPrefixThroughATroubledNetwork(t *testing.T) {
	t.Parallel()
	for name, open := range fars {
		for _, mode := range []string{"serial", "fan"} {
			t.Run(name+", "+mode, func(t *testing.T) {
				t.Parallel()
				troubledNetwork(t, open(t), mode == "fan")
			})
		}
	}
}

func troubledNetwork(t *testing.T, f far, fan bool) {
	link := testenv.NewLink(t, f.port)
	conn, token, _ := strings.Cut(strings.Replace(f.conn, "HOST", fmt.Sprintf("127.0.0.1:%d", link.Port()), 1), "&token=")
	args := []string{"--targetConn", conn, "--retryDelay", "20ms", "--applyTimeout", "1s", "--maxQueueSize", "1GiB"}
	if token != "" {
		args = append(args, "--targetToken", token)
	}
	if fan {
		args = append(args, "--immediate")
	}
	p := launch(t, t.TempDir(), args...)
	_, _, replication := p.defaults()
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	acked := 0
	writer.Go(func() {
		for ctx.Err() == nil {
			var lines strings.Builder
			for i := range 20 {
				fmt.Fprintf(&lines, "m,s=%d v=%d %d\n", (acked+i)%9, acked+i, 1_600_000_000_000_000_000+int64(acked+i)*1_000_000_000)
			}
			if status, text, err := p.post(p.token(), v2("default"), lines.String()); err != nil || status != http.StatusNoContent {
				t.Errorf("write: %d %s, %v", status, text, err)
				return
			}
			acked += 20
			<-time.After(5 * time.Millisecond)
		}
	})
	defer writer.Wait()
	defer stop()
	arrives := func() {
		t.Helper()
		before := f.count()
		eventually(t, time.Minute, "nothing arrives", func() bool { return f.count() > before })
	}
	fails := func() {
		t.Helper()
		eventually(t, time.Minute, "the status does not tell", func() bool {
			st := p.replication(replication)
			return st.State == "retrying" && st.Advice != "" && st.LatestErrorMessage != "" && st.LatestResponseCode != nil &&
				*st.LatestResponseCode == 0 && st.RemainingBytesToBeSynced > 0
		})
	}
	arrives()
	link.Cut()
	arrives()
	link.Freeze()
	fails()
	<-time.After(time.Duration(testenv.Count(0, 60)) * time.Second) // a minute, as people have it
	link.Cut()
	link.Thaw()
	arrives()
	f.end()
	fails()
	f.restart()
	arrives()
	stop()
	writer.Wait()
	eventually(t, 2*time.Minute, "something is missing", func() bool { return f.count() == acked })
	eventually(t, time.Minute, "the status is not that of a success", func() bool {
		st := p.replication(replication)
		return st.State == "running" && st.LatestErrorMessage == "" && st.RemainingBytesToBeSynced == 0 &&
			st.DeadLetters != nil && *st.DeadLetters == 0 && *st.LatestResponseCode == http.StatusNoContent
	})
	t.Logf("%d points were acknowledged, and are there", acked)
}
