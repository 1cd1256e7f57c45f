package stamp

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seedFlag = flag.Uint64("seed", 0, "replay one seed of the randomised tests")

// seeds returns the seeds to try: the one of -seed or TAILRACE_SEED, or n of them.
func seeds(t *testing.T, n, soak uint64) []uint64 {
	t.Helper()
	one := *seedFlag
	if s := os.Getenv("TAILRACE_SEED"); s != "" {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		one = v
	}
	if one != 0 {
		return []uint64{one}
	}
	if os.Getenv("TAILRACE_SOAK") != "" {
		n = soak
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = uint64(i) + 1
	}
	return all
}

// tx is a transaction of the model, which keeps them all and looks at them all.
type tx struct {
	id          ID
	stamp       num
	outstanding int
	ended       bool
}

func (t *tx) finished() bool { return t.ended && t.outstanding == 0 }

// TestPrefixAgainstModel compares the queue with a list that is scanned, after every step.
func TestPrefixAgainstModel(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(t, 300, 20000) {
		if !modelRun(t, seed) {
			t.Fatalf("seed %d failed; replay with -seed=%d", seed, seed)
		}
	}
}

func modelRun(t *testing.T, seed uint64) bool {
	rng := rand.New(rand.NewPCG(seed, 0))
	var q Queue
	var all []tx
	next := num(1)
	for range 400 {
		switch open := len(all) > 0 && !all[len(all)-1].ended; {
		case rng.IntN(200) == 0: // rollback
			q.Reset(nil)
			if p, ok := q.Point(); ok {
				next = p.(num) + 1
			}
			kept := all[:0]
			for _, x := range all {
				if p, ok := q.Point(); ok && x.stamp <= p.(num) {
					kept = append(kept, x)
				}
			}
			all = kept
		case !open && rng.IntN(3) > 0:
			id, err := q.Begin(next)
			if err != nil {
				t.Error(err)
				return false
			}
			all = append(all, tx{id: id, stamp: next})
			next += num(1 + rng.IntN(3))
		case open && rng.IntN(2) == 0:
			n := rng.IntN(4)
			q.Add(n)
			all[len(all)-1].outstanding += n
		case open && rng.IntN(2) == 0:
			q.End()
			all[len(all)-1].ended = true
		default:
			land(rng, &q, all)
		}
		if !agree(t, &q, all) {
			return false
		}
	}
	return true
}

// land counts out some mutations of some transaction, of the newer half more often.
func land(rng *rand.Rand, q *Queue, all []tx) {
	for range 8 {
		if len(all) == 0 {
			return
		}
		x := &all[len(all)-1-rng.IntN(min(len(all), 12))]
		if x.outstanding > 0 {
			n := 1 + rng.IntN(x.outstanding)
			q.Done(x.id, n)
			x.outstanding -= n
			return
		}
	}
}

func agree(t *testing.T, q *Queue, all []tx) bool {
	point, oldest, unfinished := num(0), num(0), 0
	for i := range all {
		switch {
		case !all[i].finished():
			if s := q.Stamp(all[i].id); s != logical.Stamp(all[i].stamp) {
				t.Errorf("stamp %v, want %v", s, all[i].stamp)
				return false
			}
			if unfinished++; unfinished == 1 {
				oldest = all[i].stamp
			}
		case unfinished == 0:
			point = all[i].stamp
		}
	}
	gotPoint, _ := q.Point()
	gotOldest, _ := q.Oldest()
	if p, _ := gotPoint.(num); p != point {
		t.Errorf("point %v, want %v", p, point)
		return false
	}
	if o, _ := gotOldest.(num); o != oldest {
		t.Errorf("oldest unfinished %v, want %v", o, oldest)
		return false
	}
	if q.Len() > 2*unfinished {
		t.Errorf("%d entries for %d unfinished transactions", q.Len(), unfinished)
		return false
	}
	return true
}

func TestBoundedWhenTheHeadIsStuck(t *testing.T) {
	t.Parallel()
	var q Queue
	if _, err := q.Begin(num(0)); err != nil {
		t.Fatal(err)
	}
	q.Add(1)
	q.End()
	for i := range 1_000_000 {
		id, err := q.Begin(num(i + 1))
		if err != nil {
			t.Fatal(err)
		}
		q.Add(1)
		q.End()
		q.Done(id, 1)
	}
	if q.Size() > 4096 {
		t.Errorf("%d bytes behind one stuck transaction", q.Size())
	}
}

func TestBoundedAfterABurst(t *testing.T) {
	t.Parallel()
	var q Queue
	burst := func(n int) {
		ids := make([]ID, n)
		for i := range ids {
			next := num(1)
			if q.last != nil {
				next = q.last.(num) + 1
			}
			ids[i], _ = q.Begin(next)
			q.Add(1)
			q.End()
		}
		if limit := n * EntrySize; n > smallest && q.Size() > limit {
			t.Errorf("%d bytes for %d transactions, EntrySize promises %d", q.Size(), n, limit)
		}
		for i := range ids {
			q.Done(ids[len(ids)-1-i], 1)
		}
	}
	burst(100_000)
	burst(10)
	burst(10)
	if q.Size() > 64<<10 {
		t.Errorf("%d bytes when the burst is over", q.Size())
	}
}

func TestMisuseIsFound(t *testing.T) {
	t.Parallel()
	for name, misuse := range map[string]func(*Queue, ID){
		"done twice":        func(q *Queue, id ID) { q.Done(id, 1); q.Done(id, 1) },
		"done too often":    func(q *Queue, id ID) { q.Done(id, 2) },
		"end without begin": func(q *Queue, _ ID) { q.End() },
		"add without begin": func(q *Queue, _ ID) { q.Add(1) },
		"a slot used again": func(q *Queue, id ID) {
			q.Done(id, 1)
			if _, err := q.Begin(num(2)); err != nil {
				t.Error(err)
			}
			q.Add(1)
			q.Done(id, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var q Queue
			id, _ := q.Begin(num(1))
			q.Add(1)
			q.End()
			defer func() {
				if recover() == nil {
					t.Error("nothing was noticed")
				}
			}()
			misuse(&q, id)
		})
	}
}

func BenchmarkTransaction(b *testing.B) {
	for _, depth := range []int{1, 1000} {
		b.Run("depth="+strconv.Itoa(depth), func(b *testing.B) {
			var q Queue
			stamps := make([]logicalStamp, 2)
			ids := make([]ID, depth)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i >= depth {
					q.Done(ids[i%depth], 3)
				}
				s := &stamps[i%2]
				s.n = i + 1
				id, err := q.Begin(s)
				if err != nil {
					b.Fatal(err)
				}
				q.Add(3)
				q.End()
				ids[i%depth] = id
			}
		})
	}
}

// logicalStamp does not allocate when it becomes a Stamp. Two of them take turns in the benchmark,
// which is why Compare says that every stamp is after every other.
type logicalStamp struct{ n int }

func (*logicalStamp) Compare(logical.Stamp) int { return 1 }
