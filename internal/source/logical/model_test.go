package logical

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seedFlag = flag.Uint64("seed", 0, "replay a randomised test with this seed")

// seedList returns many seeds, or the one that was given.
func seedList(reduced, full int) []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	n := reduced
	if os.Getenv("TAILRACE_SOAK") != "" {
		n = full
	}
	base := uint64(time.Now().UnixNano())
	all := make([]uint64, n)
	for i := range all {
		all[i] = base + uint64(i)
	}
	return all
}

// TestModel runs random histories through whole loops into the memory target, with chaos, crashes, restarts from
// stored state and changes of the mode, and judges ORDER, PREFIX, ATOMIC, CONVERGE, DRAIN and BOUNDED after every step.
func TestModel(t *testing.T) {
	t.Parallel()
	const parts = 4
	all := seedList(200, 200_000)
	var modes [parts]map[string]bool
	t.Run("seeds", func(t *testing.T) {
		for part := range parts {
			t.Run("part", func(t *testing.T) {
				t.Parallel()
				modes[part] = map[string]bool{}
				for i := part; i < len(all) && !t.Failed(); i += parts {
					s, err := simulate(t, all[i], false)
					if err != nil {
						fail(t, all[i], err)
					}
					for m := range s.modes {
						modes[part][m] = true
					}
				}
			})
		}
	})
	if *seedFlag != 0 {
		return
	}
	for _, mode := range []string{"serial", "backfill", "immediate"} {
		if !modes[0][mode] && !modes[1][mode] {
			t.Errorf("no run was ever in mode %s", mode)
		}
	}
}

// fail runs a seed again to tell what led to the failure.
func fail(t *testing.T, seed uint64, err error) {
	t.Helper()
	s, again := simulate(t, seed, true)
	if again == nil || again.Error() != err.Error() {
		t.Errorf("the seed does not replay: %v, and then %v", err, again)
	}
	t.Fatalf("seed %d: %v\nreplay with -seed=%d; the last steps were\n%s", seed, err, seed,
		strings.Join(s.trace[max(0, len(s.trace)-80):], "\n"))
}

// TestModelReplays runs seeds twice: what happens must be the same, step by step.
func TestModelReplays(t *testing.T) {
	t.Parallel()
	for _, seed := range seedList(15, 2000) {
		first, err := simulate(t, seed, true)
		if err != nil {
			fail(t, seed, err)
		}
		second, _ := simulate(t, seed, true)
		for i := range min(len(first.trace), len(second.trace)) {
			if first.trace[i] != second.trace[i] {
				t.Fatalf("seed %d: step %d of %d is %q, and then %q\nbefore it\n%s", seed, i, len(first.trace), first.trace[i], second.trace[i],
					strings.Join(first.trace[max(0, i-40):i], "\n"))
			}
		}
		if len(first.trace) != len(second.trace) {
			t.Fatalf("seed %d: %d steps, and then %d", seed, len(first.trace), len(second.trace))
		}
	}
}
