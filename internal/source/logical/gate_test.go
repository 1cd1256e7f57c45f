package logical

import (
	"cmp"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/oracle/history"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A gate is where everything waits whose order matters: calls of the target, steps of the source, and sinks
// that take what is there. A simulation lets one of them go on at a time.
type gate struct {
	mu      sync.Mutex
	waiting []*waitingCall
}

// A waitingCall is known by what it is about, so that a seed chooses the same one again, in whatever order they
// arrive.
type waitingCall struct {
	site string
	id   int64
	pass chan struct{}
}

// await waits until the call is chosen, or its context ends.
func (g *gate) await(ctx context.Context, site string, id int64) error {
	c := &waitingCall{site, id, make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	select {
	case <-c.pass:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(o *waitingCall) bool { return o == c })
	return errors.WithStack(context.Cause(ctx))
}

// release lets one of the calls that wait go on, or returns nil if there is none. With hurry it is one of the
// source, as long as there is one: the target is slow.
func (g *gate) release(rng *rand.Rand, hurry bool) *waitingCall {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		return nil
	}
	slices.SortFunc(g.waiting, func(a, b *waitingCall) int {
		return cmp.Or(cmp.Compare(a.site, b.site), cmp.Compare(a.id, b.id))
	})
	n := rng.IntN(len(g.waiting))
	if hurry {
		if at := slices.IndexFunc(g.waiting, func(c *waitingCall) bool { return c.site == "process" || c.site == "read" }); at >= 0 {
			n = at
		}
	}
	c := g.waiting[n]
	g.waiting = slices.Delete(g.waiting, n, n+1)
	close(c.pass)
	return c
}

// gatedTarget is a target whose calls wait at a gate. What is outside may not depend on the order in which
// workers begin, so a transaction begins inside when it has something to say; and what is prepared how often
// depends on the garbage collector, so it passes everything by.
type gatedTarget struct {
	logical.Target
	gate    *gate
	applied func(number int64) // is told of the last of the mutations that a transaction was given
}

// Unwrap returns the target inside.
func (t *gatedTarget) Unwrap() any { return t.Target }

func (t *gatedTarget) Take(ctx context.Context, claim logical.Claim) (logical.Session, error) {
	if err := t.gate.await(ctx, "take over", 0); err != nil {
		return nil, err
	}
	s, err := t.Target.Take(ctx, claim)
	if err != nil {
		return nil, err
	}
	return &gatedSession{Session: s, gate: t.gate, applied: t.applied}, nil
}

type gatedSession struct {
	logical.Session
	gate    *gate
	applied func(number int64)

	mu      sync.Mutex
	fencing *fencing // that has not been let through
}

func (s *gatedSession) Prepare(ctx context.Context, relations []*logical.Relation) error {
	inside := s.Session
	for {
		wrapper, ok := inside.(interface{ Unwrap() any })
		if !ok {
			return inside.Prepare(ctx, relations)
		}
		inside = wrapper.Unwrap().(logical.Session)
	}
}

// Fence is one call for all who wait for one: nothing tells them apart.
func (s *gatedSession) Fence(ctx context.Context) error {
	s.mu.Lock()
	f, first := s.fencing, s.fencing == nil
	if first {
		f = &fencing{done: make(chan struct{})}
		s.fencing = f
	}
	s.mu.Unlock()
	if first {
		f.err = s.gate.await(ctx, "fence", 0)
		s.mu.Lock()
		s.fencing = nil
		s.mu.Unlock()
		if f.err == nil {
			f.err = s.Session.Fence(ctx)
		}
		close(f.done)
		return f.err
	}
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return errors.WithStack(context.Cause(ctx))
	}
}

type fencing struct {
	done chan struct{}
	err  error
}

func (s *gatedSession) LoadMemo(ctx context.Context) (logical.MemoState, error) {
	if err := s.gate.await(ctx, "load memo", 0); err != nil {
		return logical.MemoState{}, err
	}
	return s.Session.LoadMemo(ctx)
}

func (s *gatedSession) SaveMemo(ctx context.Context, state logical.MemoState) error {
	if err := s.gate.await(ctx, "save memo", 0); err != nil {
		return err
	}
	return s.Session.SaveMemo(ctx, state)
}

func (s *gatedSession) Begin(context.Context) (logical.Tx, error) { return &gatedTx{session: s}, nil }

type gatedTx struct {
	session *gatedSession
	inside  logical.Tx // nil until it has something to say
	id      int64
}

func (x *gatedTx) call(ctx context.Context, site string, f func(logical.Tx) error) (err error) {
	if x.inside == nil {
		if err := x.session.gate.await(ctx, "begin", x.id); err != nil {
			return err
		}
		if x.inside, err = x.session.Session.Begin(ctx); err != nil { // several may have waited for a fence
			return err
		}
	}
	if err := x.session.gate.await(ctx, site, x.id); err != nil {
		return err
	}
	return f(x.inside)
}

func (x *gatedTx) Apply(ctx context.Context, muts []logical.Mutation) error {
	if len(muts) > 0 {
		x.id = history.Number(&muts[0])
	}
	err := x.call(ctx, "apply", func(tx logical.Tx) error { return tx.Apply(ctx, muts) })
	if err == nil && len(muts) > 0 && x.session.applied != nil {
		x.session.applied(history.Number(&muts[len(muts)-1]))
	}
	return err
}

func (x *gatedTx) SetMemo(ctx context.Context, state logical.MemoState) error {
	return x.call(ctx, "set memo", func(tx logical.Tx) error { return tx.SetMemo(ctx, state) })
}

func (x *gatedTx) SetAside(ctx context.Context, letters []logical.DeadLetter) error {
	if x.id == 0 && len(letters) > 0 { // a place in the source, and no number of a mutation
		x.id = -int64(binary.BigEndian.Uint32(fingerprint(&letters[0])))
	}
	return x.call(ctx, "set aside", func(tx logical.Tx) error { return tx.SetAside(ctx, letters) })
}

func fingerprint(l *logical.DeadLetter) []byte {
	sum := l.Fingerprint()
	return sum[:]
}

func (x *gatedTx) TakeBack(ctx context.Context, ids []int64) error {
	return x.call(ctx, "take back", func(tx logical.Tx) error { return tx.TakeBack(ctx, ids) })
}

func (x *gatedTx) Commit(ctx context.Context) error {
	return x.call(ctx, "commit", func(tx logical.Tx) error { return tx.Commit(ctx) })
}

func (x *gatedTx) Rollback(ctx context.Context) error {
	if x.inside == nil {
		return nil
	}
	return x.inside.Rollback(ctx)
}
