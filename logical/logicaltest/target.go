package logicaltest

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A Row is one row of a table as text: by the names of the relation's columns, with null ones left
// out. See [Text] for the form of the values.
type Row map[string]string

// Options tell the suite how to look at a target from outside.
type Options struct {
	// Read returns all rows of the table that the relation's mutations go to, in any order; none if
	// there is no such table. The values are in the form of [Text].
	Read func(t testing.TB, target logical.Target, rel *logical.Relation) []Row
	// CreateTable makes an empty table for a relation that is not one of points, with its key as the
	// primary key and every other column nullable.
	CreateTable func(t testing.TB, target logical.Target, rel *logical.Relation)
	// Another opens the same store once more, as another process would. The suite closes it.
	Another func(t testing.TB, target logical.Target) logical.Target
}

// RunTarget runs the suite. Each test opens a target of its own, on an empty store; the function
// sees to its closing, which may be the second one.
func RunTarget(t *testing.T, open func(t testing.TB) logical.Target, opts Options) {
	t.Helper()
	s := &suite{open: open, opts: opts}
	for _, test := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"OrderOfOneKey", s.orderOfOneKey},
		{"PointsInAnyBatchesEqualTheModel", s.randomPoints},
		{"RowsInAnyBatchesEqualTheModel", s.randomRows},
		{"PatchKeepsAbsentColumns", s.patchKeepsAbsent},
		{"FillLeavesWhatIsThere", s.fill},
		{"RekeyMovesTheRow", s.rekey},
		{"TypeConflictNamesThePoint", s.typeConflict},
		{"RollbackLeavesNothing", s.rollback},
		{"PrepareIsIdempotent", s.prepare},
		{"ManyColumnsAndRows", s.wide},
		{"MemoIsAtomicWithTheData", s.memo},
		{"DeadLettersAreAtomicWithTheData", s.deadLetters},
		{"DeadLetterIsStoredOnce", s.lettersOnce},
		{"TakenBackIsAtomicWithTheData", s.takeBack},
		{"DeadLetterThatIsRejectedAgainStays", s.lettersRenewed},
		{"OldSessionIsFenced", s.oldSession},
		{"FenceEndsWhatWasBegunBefore", s.fence},
		{"LeaseKeepsAnotherHolderOut", s.lease},
		{"VanishedHolderIsReplacedAfterItsLease", s.vanished},
		{"LoopsDoNotDisturbEachOther", s.manyLoops},
		{"ForgottenLoopIsUnknown", s.forget},
		{"CancelledContextLeavesTheTargetUsable", s.cancelled},
		{"ClosedTargetSaysSo", s.closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

// RunDeadLetters runs the part of the suite that is about dead letters, for targets that take lines and not
// values, and whose transactions are none: what is set aside still waits for the commit.
func RunDeadLetters(t *testing.T, open func(t testing.TB) logical.Target) {
	t.Helper()
	s := &suite{open: open}
	t.Run("DeadLettersWaitForTheCommit", s.deadLetters)
	t.Run("DeadLetterIsStoredOnce", s.lettersOnce)
	t.Run("DeadLetterThatIsRejectedAgainStays", s.lettersRenewed)
}

type suite struct {
	open func(t testing.TB) logical.Target
	opts Options
}

// take takes a loop over until the end of the test.
func (s *suite) take(t testing.TB, target logical.Target, loop string) logical.Session {
	t.Helper()
	session, err := target.Take(testContext(t), logical.Claim{Loop: loop, Holder: "me", TTL: time.Minute})
	if err != nil {
		t.Fatalf("take %s: %v", loop, err)
	}
	t.Cleanup(func() { _ = session.Release(context.Background()) }) // It may have been lost.
	return session
}

// apply prepares and applies mutations in a transaction of their own.
func apply(t testing.TB, session logical.Session, muts ...logical.Mutation) {
	t.Helper()
	if err := Apply(testContext(t), session, muts...); err != nil {
		t.Fatalf("apply: %v", err)
	}
}

// Apply prepares the mutations' relations and applies them in one transaction.
func Apply(ctx context.Context, session logical.Session, muts ...logical.Mutation) error {
	if err := session.Prepare(ctx, Relations(muts)); err != nil {
		return err
	}
	tx, err := session.Begin(ctx)
	if err != nil {
		return err
	}
	if err = tx.Apply(ctx, muts); err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		_ = tx.Rollback(ctx) // The error of the transaction is the one to report.
	}
	return err
}

// Relations lists the relations of mutations, each once.
func Relations(muts []logical.Mutation) []*logical.Relation {
	var list []*logical.Relation
	seen := map[*logical.Relation]bool{}
	for i := range muts {
		if rel := muts[i].Relation; !seen[rel] {
			seen[rel] = true
			list = append(list, rel)
		}
	}
	return list
}

// testContext ends a test that hangs, with the stack of who waited.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Seed returns the seed of a random test, and prints it: TAILRACE_SEED if that is set.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("TAILRACE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("TAILRACE_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("repeat with TAILRACE_SEED=%d", seed)
	return seed
}

// Count returns full when TAILRACE_SOAK is set, and otherwise reduced.
func Count(reduced, full int) int {
	if os.Getenv("TAILRACE_SOAK") != "" {
		return full
	}
	return reduced
}
