package influx

import (
	"context"

	"github.com/tailrace-cdc/tailrace/logical"
)

// LatestResponse returns the status of the last answer to a write, 0 if there was none, and whether
// anything was written at all.
func (t *Target) LatestResponse() (code int, asked bool) {
	f := t.facts.snapshot()
	return f.LatestResponseCode, !f.LastAttemptAt.IsZero()
}

// Forget implements logical.Forgetter: the remote keeps nothing about a loop, but its dead letters are
// stored here.
func (t *Target) Forget(ctx context.Context, claim logical.Claim, keepLetters bool) error {
	store, ok := t.cfg.DeadLetters.(interface {
		Forget(ctx context.Context, loop string) error
	})
	if !ok || keepLetters {
		return nil
	}
	return store.Forget(ctx, claim.Loop)
}

var _ logical.Forgetter = (*Target)(nil)
