package influx

import (
	"context"
	"sync"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A session is a loop's hold on the remote, within this process.
type session struct {
	t     *Target
	claim logical.Claim
	done  resume // what an Apply that failed had sent

	lost chan struct{}

	mu    sync.Mutex
	ended bool
	epoch uint64
	open  map[*tx]struct{}
	idle  chan struct{} // closed and forgotten when a transaction has ended
}

var _ logical.Session = (*session)(nil)

func newSession(t *Target, claim logical.Claim) *session {
	return &session{t: t, claim: claim, lost: make(chan struct{}), open: map[*tx]struct{}{}}
}

// Lost implements logical.Lease.
func (s *session) Lost() <-chan struct{} { return s.lost }

// Release implements logical.Lease.
func (s *session) Release(context.Context) error {
	s.lose()
	s.free()
	return nil
}

// free lets another holder have the loop.
func (s *session) free() {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if s.t.loops[s.claim.Loop] == s {
		delete(s.t.loops, s.claim.Loop)
	}
	s.t.wake()
}

// lose ends the session: nothing is begun any more.
func (s *session) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		close(s.lost)
	}
}

// Prepare does nothing: a remote makes its measurements by itself.
func (s *session) Prepare(ctx context.Context, _ []*logical.Relation) error { return s.check(ctx) }

// LoadMemo says that there is none: the source's cursor is the consistent point.
func (s *session) LoadMemo(ctx context.Context) (logical.MemoState, error) {
	return logical.MemoState{}, s.check(ctx)
}

// SaveMemo does nothing.
func (s *session) SaveMemo(ctx context.Context, _ logical.MemoState) error { return s.check(ctx) }

// Begin implements logical.Session.
func (s *session) Begin(ctx context.Context) (logical.Tx, error) {
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &tx{s: s, epoch: s.epoch}
	s.open[x] = struct{}{}
	return x, nil
}

// Fence waits until every transaction that has sent something has ended. Those that have not sent
// anything yet, never will.
func (s *session) Fence(ctx context.Context) error {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return s.fenced()
	}
	s.epoch++
	s.mu.Unlock()
	return s.quiet(ctx)
}

// quiet waits until no transaction of an older epoch, or, when the session has ended, none at all, is in
// the middle of its sending.
func (s *session) quiet(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		waits := false
		for x := range s.open {
			if (x.epoch < s.epoch || s.ended) && x.sent {
				waits = true
			}
		}
		if !waits {
			return nil
		}
		if s.idle == nil {
			s.idle = make(chan struct{})
		}
		idle := s.idle
		s.mu.Unlock()
		select {
		case <-idle:
			s.mu.Lock()
		case <-ctx.Done():
			s.mu.Lock()
			return errors.Wrap(context.Cause(ctx), "influx: a request is still in flight")
		}
	}
}

// sending notes that a transaction is about to send, unless it may not.
func (s *session) sending(x *tx) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.open[x]; !open {
		return errors.New("influx: the transaction has ended")
	}
	if s.ended || x.epoch < s.epoch && !x.sent {
		return s.fenced()
	}
	x.sent = true
	return nil
}

// forget notes that a transaction has ended.
func (s *session) forget(x *tx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, x)
	if s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// check reports why the session cannot be used.
func (s *session) check(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return errors.Wrap(err, "influx")
	}
	if s.t.isClosed() {
		return errClosed()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return s.fenced()
	}
	return nil
}

func (s *session) fenced() error {
	return &logical.Error{
		Err: errors.Errorf("influx: loop %s belongs to somebody else", s.claim.Loop), Class: logical.ClassFenced,
	}
}
