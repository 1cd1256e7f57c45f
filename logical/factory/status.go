package factory

import (
	"time"

	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Status is what a loop tells about itself.
type Status struct {
	// State says what the loop is doing.
	State State
	// Mode is the mode in force: "serial", "backfill" or "immediate"; see package logical.
	Mode string
	// Point is the consistent point; nil before the target has answered.
	Point logical.Stamp
	// Offset is the point as a number that grows, where the source's stamps are [logical.OffsetStamp]s;
	// otherwise OffsetKnown is false.
	Offset      uint64
	OffsetKnown bool
	// PointAt is when the consistent point last advanced in the target; zero if it has not since the start.
	PointAt time.Time
	// ConsistentSince is since when every state of the target is one of the source's; zero while a fan
	// leaves it in between.
	ConsistentSince time.Time
	// Staleness is the age of the oldest source transaction that is not in the target; 0 if there is none.
	// StalenessKnown is false while the source has not answered, or cannot tell.
	Staleness      time.Duration
	StalenessKnown bool
	// Err is the last failure at the target, nil when something has succeeded since; ErrAt is its time.
	Err   error
	ErrAt time.Time
	// SourceErr is why reading the source failed last, or else telling it of progress; nil when that has succeeded
	// since.
	SourceErr error
	// Mutations counts the changes that have landed since the start.
	Mutations int64
	// Rejected counts those that were set aside or discarded since the start (NOTHING SILENT).
	Rejected int64
	// DeadLetters is how many letters the target keeps of the loop, as far as the loop knows: it has asked when
	// it took the target over. LetterBytes is their size, which logical.Config.MaxDeadLetterBytes bounds.
	DeadLetters, LetterBytes int64
}

// CaughtUp reports whether everything that the source had committed is in the target. It is never true
// for sources that cannot tell (see [logical.Stalenesser]).
func (s Status) CaughtUp() bool {
	return s.Point != nil && s.StalenessKnown && s.Staleness == 0 && s.Err == nil && s.SourceErr == nil
}

// State is what a loop is doing.
type State string

// The states.
const (
	// Starting: the target has not been taken over yet, or not again; another process may hold the loop.
	Starting State = "starting"
	// Running: changes are applied, or waited for.
	Running State = "running"
	// Retrying: the last attempt failed, and is made again; see Status.Err.
	Retrying State = "retrying"
	// Rejecting: the target rejects a change for good, and logical.Config.OnReject is to stop.
	Rejecting State = "rejecting"
	// Stopped: the loop has ended.
	Stopped State = "stopped"
)

func statusOf(s loops.Status) Status {
	return Status{
		State: State(s.State), Mode: s.Mode.String(),
		Point: s.Point, Offset: s.Offset, OffsetKnown: s.OffsetKnown, PointAt: s.PointAt, ConsistentSince: s.ConsistentSince,
		Staleness: s.Staleness, StalenessKnown: s.StalenessKnown,
		Err: s.Err, ErrAt: s.ErrAt, SourceErr: s.SourceErr,
		Mutations: s.Mutations, Rejected: s.Rejected, DeadLetters: s.Letters, LetterBytes: s.LetterBytes,
	}
}
