package queue

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

var seedFlag = flag.Uint64("queue.seed", 0, "seed of the random tests, to replay one; also TAILRACE_SEED")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soak reports whether the full counts are wanted.
func soak() bool { return os.Getenv("TAILRACE_SOAK") != "" }

// count returns how often to do something.
func count(reduced, full int) int {
	if soak() {
		return full
	}
	return reduced
}

// seeds calls run with n seeds, or only with the one that is to be replayed.
func seeds(t *testing.T, n int, run func(t *testing.T, seed uint64)) {
	t.Helper()
	seed := *seedFlag
	if s := os.Getenv("TAILRACE_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	if seed != 0 {
		run(t, seed)
		return
	}
	first := rand.Uint64() >> 1
	t.Logf("seeds %d to %d; replay one with -queue.seed", first, first+uint64(n)-1)
	for i := range n {
		if run(t, first+uint64(i)); t.Failed() {
			t.Fatalf("replay with -queue.seed=%d", first+uint64(i))
		}
	}
}
