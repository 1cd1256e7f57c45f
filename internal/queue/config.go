package queue

import (
	"log/slog"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// SyncMode says when an appended group is made durable.
type SyncMode uint8

const (
	// SyncAlways answers an append when the group is durable: it survives a power
	// cut at the very next instant. The default.
	SyncAlways SyncMode = iota
	// SyncInterval answers when the group is written, and syncs every
	// Config.SyncEvery. A power cut loses at most what came within that time; the
	// death of the process alone loses nothing.
	SyncInterval
	// SyncNever leaves it to the operating system when to write the content of a
	// segment. A power cut loses what the system had not written, within the
	// newest segment; the death of the process alone loses nothing.
	SyncNever
)

// String returns always, interval or never.
func (m SyncMode) String() string { return [...]string{"always", "interval", "never"}[m] }

// Policy says what happens to a group that does not fit.
type Policy uint8

const (
	// Refuse returns a [FullError]: the writer has to come again. The default.
	Refuse Policy = iota
	// DropOldest drops the oldest unsent groups to make room, and declares them lost.
	DropOldest
	// DropNewest returns a [LeftOutError]: the group is left out of this queue, which
	// is a loss if another one keeps it, see [Log.Decline].
	DropNewest
)

// String returns the name that users know: refuse, dropOldest or dropNewest.
func (p Policy) String() string { return [...]string{"refuse", "dropOldest", "dropNewest"}[p] }

// Limits bound a queue. They can be changed while it runs, see [Queue.SetLimits].
type Limits struct {
	// MaxBytes is the most that unsent groups may take, as stored. The directory
	// may for a while be larger, by what was sent of the oldest segment (at most
	// an eighth) and by what damage has set aside. Default: 64 MiB.
	MaxBytes int64
	// MaxAge is how old an unsent block may become, by its own enqueue time, before
	// it is dropped and declared lost. A block whose time is still to come, from a
	// clock that was ahead, is as old as the next one behind it that can be right, and
	// at least as old as it was noticed, so it may wait twice as long. No block counts
	// as older than those that earlier processes appended. A clock that is set ahead ages everything that waits.
	// Zero: as old as it gets. Default: 0.
	MaxAge time.Duration
	// Policy says what happens to a group that does not fit. Default: Refuse.
	Policy Policy
}

// DefaultMaxBytes is the default of Limits.MaxBytes.
const DefaultMaxBytes = 64 << 20

// Segments are an eighth of the queue, but not so small that making files is all
// the work, and not so large that opening has much to scan.
const (
	minSegment = 64 << 10
	maxSegment = 32 << 20
)

func (l Limits) withDefaults() Limits {
	if l.MaxBytes <= 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	return l
}

// segmentSize returns how large segments are to become.
func (l Limits) segmentSize() int64 {
	return min(max(l.MaxBytes/8, minSegment), maxSegment)
}

// Config says how to open a queue. Only Dir is required.
type Config struct {
	// Dir is the queue's own directory. It is made if it does not exist.
	Dir string
	// Name is what people know the queue by, for example the id of its stream. It
	// goes into errors and logs. Default: Dir.
	Name string
	// Limits bound the queue. Default: see [Limits].
	Limits Limits
	// Sync says when an append is durable. Default: SyncAlways.
	Sync SyncMode
	// SyncEvery is the time between syncs with SyncInterval. Default: 1 s.
	SyncEvery time.Duration
	// CursorEvery is how long an acknowledgement may wait until it is durable.
	// What was acknowledged within this time before a crash is delivered again.
	// Default: 1 s.
	CursorEvery time.Duration
	// IdleAfter is how long nothing has to happen until the queue closes its
	// files, and removes those that were sent completely. Default: 10 s.
	IdleAfter time.Duration
	// Now is the wall clock. Default: time.Now.
	Now func() time.Time
	// FS is the file system. Default: the real one.
	FS disk.FS
	// Logger is told what an operator should know. Default: none.
	Logger *slog.Logger
	// Events are called for what must not be silent. Default: none.
	Events Events

	// guard is set by a Store: its lock covers this queue, and its limits too.
	guard *Store
	// manual leaves the keeper out, so that a test decides when it comes.
	manual bool
	// chunk is how much a reader reads at once.
	chunk int
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = c.Dir
	}
	c.Limits = c.Limits.withDefaults()
	if c.SyncEvery <= 0 {
		c.SyncEvery = time.Second
	}
	if c.CursorEvery <= 0 {
		c.CursorEvery = time.Second
	}
	if c.IdleAfter <= 0 {
		c.IdleAfter = 10 * time.Second
	}
	if c.chunk == 0 {
		c.chunk = readChunk
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.FS == nil {
		c.FS = disk.OS()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Events are hooks for what must not be silent. Each may be nil. They are called
// one at a time, without any lock held, by whichever goroutine noticed; they
// must not block, and must not close the queue.
type Events struct {
	// Lost is called for each new loss, after its record is durable (Decline: at
	// once, the record follows within Config.CursorEvery).
	Lost func(Loss)
	// Warned is called for what is not a loss but needs an eye: a cursor that
	// could not be read, a sync that failed, a file that does not belong here.
	Warned func(error)
}
