package mode

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "rewrite the golden scenarios in testdata")

// TestCalmScenarios tells the controller's behaviour. Each line of a file in testdata that starts
// with ">" is a command, what follows up to the next blank line is the answer, and "#" starts a
// comment.
func TestCalmScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			golden(t, file, (&script{}).run)
		})
	}
}

// golden runs the commands of a scenario and compares the answers with those in the file.
func golden(t *testing.T, file string, run func(command string) string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	answer := false
	for line := range strings.Lines(string(want)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, ">"):
			fmt.Fprintln(&got, line)
			if out := run(strings.TrimSpace(line[1:])); out != "" {
				fmt.Fprintln(&got, strings.TrimRight(out, "\n"))
			}
			answer = true
		case line == "" || line[0] == '#':
			fmt.Fprintln(&got, line)
			answer = false
		case !answer:
			t.Fatalf("%s: stray line %q", file, line)
		}
	}
	if got.String() == string(want) {
		return
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s: -update rewrites it\ngot:\n%s\nwant:\n%s", file, got.String(), want)
}
