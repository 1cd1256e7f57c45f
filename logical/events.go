package logical

import "context"

// Events is the sink that a dialect talks to. Each source transaction is one OnBegin, any number of
// OnData, and one OnCommit, in source order. A source without transactions makes each of its units
// of delivery one.
//
// All calls come from the goroutine that runs [Dialect.Process]. A call may block while the target
// is slow (BOUNDED). An error that it returns is final for this run of Process: the dialect returns
// it, and the loop starts again from the stored consistent point.
type Events interface {
	// OnBegin starts a transaction. The stamp is after that of the transaction before, and becomes
	// the consistent point when the transaction is in the target.
	OnBegin(ctx context.Context, stamp Stamp) error

	// OnData adds mutations to the transaction, in source order. The slice itself may be reused as
	// soon as the call returns; what the mutations point to (Values, texts, Raw) belongs to the
	// loop from then on and must not be changed.
	OnData(ctx context.Context, muts []Mutation) error

	// OnCommit ends the transaction. That it returns does not mean that the transaction is in the
	// target. A transaction without data is welcome: it advances the consistent point. It takes the place
	// of one that the source has lost since it was read, so that nothing of what comes next is taken
	// for a part of that.
	OnCommit(ctx context.Context) error

	// OnRollback gives up the transaction that is open, if any, because the source is going to be read
	// again from the consistent point. It waits until what was committed has landed, so that it blocks
	// while the target is away, and returns when nothing given up can reach the target any more
	// (FENCED). Process calls it when it receives a message with Rollback set, after it has forgotten
	// its own partial state.
	OnRollback(ctx context.Context) error
}
