package fan

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/oracle"
	"github.com/tailrace-cdc/tailrace/internal/oracle/history"
	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A sim runs a fan on the memory target one step at a time, in a synctest bubble: when all goroutines
// wait for something, it chooses at random, from its seed, what happens next. Calls that apply or
// commit wait at a gate until they are chosen, so a seed replays a run exactly.
type sim struct {
	rng    *rand.Rand
	txs    [][]logical.Mutation
	judge  *oracle.Judge
	target *memory.Target
	gate   *gate
	faulty float64 // share of calls that go wrong
	upset  int     // one step in so many is a rollback, and one a crash

	err     error // how it ended
	tracing bool
	trace   []string

	session logical.Session
	fan     *Fan
	budget  *budget.Budget
	limit   int64
	cfg     Config

	// The source, whose calls run in a goroutine of their own, one at a time.
	todo   chan func(ctx context.Context) error
	ctx    context.Context
	cancel context.CancelFunc
	tx, at int // what it hands out next; at < 0 if tx has not begun

	mu     sync.Mutex
	busy   bool
	saving bool // a memo is on its way
	failed error
	stored int     // the newest point that was in the memo
	events []event // what the target and the fan told, in order
}

// An event is a commit, or a new consistent point.
type event struct {
	muts  []logical.Mutation
	point logical.Stamp
}

func newSim(seed uint64) *sim {
	rng := rand.New(rand.NewPCG(seed, 3))
	txs := history.Make(rand.New(rand.NewPCG(seed, 4)), history.Config{Points: true, Grow: true})
	s := &sim{rng: rng, txs: txs, judge: oracle.New(history.Tell(txs)), at: -1, todo: make(chan func(context.Context) error)}
	s.faulty = []float64{0, 0.01, 0.05, 0.2}[rng.IntN(4)]
	s.upset = []int{1 << 30, 2000, 400}[rng.IntN(3)]
	s.limit = []int64{1, 4 << 10, 64 << 10, 1 << 20}[rng.IntN(4)]
	s.gate = &gate{seed: seed}
	s.target = memory.Open(memory.Config{
		Hook:    s.gate.hook,
		Observe: s.observe,
	})
	s.cfg = Config{
		Shards:  1 + rng.IntN(6),
		MaxRows: []int{1, 3, 20, 1000}[rng.IntN(4)],
		Retry:   retry.Config{Rand: func() float64 { return 0.5 }},
		OnPoint: func(p logical.Stamp, _ int) { s.note(event{point: p}) },
		Memo: func(point logical.Stamp, skip int) logical.MemoState {
			if point == nil {
				point = num(0)
			}
			return logical.MemoState{Point: fmt.Append(nil, point, " ", skip)}
		},
	}
	return s
}

// say adds a line to the trace.
func (s *sim) say(what ...any) {
	if s.tracing {
		s.trace = append(s.trace, fmt.Sprint(what...))
	}
}

// observe is told of what has reached the target.
func (s *sim) observe(c memory.Commit) {
	if c.Memo != nil {
		var point int
		_, err := fmt.Sscan(string(c.Memo.Point), &point)
		s.mu.Lock()
		if err == nil && point < s.stored {
			err = fmt.Errorf("PREFIX: the memo went back from %d to %d", s.stored, point)
		}
		s.stored = point
		if s.failed == nil {
			s.failed = err
		}
		s.mu.Unlock()
	}
	s.note(event{muts: c.Mutations})
}

func (s *sim) note(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// run is the whole life of the simulation.
func (s *sim) run() error {
	defer close(s.todo)
	go s.source()
	if err := s.restart(); err != nil {
		return err
	}
	for step := 0; s.tx < len(s.txs) || s.isBusy(); step++ {
		if step > 200_000 {
			return errors.New("does not come to an end")
		}
		if err := s.step(); err != nil {
			return err
		}
	}
	s.faulty = 0
	if err := s.perform("drain", func(ctx context.Context) error { return s.fan.Drain(ctx) }); err != nil {
		return err
	}
	if p, _ := s.fan.Point(); p != logical.Stamp(num(len(s.txs))) {
		return fmt.Errorf("PREFIX: the consistent point is %v after a drain, of %d transactions", p, len(s.txs))
	}
	if err := s.judge.Holds(rowsOf(s.target)); err != nil {
		return err
	}
	if err := s.judge.Converged(rowsOf(s.target)); err != nil {
		return err
	}
	return s.end()
}

func (s *sim) end() error {
	s.cancel()
	if err := s.fan.Close(context.Background()); err != nil {
		return err
	}
	if used := s.budget.Used(); used != 0 {
		return fmt.Errorf("BOUNDED: %d bytes of the budget are lost", used)
	}
	return s.target.Close()
}

// source carries out what it is told, until todo is closed.
func (s *sim) source() {
	for do := range s.todo {
		err := do(s.ctx)
		s.mu.Lock()
		s.busy = false
		if err != nil && s.failed == nil && !errors.Is(err, context.Canceled) {
			s.failed = err
		}
		s.mu.Unlock()
	}
}

// isBusy reports whether the source has come to a stop in the middle of something.
func (s *sim) isBusy() bool {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

// start lets the source begin something.
func (s *sim) start(what string, do func(ctx context.Context) error) {
	s.say(what)
	s.mu.Lock()
	s.busy = true
	s.mu.Unlock()
	s.todo <- do
}

// perform lets the source do something, while everything else goes on, until it is done.
func (s *sim) perform(what string, do func(ctx context.Context) error) error {
	s.start(what, do)
	for {
		synctest.Wait()
		if err := s.check(); err != nil {
			return err
		}
		if !s.isBusy() {
			return nil
		}
		if !s.release() {
			<-time.After(time.Second)
		}
	}
}

// step lets one thing happen.
func (s *sim) step() error {
	synctest.Wait()
	if err := s.check(); err != nil {
		return err
	}
	switch s.rng.IntN(s.upset) {
	case 0:
		s.upset += s.upset / 8 // so that large transactions get through in the end
		return s.abort()
	case 1:
		s.upset += s.upset / 8
		return s.crash()
	}
	switch n := s.rng.IntN(400); {
	case n < 12:
		s.saveMemo()
		return nil
	case n < 16:
		<-time.After(time.Duration(1 + s.rng.IntN(int(time.Minute))))
		return nil
	case n < 200 && !s.isBusy():
		s.feedOn()
		return nil
	}
	if !s.release() && s.isBusy() {
		<-time.After(time.Second)
	}
	return nil
}

// feedOn lets the source hand something out.
func (s *sim) feedOn() {
	if s.tx == len(s.txs) {
		return
	}
	muts := s.txs[s.tx]
	switch {
	case s.at < 0:
		stamp := num(s.tx + 1)
		s.at = 0
		s.start(fmt.Sprint("begin ", stamp), func(ctx context.Context) error { return s.fan.Begin(ctx, stamp) })
	case s.at == len(muts):
		s.tx, s.at = s.tx+1, -1
		s.start("commit", func(context.Context) error { return s.fan.Commit() })
	default:
		n := 1 + s.rng.IntN(min(len(muts)-s.at, chunkRows))
		part := slices.Clone(muts[s.at : s.at+n])
		s.at += n
		s.start(fmt.Sprint("data ", n), func(ctx context.Context) error {
			err := s.fan.Data(ctx, part)
			clear(part) // the slice may be reused
			return err
		})
	}
}

// check lets the judge see what has happened since the last step.
func (s *sim) check() error {
	s.mu.Lock()
	events, failed := s.events, s.failed
	s.events = nil
	s.mu.Unlock()
	if failed != nil {
		return failed
	}
	for _, e := range events {
		if e.point != nil {
			s.say("point ", e.point)
			point := int(e.point.(num))
			if point == s.judge.Point() {
				return fmt.Errorf("PREFIX: the consistent point %d was told twice", point)
			}
			if err := s.judge.Stored(point, 0); err != nil {
				return err
			}
			continue
		}
		if s.tracing {
			s.say("committed ", describe(e.muts))
		}
		if err := s.judge.Fanned(history.Changes(e.muts)); err != nil {
			return err
		}
	}
	if s.rng.IntN(8) == 0 {
		if err := s.judge.Holds(rowsOf(s.target)); err != nil {
			return err
		}
	}
	return s.bounded()
}

// bounded checks what is in flight (BOUNDED).
func (s *sim) bounded() error {
	if s.fan == nil {
		return nil
	}
	s.fan.mu.Lock()
	defer s.fan.mu.Unlock()
	queued := int64(0)
	for i := range s.fan.shards {
		for b := s.fan.shards[i].head; b != nil; b = b.next {
			for _, it := range b.items[b.from:b.to] {
				queued += cost(&it.mut)
			}
		}
	}
	used := s.budget.Used()
	switch {
	case used < queued:
		return fmt.Errorf("BOUNDED: %d bytes wait in queues, %d are accounted for", queued, used)
	case used > s.limit && s.fan.left > 1:
		return fmt.Errorf("BOUNDED: %d bytes in flight, at most %d are allowed", used, s.limit)
	}
	return nil
}

// rowsOf returns the rows of a target as the judge keeps them.
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

// quit ends what the source is doing.
func (s *sim) quit() error {
	s.cancel()
	for s.isBusy() {
		synctest.Wait()
		if err := s.check(); err != nil {
			return err
		}
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return nil
}

// abort is a rollback: the source lost its connection, and is read again from the consistent point.
func (s *sim) abort() error {
	if err := s.quit(); err != nil {
		return err
	}
	if err := s.perform("abort", func(ctx context.Context) error { return s.fan.Abort(ctx) }); err != nil {
		return err
	}
	return s.resume(s.fan.Progress())
}

// crash ends the process, and a new one starts from the stored point.
func (s *sim) crash() error {
	if err := s.quit(); err != nil {
		return err
	}
	s.target.Crash("l")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.fan.Close(gone)
	return s.restart()
}

func (s *sim) restart() error {
	if s.cancel == nil {
		s.ctx, s.cancel = context.WithCancel(context.Background())
	}
	var point, skip int
	err := s.perform("restart", func(ctx context.Context) (err error) {
		s.session, err = s.target.Take(ctx, logical.Claim{Loop: "l", Holder: "me", TTL: time.Minute})
		if err != nil {
			return err
		}
		memo, err := s.session.LoadMemo(ctx)
		if err != nil || memo.Point == nil {
			return err
		}
		_, err = fmt.Sscan(string(memo.Point), &point, &skip)
		return err
	})
	if err != nil {
		return err
	}
	s.budget = budget.New(s.limit)
	cfg := s.cfg
	cfg.Session, cfg.Budget, cfg.Skip = gated{s.session, s.gate}, s.budget, skip
	if point > 0 {
		cfg.Point = num(point)
	}
	cfg.BeforeTake = func(ctx context.Context, shard int) { _, _ = s.gate.await(ctx, siteTake, int64(shard)) }
	s.fan = New(cfg)
	return s.resume(cfg.Point, skip)
}

// resume reads the source again, from the transaction after point.
func (s *sim) resume(point logical.Stamp, skip int) error {
	s.tx, s.at = 0, -1
	if point != nil {
		s.tx = int(point.(num))
	}
	return s.judge.Restarted(s.tx, skip)
}

// saveMemo stores the consistent point, beside what the source does.
func (s *sim) saveMemo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saving {
		return
	}
	s.saving = true
	s.say("save memo")
	go func(ctx context.Context) {
		_ = s.fan.SaveMemo(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.saving = false
	}(s.ctx)
}
