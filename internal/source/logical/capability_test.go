package logical

import (
	"context"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/meter"
	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

type reachingSession struct{ logical.Session }

func (reachingSession) Reaches(_ context.Context, m *logical.Mutation) bool {
	return m.Op == logical.OpDelete
}

// TestOrderIsAskedOfTheSessionInside: what a loop wraps around its session does not hide which mutations change more
// than their own row.
func TestOrderIsAskedOfTheSessionInside(t *testing.T) {
	t.Parallel()
	plain, err := memory.Open(memory.Config{}).Take(t.Context(), logical.Claim{Loop: "loop", Holder: "me"})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := as[logical.Reacher](meter.New().Session(plain)); ok {
		t.Error("the session of a target where nothing does is said to know")
	}
	s, ok := as[logical.Reacher](meter.New().Session(reachingSession{plain}))
	if !ok || !s.Reaches(t.Context(), &logical.Mutation{Op: logical.OpDelete}) {
		t.Error("the session inside is not asked")
	}
}
