package logical

import (
	"context"
	"encoding/json"
	"time"
)

// A Target is something that mutations can be written to. It is opened once and shared by loops;
// its methods may be called concurrently.
type Target interface {
	// Traits says what the target can do. It does not change, and needs no connection.
	Traits() Traits

	// Take takes a loop over: it waits for another holder's lease to end (the same holder's lease is
	// taken over at once), bumps the loop's epoch, which waits for transactions of older epochs to
	// end, and returns the session through which the loop writes from then on (FENCED).
	//
	// It creates the staging tables that it needs on first use.
	Take(ctx context.Context, claim Claim) (Session, error)

	// Close ends the connections. Sessions must have been released.
	Close() error
}

// Traits tells what a loop may expect of a target.
type Traits struct {
	// Transactional says that a Tx is atomic and that the memo is written in it: ATOMIC and FENCED
	// hold. Where it is false, the dialect's own cursor is the consistent point, and delivery is at
	// least once.
	Transactional bool
	// MaxParallel bounds how many transactions of one loop gain from running at once; 0 is no bound.
	MaxParallel int
	// WantsRaw says that the target forwards Mutation.Raw and does not look at Values.
	WantsRaw bool
}

// A Claim says who takes over which loop.
type Claim struct {
	// Loop is the loop's identity in the target: for an InfluxDB stream (installation, stream), for
	// a database source the loop's name.
	Loop string
	// Holder identifies whoever runs the loop; for a server its installation. Two processes never
	// have one Holder at the same time.
	Holder string
	// TTL is how long the lease lives without being renewed; the session renews it.
	TTL time.Duration
}

// A Session is a loop's hold on its target: its lease and its epoch. Its methods may be called
// concurrently. A method returns an error of [ClassFenced] when the epoch belongs to somebody else.
type Session interface {
	Lease
	Memo

	// Prepare makes sure that the target can take mutations of these relations: for points it
	// creates tables and adds columns, in short transactions of its own. It is cheap for relations
	// that it has seen. It is called while no Tx that could hold a lock on them is open in this
	// goroutine.
	Prepare(ctx context.Context, relations []*Relation) error

	// Begin starts a target transaction that proves that this session owns the loop's epoch, and
	// keeps successors waiting until it has ended. The epoch is the session's at the time of the
	// call; a target may put the proof off until the transaction has something to say, so that one
	// round trip carries both: [ClassFenced] may then come of any method up to Commit.
	Begin(ctx context.Context) (Tx, error)

	// Fence bumps the epoch on behalf of this session: when it returns, every Tx begun before has
	// ended, its effects whole or not at all, wherever its client may be. It is called before
	// anything is applied again (FENCED).
	Fence(ctx context.Context) error
}

// A Reacher is a Session of a target where a change of one row may change others (ON DELETE CASCADE).
type Reacher interface {
	Session
	// Reaches reports whether the mutation may change rows other than its own. In fan mode it is a barrier then,
	// as [Op.Barrier] says of some operations (ORDER). It is cheap for relations that the target has seen, and
	// true where the target cannot say. It may be called concurrently.
	Reaches(ctx context.Context, m *Mutation) bool
}

// A Tx is one target transaction. It is used by one goroutine. Every Tx is ended by Commit or
// Rollback; after an error of any method only Rollback may be called.
type Tx interface {
	// Apply applies mutations as if one after the other, in the order given (ORDER). It may be
	// called any number of times. The mutations are not changed, and not kept after the return.
	//
	// An error of [ClassReject] means that the target will never accept at least one of them; which
	// ones, [RejectedOf] says where the target knows.
	//
	// Apply without mutations sends what is held back (see Commit), so that its errors are returned
	// now. It keeps a transaction alive that waits for its source, and shows whether it has died.
	Apply(ctx context.Context, muts []Mutation) error

	// SetMemo stores the loop's memo as part of the transaction (PREFIX, ATOMIC).
	SetMemo(ctx context.Context, state MemoState) error

	// SetAside stores dead letters as part of the transaction (NOTHING SILENT).
	// A letter that the loop has already (see [DeadLetter.Fingerprint]) is not stored once more.
	SetAside(ctx context.Context, letters []DeadLetter) error

	// TakeBack removes dead letters of the session's loop, by their IDs, as part of the transaction in
	// which their mutations are applied. Letters that are not there are passed over.
	TakeBack(ctx context.Context, ids []int64) error

	// Commit ends the transaction, durably (DURABLE THERE). A target may hold small changes back until
	// then, so that one round trip carries the whole transaction: what Apply, SetMemo,
	// SetAside and TakeBack would have returned is then returned by Commit, with the same classes. [RejectedOf] refers to
	// the slice of Apply if it was called once, and is empty otherwise. After an error of
	// [ClassUnknownCommit] the transaction may or may not have happened; the caller settles it with
	// [Session.Fence] and then [Memo.LoadMemo].
	Commit(ctx context.Context) error

	// Rollback gives the transaction up. It does nothing after Commit, so that it can be deferred.
	Rollback(ctx context.Context) error
}

// A Checker is a Tx of a target that checks some constraints only when a transaction ends.
type Checker interface {
	Tx
	// Check checks them now, as Commit would, and returns the same errors.
	Check(ctx context.Context) error
}

// A Memo stores the consistent point of the session's loop.
type Memo interface {
	// LoadMemo returns what was last stored for the loop, or a MemoState without a point if nothing
	// was: a new target.
	LoadMemo(ctx context.Context) (MemoState, error)
	// SaveMemo stores the memo in a transaction of its own, for the consistent point of fan mode.
	SaveMemo(ctx context.Context, state MemoState) error
}

// MemoState is a loop's row in the memo, which readers of the target may ask.
type MemoState struct {
	// Point is the stamp of the consistent point, as JSON; nil if none was stored.
	Point json.RawMessage
	// PointTime is the commit time of Point at the source; zero if it is not known.
	PointTime time.Time
	// Mode is the mode in force, by its name.
	Mode string
	// ConsistentSince is since when every state of the target is one of the source's; zero while a
	// fan leaves it in between.
	ConsistentSince time.Time
	// Skip is how many leading mutations of the transaction after Point are in the target already, or
	// kept as dead letters: one that was too large to be applied at once.
	Skip int
}
