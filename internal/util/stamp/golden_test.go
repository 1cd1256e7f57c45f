package stamp

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/logical"
)

var update = flag.Bool("update", false, "rewrite the golden scenarios in testdata")

// num is a stamp that is a number.
type num int

func (n num) Compare(other logical.Stamp) int { return int(n) - int(other.(num)) }

// TestScenarios tells the queue's behaviour. Each line of a file in testdata that starts with ">" is
// a command, what follows up to the next blank line is the answer, and "#" starts a comment.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			golden(t, file, (&script{ids: map[string]ID{}}).run)
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

// A script drives one queue by commands.
type script struct {
	q   Queue
	ids map[string]ID
}

func (s *script) run(command string) string {
	word := strings.Fields(command)
	arg := func(i int) int {
		if i >= len(word) {
			return 0
		}
		n, err := strconv.Atoi(word[i])
		if err != nil {
			panic(err)
		}
		return n
	}
	switch word[0] {
	case "begin":
		id, err := s.q.Begin(num(arg(1)))
		if err != nil {
			return err.Error()
		}
		s.ids[word[1]] = id
	case "add":
		s.q.Add(arg(1))
	case "end":
		s.q.End()
	case "done":
		s.q.Done(s.ids[word[1]], arg(2))
	case "reset":
		if len(word) > 1 {
			s.q.Reset(num(arg(1)))
		} else {
			s.q.Reset(nil)
		}
	case "tx": // a transaction of so many mutations that is handed out at once
		id, err := s.q.Begin(num(arg(1)))
		if err != nil {
			return err.Error()
		}
		s.ids[word[1]] = id
		s.q.Add(arg(2))
		s.q.End()
	case "flood": // so many transactions of one mutation that land at once
		for range arg(1) {
			id, err := s.q.Begin(s.q.last.(num) + 1)
			if err != nil {
				return err.Error()
			}
			s.q.Add(1)
			s.q.End()
			s.q.Done(id, 1)
		}
	default:
		panic("unknown command " + command)
	}
	return s.state()
}

func (s *script) state() string {
	point, oldest := "none", "none"
	if p, ok := s.q.Point(); ok {
		point = fmt.Sprint(p)
	}
	if o, ok := s.q.Oldest(); ok {
		oldest = fmt.Sprint(o)
	}
	return fmt.Sprintf("point %s, oldest unfinished %s, %d entries", point, oldest, s.q.Len())
}
