package sqlite

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/lease"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A session is a loop's hold on the file: its epoch, and a lease that it keeps alive.
type session struct {
	*lease.Keeper
	t     *Target
	claim logical.Claim
	epoch atomic.Int64

	mu      sync.Mutex
	writing int // transactions of the session that hold the writer
}

var _ logical.Session = (*session)(nil)

// Prepare makes tables and columns for relations that have not been seen. While a transaction of
// the session holds the writer it leaves that to Apply, which does it within the transaction.
func (s *session) Prepare(ctx context.Context, relations []*logical.Relation) error {
	if len(relations) == 0 || s.isWriting() {
		return nil
	}
	return s.t.write(ctx, func(w *writer) error {
		if err := s.check(w, s.epoch.Load()); err != nil {
			return err
		}
		for _, rel := range relations {
			if _, err := w.plan(rel); err != nil {
				return w.planError(err)
			}
		}
		return nil
	})
}

// Begin starts a transaction. It takes the writer, and proves the epoch, when it has something to
// say, so that a transaction that waits for its source keeps nobody from writing.
func (s *session) Begin(ctx context.Context) (logical.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Wrap(err, "sqlite: begin")
	}
	select {
	case <-s.t.closed:
		return nil, errClosed()
	default:
	}
	return &tx{s: s, epoch: s.epoch.Load()}, nil
}

// Fence bumps the epoch. It waits for the transaction that holds the writer.
func (s *session) Fence(ctx context.Context) error {
	return s.t.write(ctx, func(w *writer) error {
		epoch := s.epoch.Load()
		if err := s.check(w, epoch); err != nil {
			return err
		}
		if err := w.exec("UPDATE _tailrace_loops SET epoch = epoch + 1 WHERE loop = ?", s.claim.Loop); err != nil {
			return err
		}
		// If the commit fails the epoch in the file may be the old one: then this session is fenced
		// like any other that is not the owner, and the loop takes over anew.
		s.epoch.Store(epoch + 1)
		return nil
	})
}

// LoadMemo returns what was last stored for the loop.
func (s *session) LoadMemo(ctx context.Context) (state logical.MemoState, err error) {
	err = s.t.write(ctx, func(w *writer) error {
		if err := s.check(w, s.epoch.Load()); err != nil {
			return err
		}
		state, err = w.loadMemo(s.claim.Loop)
		return err
	})
	return state, err
}

// SaveMemo stores the memo in a transaction of its own.
func (s *session) SaveMemo(ctx context.Context, state logical.MemoState) error {
	return s.t.write(ctx, func(w *writer) error {
		if err := s.check(w, s.epoch.Load()); err != nil {
			return err
		}
		return w.saveMemo(s.claim.Loop, state, s.t.now())
	})
}

func (s *session) isWriting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writing > 0
}
