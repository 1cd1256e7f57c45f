// Package goldentest tells the behaviour of a state machine in scenarios that read like a story. In a file
// testdata/*.txt each line that starts with ">" is a command, what follows up to the next blank line is
// the answer, and "#" starts a comment. The flag -update rewrites the answers.
package goldentest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden scenarios in testdata")

// Run runs every scenario of the package under test. Each has a machine of its own: fresh returns what
// answers its commands.
func Run(t *testing.T, fresh func() func(command string) string) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			scenario(t, file, fresh())
		})
	}
}

// scenario runs the commands of a file and compares the answers with those in it.
func scenario(t *testing.T, file string, run func(command string) string) {
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
