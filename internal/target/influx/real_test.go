package influx_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	"github.com/tailrace-cdc/tailrace/internal/target/influx"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
)

// points is what a database holds: the text of each field by series, time and name.
type points map[string]string

func pointKey(measurement string, tags map[string]string, at string, field string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q", measurement)
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		fmt.Fprintf(&b, ",%q=%q", k, tags[k])
	}
	fmt.Fprintf(&b, " %s %q", at, field)
	return b.String()
}

// add decodes a line by other means than the code under test.
func (p points) add(t testing.TB, line string) {
	t.Helper()
	dec := lineprotocol.NewDecoderWithBytes([]byte(line))
	for dec.Next() {
		measurement, err := dec.Measurement()
		must(t, err)
		name, tags, fields := string(measurement), map[string]string{}, map[string]string{}
		for {
			key, value, err := dec.NextTag()
			must(t, err)
			if key == nil {
				break
			}
			tags[string(key)] = string(value)
		}
		for {
			key, value, err := dec.NextField()
			must(t, err)
			if key == nil {
				break
			}
			if fields[string(key)] = fmt.Sprint(value.Interface()); value.Kind() == lineprotocol.String {
				fields[string(key)] = value.StringV()
			}
			if value.Kind() == lineprotocol.Float {
				fields[string(key)] = strconv.FormatFloat(value.FloatV(), 'g', -1, 64)
			}
		}
		at, err := dec.Time(lineprotocol.Nanosecond, time.Time{})
		must(t, err)
		for field, value := range fields {
			p[pointKey(name, tags, fmt.Sprint(at.UnixNano()), field)] = value
		}
	}
}

// readInfluxDB reads everything that is in a database.
func readInfluxDB(t testing.TB, db *testenv.InfluxDB, name string) points {
	t.Helper()
	return readFrom(t, db, name, "/.*/")
}

// readFrom reads measurements of any retention policy.
func readFrom(t testing.TB, db *testenv.InfluxDB, name, from string) points {
	t.Helper()
	p := points{}
	for _, s := range db.Query(t, name, "SELECT * FROM "+from+" GROUP BY *") {
		tags := map[string]string{}
		for k, v := range s.Tags {
			if v != "" { // a series of the same measurement has it
				tags[k] = v
			}
		}
		for _, row := range s.Values {
			for i, v := range row[1:] {
				if v == nil {
					continue
				}
				text := fmt.Sprint(v)
				if n, ok := v.(json.Number); ok && strings.ContainsAny(text, ".eE") {
					f, err := n.Float64()
					must(t, err)
					text = strconv.FormatFloat(f, 'g', -1, 64)
				}
				p[pointKey(s.Name, tags, fmt.Sprint(row[0]), s.Columns[i+1])] = text
			}
		}
	}
	return p
}

func samePoints(t testing.TB, got, want points) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d values, want %d", len(got), len(want))
	}
	wrong := 0
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			if wrong++; wrong < 10 {
				t.Errorf("%s is %q (there: %v), want %q", k, g, ok, v)
			}
		}
	}
}

// nasty returns a random line of names and values that need care.
func nasty(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	var b strings.Builder
	b.WriteString(pick("m", `two\ words`, `comma\,`, `eq=ual`, "ümläut", `back\slash`, `"quoted"`))
	for _, tag := range []string{"a", `t\ a\,g\=`, "ß"} {
		if r.IntN(2) == 0 {
			fmt.Fprintf(&b, ",%s=%s", tag, pick("1", `x\ y`, `a\,b`, `c\=d`, "日本", `"q"`, `in\side`))
		}
	}
	var fields []string
	if r.IntN(2) == 0 {
		fields = append(fields, fmt.Sprintf("f=%s", pick("1", "-0.5", "1e300", "123456.789", ".5", fmt.Sprint(r.Float64()))))
	}
	if r.IntN(2) == 0 {
		fields = append(fields, fmt.Sprintf("i=%di", pick2(r, -9223372036854775808, 9223372036854775807, 9007199254740993, r.Int64())))
	}
	if r.IntN(2) == 0 {
		fields = append(fields, "b="+pick("t", "F", "true", "FALSE"))
	}
	if len(fields) == 0 || r.IntN(2) == 0 {
		fields = append(fields, "s="+pick(`""`, `"plain"`, `"quo\"te"`, `"back\\slash"`, `"a, b=c d"`, "\"two\nlines\"", `"é日本"`, `"# no comment"`, `"C:\\dir"`))
	}
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	fmt.Fprintf(&b, " %s %d", strings.Join(fields, ","), pick2(r, 1, 1_600_000_000_000_000_001, 1_700_000_000_123_456_789, int64(r.IntN(50))))
	return b.String()
}

func pick2(r *rand.Rand, list ...int64) int64 { return list[r.IntN(len(list))] }

// TestConvergeValuesInInfluxDB compares what InfluxDB 1.x returns with what was written, many points of it over
// points that were there.
func TestConvergeValuesInInfluxDB(t *testing.T) {
	t.Parallel()
	db := testenv.StartInfluxDB(t, nil)
	bothModes(t, func(t *testing.T, loop logical.Config) {
		random := seeded(t)
		name := fmt.Sprintf("values_%v", loop.Immediate)
		db.Query(t, "", "CREATE DATABASE "+name)
		r := newRig(t, t.TempDir(), influx.Config{URL: db.URL(), Bucket: name, Compression: influx.CompressGzip}, loop)
		want := points{}
		for range testenv.Count(60, 1000) {
			var batch []string
			for range 1 + random.IntN(100) {
				line := nasty(random)
				batch = append(batch, line)
				want.add(t, line)
			}
			r.write(batch...)
		}
		st := r.settled()
		if kept, reasons := r.aside(); len(kept) > 0 || st.Loop.Rejected > 0 {
			t.Fatalf("set aside: %q %q", kept, reasons)
		}
		samePoints(t, readInfluxDB(t, db, name), want)
		if facts := r.target.Facts(); facts.Kind != influx.V1 || facts.Version == "" || !facts.Recognised {
			t.Errorf("the facts are %+v", facts)
		}
	})
}

// TestOrderThroughTroubleInInfluxDB overwrites the same points while the network is cut and the server is
// killed. What is there in the end is what was written last (ORDER, per series; PREFIX: without a gap).
func TestOrderThroughTroubleInInfluxDB(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, loop logical.Config) {
		db := testenv.StartInfluxDB(t, nil)
		db.Query(t, "", "CREATE DATABASE d")
		link := testenv.NewLink(t, db.Port())
		loop.ApplyTimeout = 2 * time.Second
		url := fmt.Sprintf("http://127.0.0.1:%d", link.Port())
		r := newRig(t, t.TempDir(), influx.Config{URL: url, Bucket: "d"}, loop)
		want := points{}
		n := 0
		round := func(writes int) {
			for range writes {
				var batch []string
				for range 50 {
					n++
					batch = append(batch, fmt.Sprintf("m,s=%d v=%di,w%d=%di %d", n%7, n, n%3, n, n%11), fmt.Sprintf("all n=%di %d", n, n))
				}
				for _, l := range batch {
					want.add(t, l)
				}
				r.write(batch...)
			}
		}
		for range testenv.Count(2, 20) {
			round(10)
			link.Cut()
			round(10)
			link.Freeze()
			round(5)
			r.until("the frozen link is not told", func(st influxlogical.Status) bool { return st.Loop.Err != nil })
			link.Cut()
			link.Thaw()
			round(10)
			db.Kill()
			round(10)
			r.until("the dead server is not told", func(st influxlogical.Status) bool { return st.Loop.Err != nil })
			db.Restart(t)
			round(10)
		}
		r.settled()
		samePoints(t, readInfluxDB(t, db, "d"), want)
		if kept, _ := r.aside(); len(kept) > 0 {
			t.Errorf("set aside: %q", kept)
		}
	})
}

// TestNothingSilentInInfluxDB has a real server reject points, for its own reasons.
func TestNothingSilentInInfluxDB(t *testing.T) {
	t.Parallel()
	db := testenv.StartInfluxDB(t, map[string]string{"http": "max-body-size = 3000", "data": "max-values-per-tag = 20"})
	bothModes(t, func(t *testing.T, loop logical.Config) {
		name := fmt.Sprintf("rejects_%v", loop.Immediate)
		db.Query(t, "", "CREATE DATABASE "+name)
		db.Query(t, "", "CREATE RETENTION POLICY short ON "+name+" DURATION 1h REPLICATION 1")
		r := newRig(t, t.TempDir(), influx.Config{URL: db.URL(), Bucket: name + "/short"}, loop)
		now := time.Now().UnixNano()
		line := func(text string, i int) string { return fmt.Sprintf("%s %d", text, now+int64(i)) }
		r.write(line("m,s=1 v=1", 0), line("old v=1", 0))
		r.settled()
		want := points{}
		want.add(t, line("m,s=1 v=1", 0))
		want.add(t, line("old v=1", 0))
		var batch, bad []string
		for i := range 300 {
			switch {
			case i%60 == 7:
				bad = append(bad, line(`m,s=1 v="text"`, i))
				batch = append(batch, bad[len(bad)-1])
			case i%90 == 11:
				bad = append(bad, fmt.Sprintf("old v=1 %d", i))
				batch = append(batch, bad[len(bad)-1])
			case i == 200:
				bad = append(bad, line("m u=18446744073709551615u", i)) // this version cannot
				batch = append(batch, bad[len(bad)-1])
			case i == 201:
				bad = append(bad, line(`m s="`+strings.Repeat("x", 4000)+`"`, i)) // larger than its bodies
				batch = append(batch, bad[len(bad)-1])
			default:
				batch = append(batch, line(fmt.Sprintf("m,s=%d v=%d.5", i%5, i), i))
				want.add(t, batch[len(batch)-1])
			}
		}
		r.write(batch[:150]...)
		r.write(batch[150:]...)
		st := r.settled()
		kept, reasons := r.aside()
		sameLines(t, "set aside", kept, bad)
		if st.Loop.Rejected != int64(len(bad)) {
			t.Errorf("%d rejected, want %d", st.Loop.Rejected, len(bad))
		}
		for _, reason := range []string{"field type conflict", "beyond retention policy", "invalid number", "413"} {
			if !strings.Contains(strings.Join(reasons, "\n"), reason) {
				t.Errorf("no letter says %q: %q", reason, reasons)
			}
		}
		if n := r.target.Facts().RequestBytes; n > 3000 {
			t.Errorf("requests may be %d bytes", n)
		}
		samePoints(t, readFrom(t, db, name, fmt.Sprintf("%q.short./.*/", name)), want)

		// Tags beyond the server's limit.
		batch = nil
		for i := range 30 {
			batch = append(batch, line(fmt.Sprintf("tv,t=%d v=1", i), i))
		}
		r.write(batch[:20]...)
		r.settled()
		r.write(batch...)
		r.settled()
		after, _ := r.aside()
		if len(after) != len(kept)+10 {
			t.Errorf("%d letters after ten tags too many, want %d", len(after), len(kept)+10)
		}
	})
}

// TestBucketThatIsGone drops the database, and makes it again: what is written meanwhile waits.
func TestBucketThatIsGone(t *testing.T) {
	t.Parallel()
	db := testenv.StartInfluxDB(t, nil)
	db.Query(t, "", "CREATE DATABASE d")
	r := newRig(t, t.TempDir(), influx.Config{URL: db.URL(), Bucket: "d"}, logical.Config{})
	r.write("m v=1i 1")
	r.settled()
	db.Query(t, "", "DROP DATABASE d")
	r.write("m v=2i 2", "m v=3i 3")
	r.until("it is not told", func(st influxlogical.Status) bool {
		return st.Loop.Err != nil && strings.Contains(st.Loop.Err.Error(), "bucket d is gone") && strings.Contains(logical.HintOf(st.Loop.Err), "waits in the queue")
	})
	if facts := r.target.Facts(); facts.LatestResponseCode != 404 {
		t.Errorf("the facts are %+v", facts)
	}
	db.Query(t, "", "CREATE DATABASE d")
	r.settled()
	want := points{}
	want.add(t, "m v=2i 2\nm v=3i 3\n")
	samePoints(t, readInfluxDB(t, db, "d"), want)
	if kept, _ := r.aside(); len(kept) > 0 {
		t.Errorf("set aside: %q", kept)
	}
}

// TestVictoriaMetricsByTheRouteOf2 writes through a network that is cut, and counts samples.
func TestVictoriaMetricsByTheRouteOf2(t *testing.T) {
	t.Parallel()
	v := testenv.StartVictoriaMetrics(t)
	bothModes(t, func(t *testing.T, loop logical.Config) {
		link := testenv.NewLink(t, v.Port())
		name := fmt.Sprintf("vm%v", loop.Immediate)
		loop.ApplyTimeout = 2 * time.Second
		r := newRig(t, t.TempDir(), influx.Config{URL: fmt.Sprintf("http://127.0.0.1:%d", link.Port()), Org: "o"}, loop)
		const n = 3000
		for i := 0; i < n; i += 100 {
			var batch []string
			for j := i; j < i+100; j++ {
				batch = append(batch, fmt.Sprintf("%s,s=%d value=%d %d", name, j%9, j, 1_600_000_000_000_000_000+int64(j)*1_000_000_000))
			}
			if i == 1000 {
				link.Cut()
			}
			r.write(batch...)
		}
		r.settled()
		var doc struct {
			Metric     map[string]string
			Values     []float64
			Timestamps []int64
		}
		got := map[string]bool{}
		for dec := json.NewDecoder(strings.NewReader(v.Export(t, `{__name__=~"`+name+`.*"}`))); dec.More(); {
			must(t, dec.Decode(&doc))
			for i, value := range doc.Values {
				got[fmt.Sprintf("%s %v %d", doc.Metric["s"], value, doc.Timestamps[i]/1000-1_600_000_000)] = true
			}
		}
		for j := range n {
			if key := fmt.Sprintf("%d %d %d", j%9, j, j); !got[key] {
				t.Fatalf("%d samples, and %q is not among them", len(got), key)
			}
		}
		if facts := r.target.Facts(); facts.Kind != influx.V2 || facts.PointsSent < n {
			t.Errorf("the facts are %+v", facts)
		}
	})
}
