package queue

import (
	"fmt"
	"time"

	"github.com/pkg/errors"
)

// ErrClosed is returned by a queue or a reader that was closed.
var ErrClosed = errors.New("queue: closed")

// Hint returns what an operator can do about the error, or "".
func Hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// FullError says that a group does not fit. Nothing of it was kept.
type FullError struct {
	Queue string // Config.Name
	ID    ID
	Need  int64
	// Unsent and Limit are those of what is full: the queue, or all queues.
	Unsent, Limit int64
	// Scope is what is full: "queue", "store" (all queues together) or "disk"
	// (the reserve of free space).
	Scope string
	// Never is set if the group would not even fit into an empty queue.
	Never bool

	// final is set if not even dropping older groups helps.
	final bool
}

func (e *FullError) Error() string {
	switch {
	case e.Never:
		return fmt.Sprintf("queue %s: a group of %d bytes can never fit: the limit is %d bytes", e.Queue, e.Need, e.Limit)
	case e.Scope == "disk":
		return fmt.Sprintf("queue %s: the device has %d bytes free, and %d are to stay so", e.Queue, e.Unsent, e.Limit)
	case e.Scope == "store":
		return fmt.Sprintf("queue %s: all queues together are full: %d of %d bytes are unsent", e.Queue, e.Unsent, e.Limit)
	}
	return fmt.Sprintf("queue %s: full: %d of %d bytes are unsent, and %d more do not fit", e.Queue, e.Unsent, e.Limit, e.Need)
}

// Hint says what helps.
func (e *FullError) Hint() string {
	switch {
	case e.Never:
		return "write smaller batches, or raise the queue's size limit"
	case e.Scope == "disk":
		return "free space on the device, or lower the reserve"
	}
	return "see why the remote does not take the data; raise the limit, or choose the policy dropOldest"
}

// LeftOutError says that a group does not fit, and that the policy DropNewest wants
// it to be left out of this queue where others keep it. See [Log.Decline].
type LeftOutError struct{ *FullError }

func (e *LeftOutError) Unwrap() error { return e.FullError }

// CorruptionError says that bytes on disk are not what was written.
type CorruptionError struct {
	Dir     string
	Segment string // file name
	Offset  int64
	Length  int64
	Reason  string
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("queue: damaged: %s/%s at offset %d (%d bytes): %s", e.Dir, e.Segment, e.Offset, e.Length, e.Reason)
}

// Hint says what helps.
func (e *CorruptionError) Hint() string {
	return "the damaged bytes are kept in the folder aside; check the device and its memory; tailrace queue verify shows what is left"
}

// VersionError says that a file was written by a newer program.
type VersionError struct {
	Path    string
	Version uint16
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("queue: %s has format version %d, and this program knows up to %d", e.Path, e.Version, formatVersion)
}

// Hint says what helps.
func (e *VersionError) Hint() string {
	return "start the newer version again, and let it send the queue"
}

// LockedError says that another process has the queue.
type LockedError struct {
	Path string
	Err  error
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("queue: %s: in use by another process", e.Path)
}

func (e *LockedError) Unwrap() error { return e.Err }

// Hint says what helps.
func (e *LockedError) Hint() string { return "stop the server, or work on a copy of the directory" }

// AckError says that a sequence was acknowledged that was never delivered.
type AckError struct {
	Queue          string
	Sequence, Last Sequence
}

func (e *AckError) Error() string {
	return fmt.Sprintf("queue %s: sequence %d was acknowledged, but the newest is %d", e.Queue, e.Sequence, e.Last)
}

// ClockError says that blocks bear times that are still to come: the clock was ahead when they were appended.
type ClockError struct {
	Queue    string
	Sequence Sequence
	// Time is what the block says, Now the clock; in nanoseconds since 1970.
	Time, Now int64
}

func (e *ClockError) Error() string {
	at := func(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }
	return fmt.Sprintf("queue %s: block %d says that it was appended at %s, and it is %s: the clock was ahead, so its age counts from now on",
		e.Queue, e.Sequence, at(e.Time), at(e.Now))
}

// Hint says what helps.
func (e *ClockError) Hint() string {
	return "let the clock be set, by NTP or the like, before the server starts"
}

// NoQueueError says that a directory holds nothing of a queue, so that nothing in it is looked at or moved.
type NoQueueError struct{ Dir string }

// Error says what to give.
func (e *NoQueueError) Error() string {
	return "queue: " + e.Dir + " holds no queue: give the directory of one stream, such as DATADIR/replicationq/ID"
}
