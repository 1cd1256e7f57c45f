package memory

import (
	"context"
	"slices"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A session is a loop's hold on the target.
type session struct {
	target *Target
	claim  logical.Claim
	loop   *loop

	// Guarded by the target's mu.
	lost     chan struct{}
	ended    bool
	released bool
	crashed  bool
	expires  time.Time // of the lease of a crashed session
	fencing  int       // Fence calls under way; Begin waits for them
}

var _ logical.Session = (*session)(nil)

// free reports whether holder may take the loop over from s at now. Callers hold mu.
func (s *session) free(holder string, now time.Time) bool {
	return s == nil || s.released || s.claim.Holder == holder || s.crashed && !now.Before(s.expires)
}

// end says that s has been succeeded. Callers hold mu.
func (s *session) end() {
	if s != nil && !s.ended {
		s.ended = true
		close(s.lost)
		s.target.broadcast()
	}
}

// waitLease waits until the lease of s may have changed hands. Callers hold mu.
func (t *Target) waitLease(ctx context.Context, s *session) error {
	if s.crashed {
		var cancel context.CancelFunc
		parent := ctx
		ctx, cancel = context.WithTimeout(ctx, s.expires.Sub(t.cfg.Now()))
		defer cancel()
		if err := t.wait(ctx); err != nil && parent.Err() != nil {
			return err
		}
		return nil
	}
	return t.wait(ctx)
}

// Crash ends the session of a loop as if its process had been killed: transactions that are open are
// rolled back, except where a call is under way, which comes to its end. The lease lives on until its
// TTL is over.
func (t *Target) Crash(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.loops[name]
	if l == nil || l.session == nil {
		return
	}
	l.session.crashed = true
	l.session.expires = t.cfg.Now().Add(l.session.claim.TTL)
	for x := range l.open {
		x.dead = true
		if !x.busy && !x.late {
			x.end()
		}
	}
	t.broadcast()
}

// check fails if s no longer owns its loop. Callers hold mu.
func (s *session) check() error {
	if s.ended || s.released || s.crashed {
		return fenced(s.claim.Loop)
	}
	return nil
}

// Lost implements logical.Lease.
func (s *session) Lost() <-chan struct{} { return s.lost }

// Release implements logical.Lease.
func (s *session) Release(context.Context) error {
	s.target.mu.Lock()
	defer s.target.mu.Unlock()
	if !s.released {
		s.released = true
		s.end()
		s.target.broadcast()
	}
	return nil
}

// Prepare implements logical.Session.
func (s *session) Prepare(ctx context.Context, relations []*logical.Relation) error {
	return s.call(ctx, SitePrepare, func(Fault) error {
		for _, r := range relations {
			if err := s.target.prepare(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// Begin implements logical.Session.
func (s *session) Begin(ctx context.Context) (logical.Tx, error) {
	t := s.target
	f, err := t.before(ctx, s.claim.Loop, SiteBegin)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for s.fencing > 0 {
		if err := t.wait(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if err := f.after(); err != nil {
		return nil, err
	}
	x := &tx{session: s, epoch: s.loop.epoch}
	s.loop.open[x] = struct{}{}
	return x, nil
}

// Fence implements logical.Session.
func (s *session) Fence(ctx context.Context) error {
	return s.call(ctx, SiteFence, func(Fault) error {
		s.fencing++
		err := s.target.bump(ctx, s.loop, false)
		s.fencing--
		s.target.broadcast()
		if err == nil {
			err = s.check()
		}
		return err
	})
}

// LoadMemo implements logical.Memo.
func (s *session) LoadMemo(ctx context.Context) (memo logical.MemoState, err error) {
	err = s.call(ctx, SiteLoadMemo, func(Fault) error {
		memo = s.loop.memo
		return nil
	})
	return memo, err
}

// SaveMemo implements logical.Memo.
func (s *session) SaveMemo(ctx context.Context, state logical.MemoState) error {
	return s.call(ctx, SiteSaveMemo, func(f Fault) error {
		state := cloneMemo(state)
		if f.Late > 0 {
			s.saveLater(state, f.Late)
			return f.Err
		}
		s.save(&state)
		return nil
	})
}

// save stores a memo. Callers hold mu.
func (s *session) save(state *logical.MemoState) {
	s.loop.memo = *state
	if observe := s.target.cfg.Observe; observe != nil {
		observe(Commit{Loop: s.claim.Loop, Memo: state})
	}
}

// saveLater stores a memo when nobody waits for it any more, unless the loop was fenced meanwhile: the
// proof of the epoch travels with it. Callers hold mu.
func (s *session) saveLater(state logical.MemoState, d time.Duration) {
	t, epoch := s.target, s.loop.epoch
	if t.closed { // and waits for nothing new
		return
	}
	t.late.Go(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		<-timer.C
		t.mu.Lock()
		defer t.mu.Unlock()
		if s.loop.epoch == epoch {
			s.save(&state)
		}
	})
}

// call runs a function under the target's lock if s still owns its loop, between what the hook does
// before and after it.
func (s *session) call(ctx context.Context, at Site, effect func(Fault) error) error {
	f, err := s.target.before(ctx, s.claim.Loop, at)
	if err != nil {
		return err
	}
	s.target.mu.Lock()
	defer s.target.mu.Unlock()
	if err := s.check(); err != nil {
		return err
	}
	if err := effect(f); err != nil {
		return err
	}
	return f.after()
}

func cloneMemo(m logical.MemoState) logical.MemoState {
	m.Point = slices.Clone(m.Point)
	return m
}
