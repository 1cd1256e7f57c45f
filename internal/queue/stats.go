package queue

import (
	"sync/atomic"
	"time"
)

// Stats is what an operator wants to know about a queue.
type Stats struct {
	ID    ID     `json:"id"`
	Name  string `json:"name"`
	Sync  string `json:"sync"`
	Limit int64  `json:"limitBytes"`

	// UnsentBytes is what counts against the limit: all complete groups that are
	// neither acknowledged nor dropped, as stored.
	UnsentBytes int64 `json:"unsentBytes"`
	// ReservedBytes are set aside for groups that are being appended.
	ReservedBytes int64 `json:"reservedBytes"`
	// DiskBytes is the size of all segments, those included that wait to be removed.
	DiskBytes int64 `json:"diskBytes"`
	Segments  int   `json:"segments"`
	// OldestUnsent is the enqueue time of the oldest unsent block in nanoseconds
	// since 1970, zero if there is none. It is exact.
	OldestUnsent int64 `json:"oldestUnsent"`

	Cursor   Sequence `json:"cursor"`   // newest acknowledged
	Floor    Sequence `json:"floor"`    // newest dropped
	FirstSeq Sequence `json:"firstSeq"` // oldest unsent, zero if there is none
	LastSeq  Sequence `json:"lastSeq"`  // newest that may be read

	// Since the queue was opened:
	AppendedGroups uint64        `json:"appendedGroups"`
	AppendedBlocks uint64        `json:"appendedBlocks"`
	AppendedPoints uint64        `json:"appendedPoints"`
	AppendedBytes  uint64        `json:"appendedBytes"`
	FailedAppends  uint64        `json:"failedAppends"`
	Refused        uint64        `json:"refused"`
	Syncs          uint64        `json:"syncs"`
	SyncTime       time.Duration `json:"syncTime"`     // of all syncs together
	LastSyncTime   time.Duration `json:"lastSyncTime"` // of the last one
	FailedSyncs    uint64        `json:"failedSyncs"`

	// Since the queue was made: what was lost for each reason, and the newest
	// losses with their ranges.
	Lost   map[Reason]Total `json:"lost,omitempty"`
	Losses []Loss           `json:"losses,omitempty"`
}

// counts are what the queue counts while it runs. Those without their own lock
// are guarded by Queue.mu.
type counts struct {
	appended struct{ groups, blocks, points, bytes uint64 }
	failed   uint64

	refused  atomic.Uint64
	rescues  atomic.Uint64
	syncs    atomic.Uint64
	syncTime atomic.Int64
	lastSync atomic.Int64
}

func (c *counts) sawSync(d time.Duration) {
	c.syncs.Add(1)
	c.syncTime.Add(int64(d))
	c.lastSync.Store(int64(d))
}

// OldestUnsent returns the enqueue time of the oldest unsent block, zero if there
// is none. It is exact, but of a block that says it is from the future, which counts from when that was
// noticed. It costs next to nothing: only if everything that was
// read is acknowledged, and more is there, it has to look at one header.
func (q *Queue) OldestUnsent() int64 {
	q.mu.Lock()
	at := q.head.at
	q.mu.Unlock()
	if at.seq != 0 && at.time == 0 {
		q.head.mu.Lock()
		err := q.resolve()
		q.head.mu.Unlock()
		if err != nil {
			q.warn(err)
		}
		q.mu.Lock()
		at = q.head.at
		q.mu.Unlock()
	}
	if at.seq == 0 {
		return 0
	}
	now := q.cfg.Now().UnixNano()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head.at.seq == 0 {
		return 0
	}
	t, _ := q.headTimeLocked(now)
	return t
}

// Newest returns the newest sequence that may be read.
func (q *Queue) Newest() Sequence {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.newest
}

// Next returns the sequence that comes next: greater than that of every block
// there is, acknowledged ones included. Beside those who append it is out of date
// at once, and it goes back by what could not be written. See [Queue.SkipTo].
func (q *Queue) Next() Sequence {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next
}

// Stats returns the state. It does no I/O, but for what OldestUnsent may have to do.
func (q *Queue) Stats() Stats {
	oldest := q.OldestUnsent()
	q.books.mu.Lock()
	books := q.books.ledger.clone()
	q.books.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	c := &q.counts
	s := Stats{
		ID: q.id, Name: q.name, Sync: q.sync.String(), Limit: q.limits.MaxBytes,
		UnsentBytes: q.unsentLocked(), ReservedBytes: q.reserved, Segments: len(q.segs) + len(q.passed),
		Cursor: q.Cursor(), Floor: Sequence(q.floor.Load()), LastSeq: q.newest,
		AppendedGroups: c.appended.groups, AppendedBlocks: c.appended.blocks,
		AppendedPoints: c.appended.points, AppendedBytes: c.appended.bytes,
		FailedAppends: c.failed, Refused: c.refused.Load(),
		Syncs: c.syncs.Load(), SyncTime: time.Duration(c.syncTime.Load()),
		LastSyncTime: time.Duration(c.lastSync.Load()), FailedSyncs: c.rescues.Load(),
		Lost: books.Totals, Losses: books.Losses,
	}
	if at := q.head.at; at.seq != 0 {
		s.FirstSeq, s.OldestUnsent = at.seq, oldest
	}
	for _, seg := range q.segs {
		s.DiskBytes += max(seg.size, seg.end)
	}
	for _, p := range q.passed {
		s.DiskBytes += max(p.size, p.end)
	}
	return s
}
