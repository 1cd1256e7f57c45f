package postgres

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

var env testenv.Env

func TestMain(m *testing.M) {
	if os.Getenv(childDSN) != "" {
		os.Exit(child())
	}
	os.Exit(env.Main(m))
}

func TestConformance(t *testing.T) {
	t.Parallel()
	logicaltest.RunTarget(t, func(t testing.TB) logical.Target { return open(t, Config{}) }, conformance())
}

// TestConformanceOfOtherVersions runs the suite on a server of each version that the distribution does not
// bring.
func TestConformanceOfOtherVersions(t *testing.T) {
	t.Parallel()
	for _, version := range testenv.PostgresVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartPostgres(t, testenv.PostgresOptions{Version: version, Settings: map[string]string{"fsync": "off"}})
			if got := rows(t, open(t, Config{DSN: server.Fresh(t)}), "SHOW server_version"); !strings.HasPrefix(got[0][0], version+".") {
				t.Fatalf("the server is %s", got[0][0])
			}
			t.Run("RandomTables", func(t *testing.T) {
				t.Parallel()
				testRandomTables(t, Config{DSN: server.Fresh(t)}, testenv.Count(4, 100))
			})
			logicaltest.RunTarget(t, func(t testing.TB) logical.Target { return open(t, Config{DSN: server.Fresh(t)}) }, conformance())
		})
	}
}

// TestConformanceOfMerge takes the way by temporary tables also for small batches, with and without a pooler.
func TestConformanceOfMerge(t *testing.T) {
	t.Parallel()
	port := testenv.StartPgBouncer(t, portOf(t, open(t, Config{})))
	for _, pooled := range []bool{false, true} {
		t.Run(fmt.Sprintf("pooled %v", pooled), func(t *testing.T) {
			t.Parallel()
			logicaltest.RunTarget(t, func(t testing.TB) logical.Target {
				cfg := Config{DSN: env.Postgres(t), copyRows: 1, mergeValues: 1, Pooled: pooled}
				if pooled {
					cfg.DSN = viaPort(t, cfg.DSN, port)
				}
				return open(t, cfg)
			}, conformance())
		})
	}
}

// TestConformanceOfCopy takes the way of large batches also for small ones.
func TestConformanceOfCopy(t *testing.T) {
	t.Parallel()
	logicaltest.RunTarget(t, func(t testing.TB) logical.Target { return open(t, Config{copyRows: 1}) }, conformance())
}

func conformance() logicaltest.Options {
	return logicaltest.Options{
		Read:        readTable,
		CreateTable: createTable,
		Another: func(t testing.TB, target logical.Target) logical.Target {
			another, err := Open(t.Context(), target.(*Target).cfg)
			if err != nil {
				t.Fatal(err)
			}
			return another
		},
	}
}

// open returns a target on a fresh database, unless the configuration names one.
func open(t testing.TB, cfg Config) *Target {
	t.Helper()
	if cfg.DSN == "" {
		cfg.DSN = env.Postgres(t)
	}
	if cfg.Conns == 0 {
		cfg.Conns = 8
	}
	target, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return target
}

func take(t testing.TB, target logical.Target, loop, holder string) logical.Session {
	t.Helper()
	s, err := target.Take(t.Context(), logical.Claim{Loop: loop, Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Release(context.Background()) })
	return s
}

// connect opens a connection beside the target.
func connect(t testing.TB, target logical.Target) *pgx.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, target.(*Target).cfg.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// exec changes the database behind the target's back.
func exec(t testing.TB, target logical.Target, sql string) {
	t.Helper()
	conn := connect(t, target)
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// rows reads a query's result as text, NULL as "NULL".
func rows(t testing.TB, target logical.Target, sql string) [][]string {
	t.Helper()
	conn := connect(t, target)
	defer conn.Close(context.Background())
	results, err := conn.PgConn().Exec(t.Context(), "SET TimeZone = 'UTC'; "+sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var list [][]string
	for _, values := range results[len(results)-1].Rows {
		var row []string
		for _, v := range values {
			text := "NULL"
			if v != nil {
				text = string(v)
			}
			row = append(row, text)
		}
		list = append(list, row)
	}
	return list
}

func createTable(t testing.TB, target logical.Target, rel *logical.Relation) {
	t.Helper()
	var columns, keys []string
	for _, c := range rel.Columns {
		declared := map[logical.Kind]string{
			logical.KindInt64: "bigint", logical.KindFloat64: "float8", logical.KindBool: "boolean", logical.KindText: "text",
		}[c.Kind]
		columns = append(columns, ident.Quote(c.Name)+" "+declared)
		if c.Key {
			keys = append(keys, ident.Quote(c.Name))
		}
	}
	exec(t, target, fmt.Sprintf("CREATE TABLE %s (%s, PRIMARY KEY (%s))", ident.Quote(rel.Name), strings.Join(columns, ", "), strings.Join(keys, ", ")))
}

func readTable(t testing.TB, target logical.Target, rel *logical.Relation) []logicaltest.Row {
	t.Helper()
	var columns []string
	for _, c := range rel.Columns {
		expr := ident.Quote(c.Name) + "::text"
		if c.Role == logical.RoleTime {
			expr = `((extract(epoch FROM "time") * 1000000)::bigint * 1000 + nanos)::text`
		}
		columns = append(columns, expr)
	}
	conn := connect(t, target)
	defer conn.Close(context.Background())
	result, err := conn.Query(context.Background(), "SELECT "+strings.Join(columns, ", ")+" FROM "+ident.Quote(rel.Name), pgx.QueryExecModeExec)
	if err != nil {
		t.Fatal(err)
	}
	defer result.Close()
	var list []logicaltest.Row
	for result.Next() {
		row := logicaltest.Row{}
		for i, v := range result.RawValues() {
			if v != nil {
				row[rel.Columns[i].Name] = normal(string(v), rel.Columns[i].Kind)
			}
		}
		list = append(list, row)
	}
	if err := result.Err(); err != nil && !strings.Contains(err.Error(), "42P01") {
		t.Fatal(err)
	}
	return list
}

func normal(text string, kind logical.Kind) string {
	switch kind {
	case logical.KindUUID:
		b, _ := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		return hex.EncodeToString(b)
	case logical.KindFloat64:
		f, _ := strconv.ParseFloat(text, 64)
		return logicaltest.FloatText(f)
	}
	return text
}
