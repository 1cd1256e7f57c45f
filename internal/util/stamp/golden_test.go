package stamp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/util/goldentest"
	"github.com/tailrace-cdc/tailrace/logical"
)

// num is a stamp that is a number.
type num int

func (n num) Compare(other logical.Stamp) int { return int(n) - int(other.(num)) }

// TestScenarios tells the queue's behaviour.
func TestScenarios(t *testing.T) {
	t.Parallel()
	goldentest.Run(t, func() func(string) string { return (&script{ids: map[string]ID{}}).run })
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
