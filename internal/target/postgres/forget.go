package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tailrace-cdc/tailrace/logical"
)

var _ logical.Forgetter = (*Target)(nil)

// Forget removes what the staging tables store about a loop, but for its epoch: if that began anew, a client that
// sleeps since before would prove the epoch of a later loop of the same name (FENCED).
func (t *Target) Forget(ctx context.Context, claim logical.Claim, keepLetters bool) error {
	taken, err := t.Take(ctx, claim)
	if err != nil {
		return err
	}
	s := taken.(*session)
	defer func() { _ = s.Release(ctx) }() // its row is gone, or its lease expires
	return t.transact(ctx, func(tx pgx.Tx) error {
		if err := s.check(ctx, tx); err != nil {
			return err
		}
		tables := []string{"memo", "leases"}
		if !keepLetters {
			tables = append(tables, "dead_letters")
		}
		for _, table := range tables {
			if _, err := tx.Exec(ctx, "DELETE FROM "+t.staging+table+" WHERE loop = $1", claim.Loop); err != nil {
				return err
			}
		}
		return nil
	})
}
