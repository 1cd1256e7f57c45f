package logical

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/oracle"
	"github.com/tailrace-cdc/tailrace/internal/oracle/history"
	"github.com/tailrace-cdc/tailrace/internal/source/logical/chaos"
	"github.com/tailrace-cdc/tailrace/internal/source/logical/mode"
	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A sim runs a whole loop on the memory target one step at a time, in a synctest bubble: when all goroutines
// wait for something, it chooses at random, from its seed, what happens next. Whatever races waits at a gate
// until it is chosen, so that a seed replays a run exactly.
type sim struct {
	rng    *rand.Rand
	txs    [][]logical.Mutation
	judge  *oracle.Judge
	source *tape
	target *memory.Target
	chaos  *chaos.Chaos
	gate   *gate
	config logical.Config
	upset  int                     // one step in so many is a crash, one a restart, and a few are changes of the mode
	forced bool                    // modes are forced
	slow   bool                    // the target is
	poison func(number int64) bool // which mutations of tables the target rejects, until it is mended; nil for none
	mended atomic.Bool

	factory *Factory
	loop    *Loop

	stored stored // by the last memo
	memos  int
	modes  map[string]bool

	tracing bool
	trace   []string

	sizes   []int64 // of all mutations
	largest int64   // of what the source hands out at once

	mu      sync.Mutex
	events  []event // what the target and the source told, in order
	gave    given   // how far the events have taken what the source said
	applied int64   // the number of the last mutation that serial mode has given to the target
}

// given is how far a source has come: behind a mutation of a transaction.
type given struct{ tx, upTo int }

// stored is a consistent point in a memo.
type stored struct{ point, skip int }

// An event is a commit, or a read of the source that begins.
type event struct {
	commit memory.Commit
	read   bool
	from   int
}

// faults are the shares of calls that go wrong.
var faults = []float64{0, 0.01, 0.03, 0.06, 0.1, 0.2}

func newSim(seed uint64) *sim {
	rng := rand.New(rand.NewPCG(seed, 1))
	prob := faults[rng.IntN(len(faults))]
	shape := history.Config{Points: true, Grow: true, Large: 200}
	batch := 1 + rng.IntN(40)
	if prob >= 0.1 {
		shape.Large = 40
	}
	slow := rng.IntN(3) == 0
	if slow {
		shape.Transactions = 40 // enough to fill the budget
	}
	batch = max(batch, int(2*prob*float64(shape.Large))) // otherwise large transactions would not come to their end
	txs := history.Make(rand.New(rand.NewPCG(seed, 2)), shape)
	s := &sim{
		rng: rng, txs: txs, judge: oracle.New(history.Tell(txs)), gate: &gate{}, modes: map[string]bool{},
		source: &tape{txs: txs, batch: batch},
		chaos:  chaos.New(chaos.Config{Prob: prob, Seed: seed, Stall: 40 * time.Second}),
		upset:  []int{1 << 30, 3000, 600}[rng.IntN(3)],
		forced: rng.IntN(3) > 0, slow: slow,
		config: logical.Config{
			BytesInFlight: []int64{logical.MinBytesInFlight, 10 << 20}[rng.IntN(2)],
			FanShards:     1 + rng.IntN(6), Immediate: rng.IntN(3) == 0,
			RetryDelay: 10 * time.Millisecond, StandbyTimeout: 4700 * time.Millisecond, LeaseTTL: time.Minute,
		},
	}
	if !s.forced {
		s.live(rng)
	}
	s.poisoned(rand.New(rand.NewPCG(seed, 3)))
	s.target = memory.Open(memory.Config{Reject: s.reject, Hook: late(seed, prob), Observe: func(c memory.Commit) { s.note(event{commit: c}) }})
	s.source.fail = func(ctx context.Context, site string) error { return s.gate.await(ctx, site, 0) }
	s.source.reads = func(from int) {
		s.note(event{read: true, from: from})
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gave, s.applied = given{}, 0
	}
	s.source.gave = func(tx, upTo int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gave = given{tx, upTo}
	}
	for _, tx := range txs {
		most := int64(0)
		for i := range tx {
			s.sizes = append(s.sizes, int64(tx[i].Size()))
			most = max(most, s.sizes[len(s.sizes)-1])
		}
		s.largest = max(s.largest, most*int64(batch))
	}
	return s
}

// live makes the source one that has a stale backlog, and then a transaction every few seconds.
func (s *sim) live(rng *rand.Rand) {
	s.config.BackfillWindow = time.Minute
	begun, backlog, gap := time.Now(), rng.IntN(len(s.txs)), time.Duration(1+rng.IntN(5000))*time.Millisecond
	s.source.when = func(n int) time.Time {
		if n <= backlog {
			return begun.Add(-time.Hour + time.Duration(n)*time.Millisecond)
		}
		return begun.Add(time.Duration(n-backlog) * gap)
	}
}

// late lets some commits and memos come after their caller has been told, as only the target itself can.
func late(seed uint64, prob float64) memory.Hook {
	all := memory.Chaos(^seed, prob/2, 40*time.Second) // not what package chaos chooses
	return func(loop string, at memory.Site, n uint64) memory.Fault {
		if f := all(loop, at, n); f.Late > 0 {
			return f
		}
		return memory.Fault{}
	}
}

func (s *sim) note(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// say adds a line to the trace.
func (s *sim) say(what ...any) {
	if s.tracing {
		s.trace = append(s.trace, time.Now().Format("04:05.000000 ")+fmt.Sprint(what...))
	}
}

// run is the whole life of the simulation.
func (s *sim) run() error {
	s.start()
	for step := 0; ; step++ {
		if err := s.settle(); err != nil {
			return err
		}
		if p, ok := s.loop.point().(at); ok && p.N == len(s.txs) {
			break
		}
		if step > 300_000 {
			return errors.Errorf("does not come to an end: %+v", s.loop.Status())
		}
		if err := s.step(); err != nil {
			return err
		}
	}
	if err := s.replay(); err != nil {
		return err
	}
	if err := s.stop(time.Hour); err != nil {
		return err
	}
	rows := rowsOf(s.target)
	if err := s.judge.Holds(rows); err != nil {
		return err
	}
	if err := s.judge.Converged(rows); err != nil {
		return err
	}
	if n := s.target.Open(); n > 0 {
		return errors.Errorf("%d transactions are open", n)
	}
	return s.target.Close()
}

// start makes the loop, as a process does that begins.
func (s *sim) start() {
	factory, err := NewFactory(FactoryConfig{
		Holder: "one", Log: slog.New(slog.DiscardHandler), Rand: func() float64 { return 0.5 },
	})
	if err != nil {
		panic(err)
	}
	factory.signals = func(ctx context.Context, site string, n int) { _ = s.gate.await(ctx, site, int64(n)) }
	s.factory = factory
	s.loop, err = factory.Get(context.Background(), Spec{
		Name: "loop", Config: s.config,
		Dialect: s.chaos.Dialect("loop", restored{s.source}),
		Target: &gatedTarget{s.chaos.Target("loop", s.target), s.gate, func(number int64) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.applied = number
		}},
	})
	if err != nil {
		panic(err)
	}
}

// stop ends the loop within a time of grace, while everything else goes on.
func (s *sim) stop(grace time.Duration) error {
	s.say("stop within ", grace)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		s.factory.Close(ctx)
	}()
	for {
		if err := s.settle(); err != nil {
			return err
		}
		select {
		case <-done:
			if used := s.loop.budget.Used(); used != 0 {
				return errors.Errorf("BOUNDED: %d bytes of the budget are lost", used)
			}
			return nil
		default:
		}
		if !s.release() {
			<-time.After(100 * time.Millisecond)
		}
	}
}

// crash ends the process in the middle of whatever it does.
func (s *sim) crash() error {
	s.say("crash")
	s.target.Crash("loop")
	if err := s.stop(0); err != nil {
		return err
	}
	s.start()
	return nil
}

// step lets one thing happen.
func (s *sim) step() error {
	switch s.rng.IntN(s.upset) {
	case 0:
		s.upset += s.upset / 8 // so that large transactions get through in the end
		return s.crash()
	case 1:
		s.upset += s.upset / 8
		if err := s.stop(time.Duration(s.rng.IntN(int(time.Minute)))); err != nil {
			return err
		}
		s.start()
		return nil
	}
	if s.forced && s.rng.IntN(150) == 0 {
		s.force()
	}
	if s.rng.IntN(400) == 0 {
		<-time.After(time.Duration(1 + s.rng.IntN(int(time.Minute))))
		return nil
	}
	if !s.release() {
		<-time.After(time.Duration(1 + s.rng.IntN(int(time.Second))))
	}
	return nil
}

// force changes the mode between two transactions, whatever the staleness.
func (s *sim) force() {
	s.config.Immediate = !s.config.Immediate
	s.say("immediate ", s.config.Immediate)
	s.loop.control.SetPolicy(mode.Policy{Immediate: s.config.Immediate})
}

func (s *sim) release() bool {
	c := s.gate.release(s.rng, s.slow && s.rng.IntN(20) > 0)
	if c == nil {
		return false
	}
	s.say(c.site, " ", c.id)
	<-time.After(time.Microsecond) // so that no two calls have one deadline
	return true
}

// settle waits until everything waits, and lets the judge see what has happened.
func (s *sim) settle() error {
	synctest.Wait()
	s.mu.Lock()
	events := s.events
	s.events = nil
	s.mu.Unlock()
	for _, e := range events {
		err := s.see(e)
		if err != nil {
			return err
		}
	}
	if used, size := s.loop.budget.Used(), s.loop.budget.Size(); used > size {
		return errors.Errorf("BOUNDED: %d bytes in flight, at most %d are allowed", used, size)
	}
	if len(events) > 0 && s.rng.IntN(4) == 0 {
		if err := s.look(); err != nil {
			return err
		}
	}
	return s.bounded()
}

// bounded adds up the mutations that the events have taken and that have not come to the target: not by what
// the loop says of itself.
func (s *sim) bounded() error {
	s.mu.Lock()
	gave, applied := s.gave, s.applied
	s.mu.Unlock()
	if gave.tx == 0 || s.rng.IntN(4) > 0 {
		return nil
	}
	held := int64(0)
	for _, at := range s.judge.Outstanding(gave.tx, gave.upTo) {
		// Serial mode may have given it to a transaction that is open.
		if s.loop.Status().Mode.Fan() || int64(at+1) > applied {
			held += s.sizes[at]
		}
	}
	if size := s.loop.budget.Size(); held > size+s.largest {
		return errors.Errorf("BOUNDED: %d bytes have been taken and not applied, at most %d are allowed", held, size)
	}
	return nil
}

// look is a reader that sees all tables, and the memo, in one snapshot.
func (s *sim) look() error {
	rows := rowsOf(s.target)
	if err := s.judge.Holds(rows); err != nil {
		return err
	}
	memo := s.target.Snapshot().Memos["loop"]
	if memo.ConsistentSince.IsZero() {
		return nil
	}
	var point at
	if err := json.Unmarshal(memo.Point, &point); err != nil {
		return err
	}
	return s.judge.Snapshot(rows, point.N)
}

// see tells the judge of one event.
func (s *sim) see(e event) error {
	if e.read {
		skip := 0
		if e.from == s.stored.point {
			skip = s.stored.skip
		}
		s.say("read from ", e.from, " skipping ", skip)
		return s.judge.Restarted(e.from, skip)
	}
	changes, memo := history.Changes(e.commit.Mutations), e.commit.Memo
	aside, err := s.placesOf(e.commit.Letters)
	if s.tracing {
		s.say("committed ", fmt.Sprint(changes), " set aside ", fmt.Sprint(aside))
	}
	switch {
	case err != nil:
		return err
	case memo == nil && s.mended.Load():
		return s.replayed(e.commit)
	case memo == nil:
		return s.fanned(changes, aside)
	}
	var point at
	if err := json.Unmarshal(memo.Point, &point); err != nil {
		return err
	}
	s.say("memo ", point.N, " ", memo.Skip, " ", memo.Mode)
	s.stored = stored{point.N, memo.Skip}
	s.memos++
	s.modes[memo.Mode] = true
	if memo.Mode == mode.Serial.String() {
		return s.judge.Serial(changes, aside, point.N)
	}
	if err := s.fanned(changes, aside); err != nil {
		return err
	}
	return s.judge.Stored(point.N, memo.Skip)
}

// rowsOf returns the rows of a target in the words of the oracle.
func rowsOf(target *memory.Target) oracle.Rows {
	rows := oracle.Rows{}
	for name, tab := range target.Snapshot().Tables {
		for _, values := range tab.Rows {
			r := oracle.Row{}
			for i, v := range values {
				if i > 0 && !v.IsAbsent() && !v.IsNull() {
					r[tab.Columns[i].Name] = fmt.Sprint(v.Int64())
				}
			}
			rows[oracle.ID(name, fmt.Sprint(values[0].Int64()))] = r
		}
	}
	return rows
}

// shut ends a simulation that has failed.
func (s *sim) shut() {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	s.factory.Close(gone)
	_ = s.target.Close()
}

func simulate(t *testing.T, seed uint64, tracing bool) (s *sim, err error) {
	synctest.Test(t, func(*testing.T) {
		s = newSim(seed)
		s.tracing = tracing
		if err = s.run(); err != nil {
			s.shut()
		}
		<-time.After(time.Hour) // commits that are late come to their end
		synctest.Wait()
	})
	return s, err
}
