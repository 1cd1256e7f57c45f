package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// hostPoint is a point of a measurement with the tags host and region; an empty one is absent.
func hostPoint(ns int64, series byte, host, region string, v int64) logical.Mutation {
	rel := logicaltest.Points("m", []string{"host", "region"}, logicaltest.Field("v", logical.KindInt64))
	tag := func(s string) logical.Value {
		if s == "" {
			return logical.Value{}
		}
		return logical.Text(s)
	}
	return logicaltest.Point(rel, ns, series, tag(host), tag(region), logical.Int64(v))
}

// A table that the user made is used as it is if its key tells points apart.
func TestTableOfTheUsersHoldsPoints(t *testing.T) {
	t.Parallel()
	for name, ddl := range map[string]string{
		"tags not null": `CREATE TABLE m ("time" timestamptz, nanos smallint, host text NOT NULL DEFAULT '', region text NOT NULL DEFAULT '',
			rack text NOT NULL DEFAULT '', v bigint, PRIMARY KEY (host, region, rack, "time", nanos))`,
		"nulls not distinct": `CREATE TABLE m ("time" timestamptz NOT NULL, nanos int NOT NULL, host text, region text, rack text, v numeric,
			UNIQUE NULLS NOT DISTINCT ("time", host, region, rack, nanos))`,
		"series":           `CREATE TABLE m (id bigint GENERATED ALWAYS AS IDENTITY, v bigint, host text, region varchar(50), series uuid, "time" timestamptz, nanos smallint, PRIMARY KEY (series, "time", nanos))`,
		"required field":   `CREATE TABLE m ("time" timestamptz, nanos smallint, series uuid, host text, region text, v bigint NOT NULL, PRIMARY KEY ("time", series, nanos))`,
		"partitioned":      `CREATE TABLE m ("time" timestamptz, nanos smallint, series uuid, host text, region text, v bigint, PRIMARY KEY ("time", series, nanos)) PARTITION BY RANGE ("time"); CREATE TABLE m1 PARTITION OF m DEFAULT`,
		"generated column": `CREATE TABLE m ("time" timestamptz, nanos smallint, series uuid, host text, region text, v bigint, w bigint GENERATED ALWAYS AS (v * 2) STORED, PRIMARY KEY ("time", series, nanos))`,
	} {
		for _, copyRows := range []int{1, 1000} {
			t.Run(fmt.Sprint(name, " ", copyRows), func(t *testing.T) {
				t.Parallel()
				target := open(t, Config{copyRows: copyRows})
				s := take(t, target, "loop", "me")
				exec(t, target, ddl)
				for _, muts := range [][]logical.Mutation{
					{hostPoint(1001, 1, "a", "x", 1), hostPoint(1002, 1, "a", "x", 2), hostPoint(1001, 2, "a", "", 3), hostPoint(1001, 3, "", "", 4)},
					{hostPoint(1001, 2, "a", "", 5), hostPoint(1001, 1, "a", "x", 6), hostPoint(1001, 3, "", "", 7)},
				} {
					if err := logicaltest.Apply(t.Context(), s, muts...); err != nil {
						t.Fatal(err)
					}
				}
				got := rows(t, target, `SELECT nanos, coalesce(host, ''), coalesce(region, ''), v FROM m ORDER BY 4`)
				if want := "[[2 a x 2] [1 a  5] [1 a x 6] [1   7]]"; fmt.Sprint(got) != want {
					t.Errorf("got  %v\nwant %v", got, want)
				}
			})
		}
	}
}

// Without a column for them nanoseconds are cut off, and points that meet are merged.
func TestPointsMeetInATableWithoutNanos(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	exec(t, target, `CREATE TABLE m ("time" timestamptz, series uuid, host text, region text, v bigint, PRIMARY KEY ("time", series))`)
	if err := logicaltest.Apply(t.Context(), s, hostPoint(1001, 1, "a", "x", 1), hostPoint(1999, 1, "a", "x", 2), hostPoint(2000, 1, "a", "x", 3)); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, target, `SELECT v FROM m ORDER BY "time"`); fmt.Sprint(got) != "[[2] [3]]" {
		t.Errorf("got %v", got)
	}
	if n := target.cfg.Tally.Collisions.Load(); n != 1 {
		t.Errorf("%d collisions are counted, want 1", n)
	}
}

// TestPointsMeetInATableOfLessPrecision: the server rounds their times, and so does whoever compares their keys.
func TestPointsMeetInATableOfLessPrecision(t *testing.T) {
	t.Parallel()
	for _, column := range []string{"timestamptz(3)", "timestamp(3)", "milli"} {
		for _, copyRows := range []int{1, 1000} {
			t.Run(fmt.Sprint(column, " ", copyRows), func(t *testing.T) {
				t.Parallel()
				target := open(t, Config{copyRows: copyRows})
				s := take(t, target, "loop", "me")
				exec(t, target, `CREATE DOMAIN milli AS timestamptz(3); CREATE TABLE m ("time" `+column+`, series uuid, host text, region text, v bigint, PRIMARY KEY ("time", series))`)
				const second = 1_000_000_000
				if err := logicaltest.Apply(t.Context(), s, hostPoint(second+1_000, 1, "a", "x", 1), hostPoint(second+2_000, 1, "a", "x", 2),
					hostPoint(second+499_999, 1, "a", "x", 3), hostPoint(second+500_000, 1, "a", "x", 4), hostPoint(-500_000, 1, "a", "x", 5)); err != nil {
					t.Fatal(err)
				}
				for n := range int64(2) {
					if err := logicaltest.Apply(t.Context(), s, hostPoint(2*second+n*1000, 1, "a", "x", 6+n)); err != nil {
						t.Fatal(err)
					}
				}
				// 499,999 ns are 499 µs, and less than half a millisecond; before 2000 half of one goes down.
				got := rows(t, target, `SELECT extract(epoch FROM "time") * 1000, v FROM m ORDER BY "time"`)
				if want := "[[-1.000000 5] [1000.000000 4] [2000.000000 7]]"; fmt.Sprint(got) != want {
					t.Errorf("got  %v\nwant %v", got, want)
				}
				if n := target.cfg.Tally.Collisions.Load(); n != 3 { // of those in one batch
					t.Errorf("%d collisions are counted, want 3", n)
				}
			})
		}
	}
}

func TestTableOfTheUsersThatCannotHoldPoints(t *testing.T) {
	t.Parallel()
	for ddl, parts := range map[string][]string{
		`CREATE TABLE m ("time" timestamptz, nanos smallint, host text, region text, v bigint)`:                                                  {"public", `"m"`, "unique"},
		`CREATE TABLE m ("time" timestamptz, host text NOT NULL, region text NOT NULL DEFAULT '', v bigint, PRIMARY KEY ("time", host, region))`: {"DEFAULT ''"},
		`CREATE TABLE m ("time" timestamptz, host text NOT NULL DEFAULT '', region text, v bigint, PRIMARY KEY ("time", host))`:                  {"all tags"},
		`CREATE TABLE m ("time" bigint, nanos smallint, series uuid, host text, region text, v bigint, PRIMARY KEY ("time", series, nanos))`:     {"timestamptz"},
		`CREATE TABLE m ("time" timestamptz, nanos smallint, series uuid, host text, region text, PRIMARY KEY ("time", series, nanos))`:          {`no column "v"`, `ALTER TABLE "public"."m" ADD COLUMN "v" bigint`},
		`CREATE MATERIALIZED VIEW m AS SELECT now() AS "time"`:                                                                                   {"view"},
	} {
		target := open(t, Config{})
		s := take(t, target, "loop", "me")
		exec(t, target, ddl)
		wantRetry(t, ddl, logicaltest.Apply(t.Context(), s, hostPoint(1, 1, "a", "x", 1)), parts...)
		exec(t, target, "ALTER TABLE m RENAME TO theirs")
		if err := logicaltest.Apply(t.Context(), s, hostPoint(1, 1, "a", "x", 1)); err != nil {
			t.Errorf("%s: it does not heal: %v", ddl, err)
		}
	}
}

func TestNamesOfPoints(t *testing.T) {
	t.Parallel()
	target := open(t, Config{})
	s := take(t, target, "loop", "me")
	long := strings.Repeat("long ", 20)
	rel := logicaltest.Points(long+`"m".x`, []string{"time", "host", "Host", `a"b`}, logicaltest.Field("series", logical.KindInt64),
		logicaltest.Field("nanos", logical.KindInt64), logicaltest.Field("host", logical.KindInt64), logicaltest.Field("x\x00y\xff", logical.KindInt64), logicaltest.Field(long, logical.KindInt64))
	i, x := logical.Int64, logical.Text
	if err := logicaltest.Apply(t.Context(), s, logicaltest.Point(rel, 1, 1, x("t"), x("h"), x("H"), x("q"), i(1), i(2), i(3), i(4), i(5))); err != nil {
		t.Fatal(err)
	}
	got := rows(t, target, `SELECT string_agg(column_name, '|' ORDER BY ordinal_position), max(table_name) FROM information_schema.columns WHERE table_schema = 'public'`)
	want := `time|series|nanos|time_tag|host|Host|a"b|series_field|nanos_field|host_field|x_y__294a1bb0|` + long[:54] + `_2307d80c`
	if got[0][0] != want || !strings.HasPrefix(got[0][1], long[:54]+"_") {
		t.Errorf("got  %q\nwant %q", got[0], want)
	}
	// What was chosen stays, for a target that starts anew.
	again := open(t, target.cfg)
	if err := logicaltest.Apply(t.Context(), take(t, again, "loop", "me"), logicaltest.Point(rel, 2, 1, x("t"), x("h"), x("H"), x("q"), i(1), i(2), i(3), i(4), i(5))); err != nil {
		t.Fatal(err)
	}
	if got := rows(t, target, `SELECT count(*) FROM information_schema.columns WHERE table_schema = 'public'`); got[0][0] != "12" {
		t.Errorf("%s columns", got[0][0])
	}
}

func TestSchemaChangedUnderneath(t *testing.T) {
	t.Parallel()
	target := open(t, Config{copyRows: 1})
	s := take(t, target, "loop", "me")
	apply := func(mut logical.Mutation) error {
		var err error
		for range 3 { // what was changed is found by failing, and read again
			if err = logicaltest.Apply(t.Context(), s, mut); err == nil || logical.ClassOf(err) != logical.ClassRetry {
				return err
			}
		}
		return err
	}
	for n, sql := range []string{
		"SELECT 1", "DROP TABLE m", "ALTER TABLE m RENAME COLUMN v TO old", "ALTER TABLE m ALTER COLUMN v TYPE float8", "ALTER TABLE m ALTER COLUMN v TYPE text",
		"ALTER TABLE m DROP COLUMN v", "ALTER TABLE m ADD COLUMN other int NOT NULL DEFAULT 7", "ALTER TABLE m ADD COLUMN must int NOT NULL DEFAULT 1; ALTER TABLE m ALTER COLUMN must DROP DEFAULT",
	} {
		if n > 0 {
			exec(t, target, sql)
		}
		err := apply(hostPoint(int64(n), 1, "a", "x", int64(n)))
		if strings.Contains(sql, "must") {
			if logical.ClassOf(err) != logical.ClassReject || !strings.Contains(err.Error(), "must") {
				t.Errorf("%s: %v", sql, err)
			}
			continue
		}
		if strings.Contains(sql, "TYPE text") { // a field of integers in a column of texts: nothing is lost, and the types differ
			if err != nil && logical.ClassOf(err) != logical.ClassReject {
				t.Errorf("%s: %v", sql, err)
			}
			exec(t, target, "DROP TABLE m")
			if err := apply(hostPoint(int64(n), 1, "a", "x", int64(n))); err != nil {
				t.Errorf("after %s: %v", sql, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		if got := rows(t, target, fmt.Sprintf("SELECT v FROM m WHERE nanos = %d", n)); len(got) != 1 || got[0][0] != fmt.Sprint(n) {
			t.Errorf("%s: got %v", sql, got)
		}
	}
}
