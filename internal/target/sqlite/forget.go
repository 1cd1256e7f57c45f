package sqlite

import (
	"context"

	"github.com/tailrace-cdc/tailrace/logical"
)

var _ logical.Forgetter = (*Target)(nil)

// Forget removes what the file stores about a loop, but for its epoch: if that began anew, a process that sleeps
// since before would prove the epoch of a later loop of the same name (FENCED).
func (t *Target) Forget(ctx context.Context, claim logical.Claim, keepLetters bool) error {
	taken, err := t.Take(ctx, claim)
	if err != nil {
		return err
	}
	s := taken.(*session)
	defer func() { _ = s.Release(ctx) }() // its lease is given back, or expires
	return t.write(ctx, func(w *writer) error {
		if err := s.check(w, s.epoch.Load()); err != nil {
			return err
		}
		tables := []string{"_tailrace_memo"}
		if !keepLetters {
			tables = append(tables, "_tailrace_dead_letters")
		}
		for _, table := range tables {
			if err := w.exec("DELETE FROM "+table+" WHERE loop = ?", claim.Loop); err != nil {
				return err
			}
		}
		return w.exec("UPDATE _tailrace_loops SET holder = '', ttl = 0, expires = 0 WHERE loop = ?", claim.Loop)
	})
}
