package logical

import (
	"context"
	"time"
)

// A Dialect is what is specific to one kind of source: how to read its messages and how to decode
// them. The loop owns everything else: retries, modes, the consistent point, metrics.
//
// One loop runs ReadInto and Process of its dialect side by side, each at most once at a time.
type Dialect interface {
	// ZeroStamp returns the position before everything: what a loop starts from that has no stored
	// consistent point. A source that keeps a cursor of its own starts at that cursor then.
	ZeroStamp() Stamp

	// DecodeStamp reads a stamp back from the JSON that was stored of it. It is called for the consistent
	// point, again whenever the loop has to find out whether a transaction has landed, and for stored dead
	// letters. So it changes nothing, and says the same of the same text for as long as a run lasts; a
	// position that means nothing to the source any more is the ZeroStamp for ever. What there is to do
	// about a stored point is done by a [Resumer]. DecodeStamp may be called concurrently. An error stops
	// the loop until an operator acts, so it says what is wrong with the stored text.
	DecodeStamp(stored []byte) (Stamp, error)

	// ReadInto reads the source's messages from just after the given consistent point, and sends
	// them. It is the fragile part: when it returns, with an error or without one although ctx is
	// not done, the loop sends a Rollback message after what it had sent, and calls it again, from
	// the consistent point of then, after a jittered and growing delay.
	ReadInto(ctx context.Context, from Stamp, out Outbox) error

	// Process receives messages, decodes them and calls events, until Receive returns an error,
	// which it returns. If it returns any other error, the loop restarts as a whole from the stored
	// consistent point.
	Process(ctx context.Context, in Inbox, events Events) error
}

// A Message is what ReadInto hands to Process.
type Message struct {
	// Body is the dialect's own.
	Body any
	// Size is the memory that Body holds on to, in bytes. The messages between ReadInto and Process
	// are bounded by it (BOUNDED).
	Size int
	// Rollback says that the source is going to be read again from the consistent point. The loop
	// sends it with a nil Body; dialects do not send it.
	Rollback bool
}

// An Outbox takes the messages of a Dialect.ReadInto.
type Outbox interface {
	// Send hands a message over. It blocks while too many bytes wait to be processed, and returns
	// an error only when ctx is done or the loop stops.
	Send(ctx context.Context, msg Message) error
}

// An Inbox gives the messages to a Dialect.Process.
type Inbox interface {
	// Receive returns the next message, in the order in which they were sent. It returns an error
	// only when ctx is done or the loop stops.
	Receive(ctx context.Context) (Message, error)
}

// A Backfiller is a Dialect that has a finite, faster way to catch up, such as a snapshot.
//
// A loop that begins, with nothing stored at its target, is in fan mode until it has caught up, whatever
// Config.BackfillWindow says; a loop that has become stale is too. Whenever reading begins in fan mode,
// BackfillInto is called first, and then ReadInto.
//
// The rules for the stamps are those of any other transaction: they grow, up to those that ReadInto goes
// on with, and each is stored as the consistent point once everything up to it has landed. So a stamp of a
// backfill says how far that has come (the log position at which a snapshot was taken, and the part of it
// that has been sent), and a restart in the middle goes on from there.
type Backfiller interface {
	Dialect

	// BackfillInto sends what ReadInto would be slow at sending, from just after the given consistent
	// point on, and returns nil when it has: the target is then a state of the source, that of the last
	// stamp sent. It ends between two transactions. The loop goes on with ReadInto from that stamp (from
	// the one given, if nothing was sent), without a gap and without a second pass.
	//
	// It is called with stamps of its own, after a restart, and with stamps of ReadInto. If there is
	// nothing to catch up with from there, it returns nil at once.
	//
	// An error is treated as one of ReadInto: what was sent is rolled back to the consistent point, and
	// after a delay BackfillInto is called again from there.
	BackfillInto(ctx context.Context, from Stamp, out Outbox) error
}

// A Resumer is a Dialect that wants to know what is stored at the target as the consistent point, because
// its source may have been restored from a backup, or replaced, since that was stored.
type Resumer interface {
	Dialect
	// Resume is called with the stored text of the consistent point whenever the loop has taken its
	// target over, before that is decoded and anything is read; not if nothing is stored. It is the place
	// to see to it that the source does not use positions again that the target knows, and to tell the
	// operator. A process may die at any moment in it, and it is then called again, with the same text or,
	// once a transaction has landed, another one. An error ends the run, and it is tried again.
	Resume(ctx context.Context, stored []byte) error
}

// An Acknowledger is a Dialect whose source wants to know what may be forgotten.
type Acknowledger interface {
	Dialect
	// Acknowledge says that the consistent point has reached stamp, durably. Calls are never
	// concurrent, and a call may skip stamps. An error is logged and shown, and
	// the call is made again after a delay, for this stamp or a later one.
	Acknowledge(ctx context.Context, stamp Stamp) error
}

// A Stalenesser is a Dialect that can tell what is waiting at its source, whether or not it has been
// read. Without it the loop judges staleness by what it has read and not yet applied, and while that is
// nothing, staleness is not known and the mode stays. And a loop whose fan was cut short has to guess when
// it has passed what that left in the target, from the source's silence; until then it stays in fan mode.
type Stalenesser interface {
	Dialect
	// OldestPending returns the commit time of the oldest transaction after the given consistent
	// point. The time is zero if there is none. The flag is false while the source has not answered.
	OldestPending(after Stamp) (oldest time.Time, known bool)
	// Newest returns the position of the newest transaction that the source has now, or the zero stamp
	// if it has none. The flag is false while the source has not answered.
	Newest() (stamp Stamp, known bool)
}

// A Replayer is a Dialect whose dead letters can be replayed.
type Replayer interface {
	Dialect
	// Replay makes the mutation that a letter is about, to be applied long after it was set aside: of a
	// point, an [OpFill]. It may be called concurrently, beside ReadInto and Process. An error says what
	// is wrong with the letter.
	Replay(letter DeadLetter) (Mutation, error)
}

// A Lessor makes sure that only one process reads a source. A dialect implements it if its source needs
// that; targets that can keep leases grant one with each [Session].
//
// The loop acquires the lease before it takes its target over and before it reads, and holds it while it
// runs. When it is lost, the run ends at once, and the loop waits to acquire it again: a stand-by is a
// second process with the same loop.
type Lessor interface {
	// Acquire waits until the lease of the loop is held. The loop is named by its identity (Claim.Loop).
	Acquire(ctx context.Context, loop string) (Lease, error)
}

// A Lease is held until it is released or lost.
type Lease interface {
	// Lost is closed when the lease is no longer held. Whatever was to happen under it must stop;
	// fencing makes sure that what does not stop in time has no effect (FENCED).
	Lost() <-chan struct{}
	// Release gives the lease back, so that a successor need not wait for its expiry.
	Release(ctx context.Context) error
}
