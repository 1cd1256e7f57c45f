package queue

import "context"

// Log is what a loop needs of a durable log. [Queue] is one; package queuetest
// has the tests that any other must pass to stand in its place.
type Log interface {
	// ID names the log for ever.
	ID() ID
	// Reserve sets space for the group aside, so that appending it cannot fail
	// for want of it. If it does not fit, the policy decides: a *FullError, a
	// *LeftOutError, or older groups make room. After either error nothing has
	// happened yet; a LeftOutError is followed by one Decline.
	Reserve(g *Group) (Reservation, error)
	// Decline ends what Reserve has begun with a *LeftOutError. If another log has
	// kept the group, and its writer was told so, it is declared lost here; else the
	// writer still has it, and it only counts as refused.
	Decline(g *Group, keptElsewhere bool)
	// Release gives a reservation back that was not appended.
	Release(r Reservation)
	// Append appends the group as a whole and returns its first and last
	// sequence, once it is durable. It uses the reservation up, whether it
	// succeeds or not. If ctx ends before the group was begun, nothing is kept;
	// after that Append waits for the outcome.
	Append(ctx context.Context, r Reservation, g *Group) (first, last Sequence, err error)
	// NewReader returns a reader of the blocks after a sequence. Zero means from
	// the oldest that is there.
	NewReader(after Sequence) (Reader, error)
	// Ack moves the cursor: everything up to and including seq was dealt with.
	// An older sequence than the cursor is no error and does nothing.
	Ack(seq Sequence) error
	// Cursor returns the newest acknowledged sequence.
	Cursor() Sequence
	// Purge declares everything that is unsent lost, and returns the loss.
	Purge() (Loss, error)
	// Stats returns the state, cheaply.
	Stats() Stats
	// Close makes everything durable and ends all readers. It may be called twice.
	Close() error
}

// Reader delivers the blocks of a log in sequence, complete groups only. It is
// used by one goroutine. Several readers of one log do not disturb each other.
type Reader interface {
	// Next waits for the next block. The payload is valid until the next call of
	// Next, NextInto or Close.
	//
	// After an error other than ErrClosed or that of ctx, it may be called again,
	// after a delay: what could not be read is tried again, and after some
	// failures at the same place declared lost.
	Next(ctx context.Context) (Block, error)
	// NextInto is Next with the payload in the caller's memory: in dst's array if
	// it is large enough (a capacity of MaxPayload always is), else in a new one.
	// The payload belongs to the caller.
	NextInto(ctx context.Context, dst []byte) (Block, error)
	// Close frees what the reader holds.
	Close() error
}

// Reservation is space set aside in one log. It ends with exactly one Append or
// Release.
type Reservation struct{ bytes int64 }

// NewReservation is for other implementations of Log.
func NewReservation(bytes int64) Reservation { return Reservation{bytes} }

// Bytes returns how much is reserved.
func (r Reservation) Bytes() int64 { return r.bytes }

var _ Log = (*Queue)(nil)
