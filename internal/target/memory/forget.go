package memory

import (
	"context"
	"slices"

	"github.com/tailrace-cdc/tailrace/logical"
)

var _ logical.Forgetter = (*Target)(nil)

// Forget implements logical.Forgetter. It keeps the epoch, so that no session of before passes for a later one.
func (t *Target) Forget(ctx context.Context, claim logical.Claim, keepLetters bool) error {
	s, err := t.Take(ctx, claim)
	if err != nil {
		return err
	}
	if err := s.Release(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.loops[claim.Loop]; l != nil {
		l.memo = logical.MemoState{}
	}
	if keepLetters {
		return nil
	}
	t.letters = slices.DeleteFunc(t.letters, func(d logical.DeadLetter) bool { return d.Loop == claim.Loop })
	return nil
}
