package chaos

import (
	"context"
	"sync"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Target returns the target of a loop with its sessions and their transactions struck.
func (c *Chaos) Target(loop string, t logical.Target) logical.Target {
	if c == nil {
		return t
	}
	return &target{t, c, loop}
}

type target struct {
	logical.Target
	chaos *Chaos
	loop  string
}

// Unwrap returns the target inside, which may have capabilities that this one has not.
func (t *target) Unwrap() any { return t.Target }

// Take implements logical.Target.
func (t *target) Take(ctx context.Context, claim logical.Claim) (logical.Session, error) {
	var inside logical.Session
	err := t.chaos.call(ctx, t.loop, "take", func() (err error) {
		inside, err = t.Target.Take(ctx, claim)
		return err
	})
	if err != nil {
		if inside != nil {
			_ = inside.Release(ctx) // it is not known to anybody, and a successor takes it over in any case
		}
		return nil, err
	}
	s := &session{Session: inside, chaos: t.chaos, loop: t.loop, lost: make(chan struct{}), ended: make(chan struct{})}
	s.watch.Go(s.follow)
	return s, nil
}

// A session can lose its lease, as if another process had taken the loop over.
type session struct {
	logical.Session
	chaos *Chaos
	loop  string

	mu      sync.Mutex
	gone    bool
	release sync.Once
	lost    chan struct{}
	ended   chan struct{}
	watch   sync.WaitGroup
	late    sync.WaitGroup // commits that are on their way
}

// Unwrap returns the session inside.
func (s *session) Unwrap() any { return s.Session }

// follow passes on that the lease inside is lost.
func (s *session) follow() {
	select {
	case <-s.Session.Lost():
		s.lose()
	case <-s.ended:
	}
}

func (s *session) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		s.gone = true
		close(s.lost)
	}
}

// Lost implements logical.Lease.
func (s *session) Lost() <-chan struct{} { return s.lost }

// Release implements logical.Lease.
func (s *session) Release(ctx context.Context) error {
	s.release.Do(func() { close(s.ended) })
	s.watch.Wait()
	late := make(chan struct{})
	go func() {
		defer close(late)
		s.late.Wait()
	}()
	select {
	case <-late:
	case <-ctx.Done():
	}
	return s.Session.Release(ctx)
}

// call strikes a call of the session.
func (s *session) call(ctx context.Context, site string, f func() error) error {
	if err := s.held(); err != nil {
		return err
	}
	return s.chaos.call(ctx, s.loop, site, f)
}

// held fails when the lease was struck.
func (s *session) held() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return &logical.Error{Err: errors.New("chaos: the lease was lost"), Class: logical.ClassFenced}
	}
	return nil
}

// Prepare implements logical.Session.
func (s *session) Prepare(ctx context.Context, relations []*logical.Relation) error {
	return s.call(ctx, "prepare", func() error { return s.Session.Prepare(ctx, relations) })
}

// Fence implements logical.Session.
func (s *session) Fence(ctx context.Context) error {
	return s.call(ctx, "fence", func() error { return s.Session.Fence(ctx) })
}

// LoadMemo implements logical.Memo.
func (s *session) LoadMemo(ctx context.Context) (state logical.MemoState, err error) {
	err = s.call(ctx, "load memo", func() error {
		state, err = s.Session.LoadMemo(ctx)
		return err
	})
	return state, err
}

// SaveMemo implements logical.Memo.
func (s *session) SaveMemo(ctx context.Context, state logical.MemoState) error {
	return s.call(ctx, "save memo", func() error { return s.Session.SaveMemo(ctx, state) })
}

// Begin implements logical.Session. Now and then it is where the lease is lost.
func (s *session) Begin(ctx context.Context) (logical.Tx, error) {
	lease, err := s.chaos.strike(ctx, s.loop, "lease")
	if err != nil {
		return nil, err
	}
	if lease.way == before && lease.choose(4) == 0 {
		s.lose()
	}
	var inside logical.Tx
	err = s.call(ctx, "begin", func() (err error) {
		inside, err = s.Session.Begin(ctx)
		return err
	})
	if err != nil {
		if inside != nil {
			_ = inside.Rollback(ctx) // what it could not undo is undone when the loop is taken over
		}
		return nil, err
	}
	return &tx{Tx: inside, session: s}, nil
}
