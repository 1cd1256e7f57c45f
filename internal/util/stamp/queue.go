package stamp

import (
	"fmt"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// An ID names one transaction of a [Queue] from Begin until the transaction has finished.
type ID uint64

// none is the index that stands for no entry.
const none = -1

// smallest is the number of entries below which the queue does not bother to shrink.
const smallest = 64

// stampSize is what a stamp behind its interface is taken to occupy.
const stampSize = 64

// EntrySize is the memory that one unfinished transaction can cost at most: its own entry, and that
// of the run of finished transactions behind it.
const EntrySize = 2 * (int(unsafe.Sizeof(entry{})) + stampSize)

// A Queue tracks the transactions that are under way. The zero Queue is empty and ready for use.
type Queue struct {
	entries []entry
	free    int32 // first unused entry, linked by next; valid while unused > 0
	unused  int   // length of the list of unused entries
	head    int32 // oldest entry, never a finished one; valid while used > 0
	tail    int32 // newest entry
	used    int
	peak    int // largest value of used since the queue was last empty
	open    bool
	gen     uint32

	point  logical.Stamp // the consistent point, nil before the first
	passed int           // how many transactions it has passed
	last   logical.Stamp // the stamp of the newest Begin
}

// An entry is an unfinished transaction, or a run of finished ones, known by its newest stamp. Two
// neighbours are never both finished.
type entry struct {
	stamp       logical.Stamp
	outstanding int
	txs         int // how many transactions it stands for
	prev, next  int32
	gen         uint32
	ended       bool
}

func (e *entry) finished() bool { return e.ended && e.outstanding == 0 }

// Begin opens the transaction with the given stamp, behind all others. It fails if the transaction
// before is still open, or if stamp is not after that transaction's.
func (q *Queue) Begin(stamp logical.Stamp) (ID, error) {
	if q.open {
		return 0, errors.Errorf("stamp: transaction %v begins before %v has ended", stamp, q.last)
	}
	if q.last != nil && stamp.Compare(q.last) <= 0 {
		return 0, errors.Errorf("stamp: transaction %v is not after %v", stamp, q.last)
	}
	i := q.alloc()
	q.gen++
	q.entries[i] = entry{stamp: stamp, txs: 1, prev: none, next: none, gen: q.gen}
	if q.used == 0 {
		q.head = i
	} else {
		q.entries[i].prev = q.tail
		q.entries[q.tail].next = i
	}
	q.tail = i
	q.used++
	q.peak = max(q.peak, q.used)
	q.open = true
	q.last = stamp
	return ID(uint64(q.gen)<<32 | uint64(uint32(i))), nil
}

// Add counts n more mutations of the open transaction as outstanding.
func (q *Queue) Add(n int) {
	if !q.open {
		panic("stamp: Add without an open transaction")
	}
	if n < 0 {
		panic(fmt.Sprintf("stamp: Add(%d)", n))
	}
	q.entries[q.tail].outstanding += n
}

// End says that the open transaction has been handed out completely. It reports whether the
// consistent point has advanced.
func (q *Queue) End() bool {
	if !q.open {
		panic("stamp: End without an open transaction")
	}
	q.open = false
	q.entries[q.tail].ended = true
	return q.settle(q.tail)
}

// Done counts n mutations of a transaction as landed. It reports whether the consistent point has
// advanced.
func (q *Queue) Done(id ID, n int) bool {
	i := q.find(id)
	e := &q.entries[i]
	if n < 0 || n > e.outstanding {
		panic(fmt.Sprintf("stamp: Done(%d) with %d outstanding at %v", n, e.outstanding, e.stamp))
	}
	e.outstanding -= n
	return q.settle(i)
}

// Stamp returns the stamp of a transaction that is under way.
func (q *Queue) Stamp(id ID) logical.Stamp { return q.entries[q.find(id)].stamp }

// find returns the entry of a transaction that is under way.
func (q *Queue) find(id ID) int32 {
	i := int32(uint32(id))
	if int(i) >= len(q.entries) || q.entries[i].gen != uint32(id>>32) {
		panic(fmt.Sprintf("stamp: transaction %#x is not under way", uint64(id)))
	}
	return i
}

// settle restores what holds between calls after entry i may have finished: no two neighbours are
// finished, and the head is not. It reports whether the consistent point has advanced.
func (q *Queue) settle(i int32) bool {
	e := &q.entries[i]
	if !e.finished() {
		return false
	}
	if e.prev != none && q.entries[e.prev].finished() {
		e.txs += q.entries[e.prev].txs
		q.remove(e.prev)
	}
	if e.next != none && q.entries[e.next].finished() {
		next := e.next
		q.entries[next].txs += e.txs
		q.remove(i)
		i = next
	}
	if i != q.head {
		return false
	}
	q.point = q.entries[i].stamp
	q.passed += q.entries[i].txs
	q.remove(i)
	return true
}

// Point returns the consistent point, or false if there has not been one yet.
func (q *Queue) Point() (logical.Stamp, bool) { return q.point, q.point != nil }

// Passed returns how many transactions the consistent point has passed.
func (q *Queue) Passed() int { return q.passed }

// Oldest returns the stamp of the oldest transaction that is not finished, or false if there is
// none. Staleness is counted from its time.
func (q *Queue) Oldest() (logical.Stamp, bool) {
	if q.used == 0 {
		return nil, false
	}
	return q.entries[q.head].stamp, true
}

// Open reports whether a transaction has begun and not ended.
func (q *Queue) Open() bool { return q.open }

// Len returns the number of entries: unfinished transactions, and runs of finished ones between
// them.
func (q *Queue) Len() int { return q.used }

// Size returns the bytes that the queue occupies, with an estimate for the stamps themselves.
func (q *Queue) Size() int {
	return cap(q.entries)*int(unsafe.Sizeof(entry{})) + q.used*stampSize
}

// Reset forgets every transaction that is under way. The consistent point becomes point, or stays
// as it is if point is nil; the next transaction must be after it.
func (q *Queue) Reset(point logical.Stamp) {
	if point == nil {
		point = q.point
	}
	*q = Queue{gen: q.gen, point: point, passed: q.passed, last: point}
}
