package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
	"github.com/tailrace-cdc/tailrace/logical/logicaltest"
)

// TestMain is the program itself when the tests start it.
func TestMain(m *testing.M) {
	if os.Getenv("EMBED_RUN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// start starts the program.
func start(t *testing.T, dir, db string, more ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-dir", dir, "-db", db}, more...)...)
	cmd.Env = append(os.Environ(), "EMBED_RUN=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended, unless the test failed
	return cmd, &out
}

// add appends rows to a file, some of them of keys that there are already.
func add(t testing.TB, random *rand.Rand, path string, n int) {
	t.Helper()
	var text strings.Builder
	if _, err := os.Stat(path); err != nil {
		text.WriteString("id,name,\"the \"\"text\"\"\"\n")
	}
	for range n {
		fmt.Fprintf(&text, "%d,n%d,\"line %d\nand, more\"\n", random.IntN(200), random.IntN(1000), random.IntN(1000))
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for rest := text.String(); rest != ""; { // in pieces, as it comes from a program that writes a log
		k := min(1+random.IntN(5000), len(rest))
		if _, err := file.WriteString(rest[:k]); err != nil {
			t.Fatal(err)
		}
		rest = rest[k:]
	}
}

// TestKilledAnywhereEverythingArrives adds rows and files while the program is killed and started again,
// and compares the database with the files.
func TestKilledAnywhereEverythingArrives(t *testing.T) {
	t.Parallel()
	seed := logicaltest.Seed(t)
	random := rand.New(rand.NewPCG(seed, 1))
	dir, db := t.TempDir(), filepath.Join(t.TempDir(), "out.db")
	for range 6 {
		cmd, _ := start(t, dir, db)
		for range 4 {
			add(t, random, filepath.Join(dir, fmt.Sprintf("file%d.csv", random.IntN(3))), 1+random.IntN(2000))
			time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond) // let it come anywhere
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it says that it was killed
	}
	want, rows := files(t, dir)
	cmd, out := start(t, dir, db, "-once")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(out.String(), fmt.Sprintf("%d rows have arrived", rows)) {
		t.Errorf("there are %d rows; it says %s", rows, out)
	}
	same(t, db, want)

	cmd, out = start(t, dir, db, "-once")
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), " 0 of them now") {
		t.Errorf("started with nothing to do: %v: %s", err, out)
	}
}

// TestStopsAtASignal looks at the way in which the program ends in peace.
func TestStopsAtASignal(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	dir, db := t.TempDir(), filepath.Join(t.TempDir(), "out.db")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, dir, db, false) }()
	add(t, random, filepath.Join(dir, "late.csv"), 10)
	want, _ := files(t, dir)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if diff := compare(t, db, want); diff == "" {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(diff)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestMistakesInFilesAreTold(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"id,name\n1,a,b\n":    "3 fields and not 2",
		"id,\n1,a\n":          "column 2 has no name",
		"id,v\n1,a\"b\n2,c\n": "bare",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "bad.csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d := newDirectory(dir, func(context.Context, *logical.Relation) error { return nil })
		b, err := d.read(t.Context(), &table{path: path}, "bad.csv", position{})
		if err == nil && b != nil {
			_, err = b.mutations()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", text, err, says)
		}
	}
}

// TestDialectPassesTheSuite runs the conformance suite that every dialect should pass.
func TestDialectPassesTheSuite(t *testing.T) {
	t.Parallel()
	logicaltest.RunDialect(t, func(t testing.TB) logicaltest.Source {
		random := rand.New(rand.NewPCG(7, 7))
		dir := t.TempDir()
		for i := range 3 {
			add(t, random, filepath.Join(dir, fmt.Sprintf("file%d.csv", i)), 2*blockRows)
		}
		return logicaltest.Source{
			Transactions: 3 * 3, // the line with the names makes a third one
			Open: func(testing.TB) logical.Dialect {
				return newDirectory(dir, func(context.Context, *logical.Relation) error { return nil })
			},
			Add: func(t testing.TB) {
				file, err := os.OpenFile(filepath.Join(dir, "file1.csv"), os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				if _, err := file.WriteString("7,seven,more\n"); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "a,b\n", "a,b\nc", "\"a\nb\",c\n", "\"a\n", "a\"b\n", "\n\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rows, used, err := parse([]byte(text))
		if err != nil {
			return
		}
		if used > len(text) || used > 0 && text[used-1] != '\n' {
			t.Fatalf("%d of %d bytes were used", used, len(text))
		}
		again, more, err := parse([]byte(text[:used]))
		if err != nil || more != used || len(again) != len(rows) {
			t.Fatalf("%d rows in %d bytes; read again: %d in %d, %v", len(rows), used, len(again), more, err)
		}
	})
}

// files reads the files in the plainest way: table → key → row. Of a key the last row counts.
func files(t *testing.T, dir string) (want map[string]map[string]string, rows int) {
	t.Helper()
	want = map[string]map[string]string{}
	paths, err := filepath.Glob(filepath.Join(dir, "*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		rows += len(all) - 1
		table := map[string]string{}
		for _, row := range all[1:] {
			table[row[0]] = strings.Join(row, "|")
		}
		want[strings.TrimSuffix(filepath.Base(path), ".csv")] = table
	}
	return want, rows
}

func same(t *testing.T, db string, want map[string]map[string]string) {
	t.Helper()
	if diff := compare(t, db, want); diff != "" {
		t.Error(diff)
	}
}

// compare says in what the database differs from the files.
func compare(t *testing.T, path string, want map[string]map[string]string) string {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for table, rows := range want {
		if diff := compareTable(t, db, table, rows); diff != "" {
			return diff
		}
	}
	return ""
}

func compareTable(t *testing.T, db *sql.DB, table string, rows map[string]string) string {
	t.Helper()
	found, err := db.QueryContext(t.Context(), "SELECT id || '|' || name || '|' || \"the \"\"text\"\"\", id FROM "+quote(table))
	if err != nil {
		return err.Error()
	}
	defer found.Close()
	n := 0
	for ; found.Next(); n++ {
		var row, id string
		if err := found.Scan(&row, &id); err != nil {
			t.Fatal(err)
		}
		if rows[id] != row {
			return fmt.Sprintf("%s: the database has %q, the file %q", table, row, rows[id])
		}
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	if n != len(rows) {
		return fmt.Sprintf("%s: the database has %d rows, the file %d", table, n, len(rows))
	}
	return ""
}
