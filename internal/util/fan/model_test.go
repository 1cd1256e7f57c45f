package fan

import (
	"strings"
	"testing"
	"testing/synctest"
)

// TestModel runs random histories through a fan on the memory target, with faults, rollbacks and
// crashes, and judges ORDER, PREFIX, CONVERGE and BOUNDED after every step.
func TestModel(t *testing.T) {
	t.Parallel()
	const parts = 4
	all := seeds(t, 120, 200_000)
	for part := range parts {
		t.Run("part", func(t *testing.T) {
			t.Parallel()
			for i := part; i < len(all) && !t.Failed(); i += parts {
				if simulate(t, all[i], false).err != nil {
					s := simulate(t, all[i], true)
					t.Fatalf("seed %d: %v\nreplay with -seed=%d; the last steps were\n%s", all[i], s.err, all[i],
						strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))
				}
			}
		})
	}
}

// TestModelReplays runs seeds twice: what happens must be the same, step by step.
func TestModelReplays(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 12, 2000) {
		first, second := simulate(t, seed, true).trace, simulate(t, seed, true).trace
		for i := range min(len(first), len(second)) {
			if first[i] != second[i] {
				t.Fatalf("seed %d: step %d is %q, and then %q", seed, i, first[i], second[i])
			}
		}
		if len(first) != len(second) {
			t.Fatalf("seed %d: %d steps, and then %d", seed, len(first), len(second))
		}
	}
}

func simulate(t *testing.T, seed uint64, tracing bool) (s *sim) {
	synctest.Test(t, func(*testing.T) {
		s = newSim(seed)
		s.tracing = tracing
		if s.err = s.run(); s.err != nil {
			s.shut()
		}
	})
	return s
}

// shut ends a simulation that has failed.
func (s *sim) shut() {
	s.faulty = 0
	s.cancel()
	if s.fan != nil {
		_ = s.fan.Close(s.ctx)
	}
	_ = s.target.Close()
}
