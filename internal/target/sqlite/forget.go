package sqlite

import (
	"context"

	"github.com/tailrace-cdc/tailrace/logical"
)

var _ logical.Forgetter = (*Target)(nil)

// Forget removes what the file stores about a loop.
func (t *Target) Forget(ctx context.Context, claim logical.Claim, keepLetters bool) error {
	taken, err := t.Take(ctx, claim)
	if err != nil {
		return err
	}
	s := taken.(*session)
	defer func() { _ = s.Release(ctx) }() // its row is gone, or its lease expires
	return t.write(ctx, func(w *writer) error {
		if err := s.check(w, s.epoch.Load()); err != nil {
			return err
		}
		tables := []string{"_tailrace_memo", "_tailrace_loops"}
		if !keepLetters {
			tables = append(tables, "_tailrace_dead_letters")
		}
		for _, table := range tables {
			if err := w.exec("DELETE FROM "+table+" WHERE loop = ?", claim.Loop); err != nil {
				return err
			}
		}
		return nil
	})
}
