package filter

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seedFlag = flag.Uint64("seed", 0, "replay a randomised test with this seed")

// seeded returns random numbers whose seed is printed, and can be given by -seed or TAILRACE_SEED.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed, _ = strconv.ParseUint(os.Getenv("TAILRACE_SEED"), 10, 64)
	}
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// soak returns few, or many if TAILRACE_SOAK is set.
func soak(few, many int) int {
	if os.Getenv("TAILRACE_SOAK") != "" {
		return many
	}
	return few
}

// blocks normalises lines; bad ones are left out.
func blocks(tb testing.TB, lines string) []lineprotocol.Block {
	tb.Helper()
	var n lineprotocol.Normalizer
	res, err := n.Normalize(strings.NewReader(lines), lineprotocol.Options{Mode: lineprotocol.Partial, Now: time.Unix(1, 0)})
	if err != nil {
		tb.Fatal(err)
	}
	return res.Blocks
}

// sift returns the lines that pass.
func sift(tb testing.TB, f *Filter, all []lineprotocol.Block) string {
	tb.Helper()
	var s Sieve
	var out strings.Builder
	for _, b := range all {
		before := bytes.Clone(b.Data)
		kept, err := s.Block(f, b)
		if err != nil {
			tb.Fatal(err)
		}
		if !bytes.Equal(before, b.Data) {
			tb.Fatalf("%q was changed into %q", before, b.Data)
		}
		out.Write(kept.Data)
	}
	return out.String()
}

func compile(tb testing.TB, c Config) *Filter {
	tb.Helper()
	f, err := Compile(c)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// benchBody is what a typical agent sends: three tags and three fields a line.
func benchBody(lines int) string {
	rnd := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "cpu,host=server%02d,region=eu-central-%d,cpu=cpu%d usage_user=%.3f,usage_system=%.3f,ticks=%di %d\n",
			i%50, i%3, i%16, rnd.Float64()*100, rnd.Float64()*100, rnd.IntN(1e9), 1700000000000000000+int64(i)*1e7)
	}
	return b.String()
}
