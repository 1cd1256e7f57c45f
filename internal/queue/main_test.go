package queue

import (
	"context"
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

var seedFlag = flag.Uint64("queue.seed", 0, "seed of the random tests, to replay one; also TAILRACE_SEED")

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" && !strings.HasPrefix(dir, "emfile:") {
		runChild(dir)
	}
	goleak.VerifyTestMain(m)
}

// soak reports whether the full counts are wanted.
func soak() bool { return os.Getenv("TAILRACE_SOAK") != "" }

// count returns how often to do something.
func count(reduced, full int) int {
	if soak() {
		return full
	}
	return reduced
}

// replay returns the seed that is to be replayed, or 0.
func replay() uint64 {
	seed := *seedFlag
	if s := os.Getenv("TAILRACE_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	return seed
}

func replaying() bool { return replay() != 0 }

// seeds calls run with n seeds (-1: as long as it returns true), or only with the
// one that is to be replayed.
func seeds(t *testing.T, n int, run func(t *testing.T, seed uint64) bool) {
	t.Helper()
	if seed := replay(); seed != 0 {
		run(t, seed)
		return
	}
	first := rand.Uint64() >> 20
	t.Logf("seeds from %d; replay one with -queue.seed", first)
	for i := 0; i != n; i++ {
		seed := first + uint64(i)
		ok := func() bool {
			defer func() {
				if t.Failed() {
					t.Logf("replay with -queue.seed=%d", seed)
				}
			}()
			return run(t, seed)
		}()
		if !ok || t.Failed() {
			return
		}
	}
}

var nilCtx = context.Background()

// sealFileHeadAs makes the head of a file that a later version wrote.
func sealFileHeadAs(b []byte, version uint16) {
	binary.LittleEndian.PutUint16(b[8:], version)
	binary.LittleEndian.PutUint32(b[12:], fileHeadSum(b[:fileHeadSize]))
}
