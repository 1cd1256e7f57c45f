package e2e

import (
	"bytes"
	"database/sql"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	lp "github.com/influxdata/line-protocol/v2/lineprotocol"
)

// realData are the files, with the unit of their timestamps.
var realData = map[string]lp.Precision{
	"bay-area-weather.lp": lp.Nanosecond,
	"eu-wind-data.lp":     lp.Second,
	"home-sensor-data.lp": lp.Second,
	"random-numbers.lp":   lp.Nanosecond,
}

// An oracle is what a file says must be in the target, found without any code of ours.
type oracle struct {
	measurement  string
	tags, fields map[string]bool
	points       map[string]map[string]any // fields by tags and time
}

// readOracle reads a file, which has one measurement.
func readOracle(t *testing.T, path string, precision lp.Precision) oracle {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := oracle{tags: map[string]bool{}, fields: map[string]bool{}, points: map[string]map[string]any{}}
	must := func(err error) {
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	for d := lp.NewDecoderWithBytes(bytes.TrimSpace(text)); d.Next(); {
		name, err := d.Measurement()
		must(err)
		if o.measurement == "" {
			o.measurement = string(name)
		} else if o.measurement != string(name) {
			t.Fatalf("%s has two measurements", path)
		}
		tags, fields := map[string]string{}, map[string]any{}
		for key, value, err := d.NextTag(); key != nil || err != nil; key, value, err = d.NextTag() {
			must(err)
			tags[string(key)], o.tags[string(key)] = string(value), true
		}
		for key, value, err := d.NextField(); key != nil || err != nil; key, value, err = d.NextField() {
			must(err)
			fields[string(key)], o.fields[string(key)] = value.Interface(), true
		}
		at, err := d.Time(precision, time.Time{})
		must(err)
		key := pointKey(tags, at.UnixNano())
		if o.points[key] == nil {
			o.points[key] = map[string]any{}
		}
		maps.Copy(o.points[key], fields) // a later line with the same key adds and overwrites
	}
	return o
}

func pointKey(tags map[string]string, nanos int64) string {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		fmt.Fprintf(&key, "%q=%q,", name, tags[name])
	}
	return fmt.Sprint(key.String(), nanos)
}

// compare reads the measurement's table and compares it with the file. at takes a row's time out of it.
func (o *oracle) compare(t *testing.T, db *sql.DB, at func(row map[string]any) int64) {
	t.Helper()
	rows := readTable(t, db, o.measurement)
	if len(rows) != len(o.points) {
		t.Errorf("%s: %d rows, want %d", o.measurement, len(rows), len(o.points))
	}
	wrong := 0
	seen := map[string]bool{}
	for _, row := range rows {
		tags, fields := map[string]string{}, map[string]any{}
		nanos := at(row)
		delete(row, "series")
		for name, value := range row {
			switch {
			case o.tags[name] && value != nil:
				tags[name] = value.(string)
			case o.fields[name] && value != nil:
				fields[name] = value
			case !o.tags[name] && !o.fields[name]:
				t.Fatalf("%s has a column %q", o.measurement, name)
			}
		}
		key := pointKey(tags, nanos)
		if want, ok := o.points[key]; !ok || seen[key] || !maps.Equal(want, fields) {
			if wrong++; wrong <= 5 {
				t.Errorf("%s %s: got %#v, want %#v (known: %v, twice: %v)", o.measurement, key, fields, want, ok, seen[key])
			}
		}
		seen[key] = true
	}
	t.Logf("%s: %d points", o.measurement, len(rows))
}

func readTable(t *testing.T, db *sql.DB, table string) (all []map[string]any) {
	t.Helper()
	rows, err := db.Query(`SELECT * FROM "` + table + `"`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, into := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		row := map[string]any{}
		for i, name := range names {
			row[name] = values[i]
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRealDataArrivesWithEveryValue imports the real files by the command, and reads every value back
// by SQL.
func TestRealDataArrivesWithEveryValue(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(folder); os.IsNotExist(err) {
		t.Skipf("%s does not exist", folder)
	}
	sqliteTime := func(row map[string]any) int64 {
		nanos := row["time"].(int64)
		delete(row, "time")
		return nanos
	}
	postgresTime := func(row map[string]any) int64 {
		at, nanos := row["time"].(time.Time), row["nanos"].(int64)
		if nanos < 0 || nanos > 999 || at.Nanosecond()%1000 != 0 {
			t.Errorf("time %s with %d nanoseconds", at, nanos)
		}
		delete(row, "time")
		delete(row, "nanos")
		return at.UnixNano() + nanos
	}
	for _, c := range []struct {
		name string
		args func(t *testing.T) []string
		open func(t *testing.T, p *process, args []string) *sql.DB
		time func(map[string]any) int64
	}{
		{
			name: "SQLite",
			args: func(*testing.T) []string { return nil },
			open: func(t *testing.T, p *process, _ []string) *sql.DB { return openTarget(t, p.dir) },
			time: sqliteTime,
		}, {
			name: "PostgreSQL, serial",
			args: func(t *testing.T) []string {
				return []string{"--targetConn", env.Postgres(t), "--backfillWindow", "0s"}
			},
			open: func(t *testing.T, _ *process, args []string) *sql.DB { return openPostgres(t, args[1]) },
			time: postgresTime,
		}, {
			name: "PostgreSQL, fan",
			args: func(t *testing.T) []string { return []string{"--targetConn", env.Postgres(t), "--immediate"} },
			open: func(t *testing.T, _ *process, args []string) *sql.DB { return openPostgres(t, args[1]) },
			time: postgresTime,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := c.args(t)
			p := launch(t, t.TempDir(), args...)
			db := c.open(t, p, args)
			// Twice: what is there already is written over with the same values.
			for range 2 {
				for file, precision := range realData {
					unit := map[lp.Precision]string{lp.Nanosecond: "ns", lp.Second: "s"}[precision]
					code, stdout, stderr := run(t, "", "import", "--host", p.url, "--token", p.token(), "--precision", unit,
						"--batchLines", "500", absolute(t, folder, file))
					if code != 0 || !strings.Contains(stdout, "points imported") {
						t.Fatalf("%s: exit status %d\n%s%s", file, code, stdout, stderr)
					}
				}
			}
			eventually(t, time.Minute, "not everything has arrived", func() bool {
				return p.metric("replications_queue_current_bytes_queued") == 0
			})
			for file, precision := range realData {
				o := readOracle(t, filepath.Join(folder, file), precision)
				o.compare(t, db, c.time)
			}
		})
	}
}

func absolute(t *testing.T, parts ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}
