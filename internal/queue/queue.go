package queue

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// Queue is one durable queue. Its methods may be called by several goroutines.
//
// Locks are taken in this order, and only mu may be taken by anyone at any time,
// since nothing waits while it is held: writer.mu or head.mu, books.mu, mu.
type Queue struct {
	id   ID
	dir  string
	name string
	cfg  Config
	fs   disk.FS
	log  *slog.Logger
	lock io.Closer

	writer writer // who appends, under its own lock
	head   head   // where sending begins, under its own lock
	books  books  // what was lost, under its own lock
	told   sayings

	mu       sync.Mutex
	limits   Limits
	sync     SyncMode
	segs     []*segment // from the head's to the newest
	passed   []passed   // segments that wait to be removed
	next     Sequence   // of the block that is appended next
	newest   Sequence   // the newest block that may be read
	lastTime int64      // the newest enqueue time, see readClockLocked
	clock    int64      // what the clock said last
	live     int64      // bytes of all blocks in segs
	used     int64      // bytes of them before the head
	reserved int64
	pending  []*request
	leading  bool          // an appender commits for the others
	followed chan struct{} // closed when nobody leads any more; nil unless Close waits for it
	readers  map[*reader]struct{}
	closing  bool
	mark     place     // everything before it is durable, seq included
	active   time.Time // of the last append, for closing what is idle
	tail     index     // where recent blocks lie
	ahead    index     // where blocks lie that readers have passed

	cursor atomic.Uint64 // newest acknowledged
	floor  atomic.Uint64 // newest dropped
	// weight is what counts against a store's limit: unsent and reserved bytes.
	weight atomic.Int64

	rings *rings // for readers with a backlog

	ended atomic.Bool // for readers: closing, without a lock

	counts counts
	keeper keeper
	spare  sync.Pool // of *request
}

// passed is a segment that the head has left behind.
type passed struct {
	*segment
	upTo Sequence // removable when this is durably acknowledged or dropped
}

// ID names the queue for ever.
func (q *Queue) ID() ID { return q.id }

// Cursor returns the newest acknowledged sequence.
func (q *Queue) Cursor() Sequence { return Sequence(q.cursor.Load()) }

// settled returns the sequence up to which nothing is left to be sent.
func (q *Queue) settled() Sequence {
	return Sequence(max(q.cursor.Load(), q.floor.Load()))
}

// Limits returns the limits in force.
func (q *Queue) Limits() Limits {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.limits
}

// SetLimits changes the limits at once. Lowering MaxBytes below what is unsent
// drops nothing by itself: with DropOldest the next append does, and with the
// other policies the queue is full until it has been sent.
func (q *Queue) SetLimits(l Limits) {
	q.mu.Lock()
	q.limits = l.withDefaults()
	q.mu.Unlock()
	q.keeper.wake()
}

// SetSync changes when appends are durable, for those that follow.
func (q *Queue) SetSync(m SyncMode) {
	q.mu.Lock()
	q.sync = m
	q.mu.Unlock()
	q.keeper.wake()
}

// unsentLocked returns the bytes of all blocks that are not yet settled.
func (q *Queue) unsentLocked() int64 { return q.live - q.used }

// weighLocked keeps weight true; it follows each change of what it is made of.
func (q *Queue) weighLocked() { q.weight.Store(q.unsentLocked() + q.reserved) }

// Close makes everything durable, ends all readers and waits for what runs. It
// may be called twice.
func (q *Queue) Close() error {
	q.mu.Lock()
	if q.closing {
		q.mu.Unlock()
		<-q.keeper.gone
		return nil
	}
	q.closing = true
	q.ended.Store(true)
	for r := range q.readers {
		r.poke()
	}
	if q.leading {
		q.followed = make(chan struct{})
	}
	followed := q.followed
	q.mu.Unlock()
	if followed != nil {
		<-followed // what was begun is written before the files are given up
	}
	q.keeper.stop()
	err := q.shut()
	if q.lock != nil {
		if lockErr := q.lock.Close(); err == nil {
			err = lockErr
		}
	}
	if q.cfg.guard != nil {
		q.cfg.guard.forget(q)
	}
	close(q.keeper.gone)
	return err
}

// shut is Close after everyone else has stopped.
func (q *Queue) shut() error {
	q.writer.mu.Lock()
	err := q.writer.park()
	q.writer.mu.Unlock()
	if bookErr := q.saveDirtyBooks(); err == nil {
		err = bookErr
	}
	q.head.mu.Lock()
	defer q.head.mu.Unlock()
	if cursorErr := q.saveCursor(err == nil); err == nil {
		err = cursorErr
	}
	q.removePassed()
	q.head.closed = true
	q.books.mu.Lock()
	q.books.closed = true
	q.books.mu.Unlock()
	return err
}

func (q *Queue) tellLoss(x Loss) {
	if n, say := q.told.count(q.cfg.Now()); say {
		q.log.Warn("queue lost data", "queue", q.name, "reason", x.Reason, "first", x.First, "last", x.Last,
			"blocks", x.Blocks, "points", x.Points, "bytes", x.Bytes, "exact", x.Exact, "lossesSinceLastSaid", n)
	}
	if q.cfg.Events.Lost != nil {
		q.cfg.Events.Lost(x)
	}
}

func (q *Queue) warn(err error) {
	q.log.LogAttrs(context.Background(), slog.LevelWarn, "queue trouble",
		slog.String("queue", q.name), slog.Any("error", err), slog.String("hint", Hint(err)))
	if q.cfg.Events.Warned != nil {
		q.cfg.Events.Warned(err)
	}
}

// sayEvery is how often losses are logged: a queue that drops has one for each write.
const sayEvery = time.Second

// sayings keeps the log from being flooded by losses. All of them are counted and recorded.
type sayings struct {
	mu sync.Mutex
	at time.Time
	n  int
}

// count counts one, and reports whether to say it, and how many there were since the last that was said.
func (s *sayings) count(now time.Time) (n int, say bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	if since := now.Sub(s.at); since >= 0 && since < sayEvery {
		return 0, false
	}
	n, s.n, s.at = s.n, 0, now
	return n, true
}
