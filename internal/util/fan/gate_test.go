package fan

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/oracle/history"
	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A gate is where the calls wait that apply and commit. It also hands the faults that were chosen for
// them to the memory target.
type gate struct {
	seed uint64

	mu      sync.Mutex
	waiting []*waitingCall

	armed sync.Mutex // held from when a fault is chosen until the hook has taken it
	fault *memory.Fault
}

// siteTake is where a worker is about to take a batch.
const siteTake memory.Site = "take batch"

// A waitingCall is known by the number of the first mutation that it applies, or by its shard, so that a seed chooses the same one again, in whatever
// order they arrive.
type waitingCall struct {
	kind memory.Site
	id   int64
	pass chan memory.Fault
}

// await waits until the call is chosen, and returns the fault that was chosen with it. A call whose
// context ends first may have been on its way already.
func (g *gate) await(ctx context.Context, kind memory.Site, id int64) (memory.Fault, error) {
	c := &waitingCall{kind, id, make(chan memory.Fault)}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	select {
	case f := <-c.pass:
		return f, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(o *waitingCall) bool { return o == c })
	h := fold(g.seed^hashA, uint64(id)^hashB)
	unknown := &logical.Error{Err: errors.New("connection lost"), Class: logical.ClassUnknownCommit}
	if kind != memory.SiteCommit && kind != memory.SiteSaveMemo || h%3 == 0 {
		return memory.Fault{}, ctx.Err()
	}
	return memory.Fault{Err: unknown, Late: time.Duration(1 + h%uint64(time.Minute))}, nil
}

// hook is the memory target's.
func (g *gate) hook(_ string, at memory.Site, _ uint64) memory.Fault {
	if at != memory.SiteCommit && at != memory.SiteApply && at != memory.SiteSaveMemo {
		return memory.Fault{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.fault
	if f == nil {
		return memory.Fault{}
	}
	g.fault = nil
	g.armed.Unlock()
	return *f
}

// with calls the target with a fault.
func (g *gate) with(f memory.Fault, call func() error) error {
	g.armed.Lock()
	g.mu.Lock()
	g.fault = &f
	g.mu.Unlock()
	err := call()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fault == &f { // the target failed before it asked
		g.fault = nil
		g.armed.Unlock()
	}
	return err
}

// release lets one of the calls that wait go on, or returns false if there is none.
func (s *sim) release() bool {
	s.gate.mu.Lock()
	if len(s.gate.waiting) == 0 {
		s.gate.mu.Unlock()
		return false
	}
	slices.SortFunc(s.gate.waiting, func(a, b *waitingCall) int {
		if a.kind != b.kind {
			return cmp.Compare(a.kind, b.kind)
		}
		return cmp.Compare(a.id, b.id)
	})
	n := s.rng.IntN(len(s.gate.waiting))
	c := s.gate.waiting[n]
	s.gate.waiting = slices.Delete(s.gate.waiting, n, n+1)
	s.gate.mu.Unlock()
	f := s.chooseFault(c.kind)
	s.say(c.kind, " ", c.id, " ", f)
	c.pass <- f
	return true
}

func (s *sim) chooseFault(at memory.Site) memory.Fault {
	if s.rng.Float64() >= s.faulty {
		return memory.Fault{}
	}
	fail := func(class logical.Class) error { return classed(class) }
	late := time.Duration(1 + s.rng.IntN(int(time.Minute)))
	switch at {
	case siteTake:
		return memory.Fault{}
	case memory.SiteSaveMemo:
		return []memory.Fault{
			{Err: fail(logical.ClassRetry)}, {Err: fail(logical.ClassRetry), After: true}, {Err: fail(logical.ClassRetry), Late: late},
		}[s.rng.IntN(3)]
	case memory.SiteApply:
		return []memory.Fault{
			{Err: fail(logical.ClassRetry)}, {Err: fail(logical.ClassRetry), After: true}, {Err: fail(logical.ClassConflict)},
		}[s.rng.IntN(3)]
	}
	return []memory.Fault{
		{Err: fail(logical.ClassConflict)},
		{Err: fail(logical.ClassRetry)},
		{Err: fail(logical.ClassRetry), After: true},
		{Err: fail(logical.ClassUnknownCommit)},
		{Err: fail(logical.ClassUnknownCommit), After: true},
		{Err: fail(logical.ClassUnknownCommit), Late: late},
	}[s.rng.IntN(6)]
}

// gated is a session whose calls wait at a gate.
type gated struct {
	logical.Session
	gate *gate
}

// SaveMemo waits too: a memo must not go back behind one that is stored meanwhile.
func (g gated) SaveMemo(ctx context.Context, state logical.MemoState) error {
	f, err := g.gate.await(ctx, memory.SiteSaveMemo, 0)
	if err != nil {
		return err
	}
	return g.gate.with(f, func() error { return g.Session.SaveMemo(context.WithoutCancel(ctx), state) })
}

func (g gated) Begin(ctx context.Context) (logical.Tx, error) {
	tx, err := g.Session.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &gatedTx{Tx: tx, gate: g.gate}, nil
}

type gatedTx struct {
	logical.Tx
	gate *gate
	id   int64
}

func (x *gatedTx) Apply(ctx context.Context, muts []logical.Mutation) error {
	x.id = history.Number(&muts[0])
	f, err := x.gate.await(ctx, memory.SiteApply, x.id)
	if err != nil {
		return err
	}
	return x.gate.with(f, func() error { return x.Tx.Apply(ctx, muts) })
}

func (x *gatedTx) Commit(ctx context.Context) error {
	f, err := x.gate.await(ctx, memory.SiteCommit, x.id)
	if err != nil {
		return err
	}
	return x.gate.with(f, func() error { return x.Tx.Commit(context.WithoutCancel(ctx)) })
}
