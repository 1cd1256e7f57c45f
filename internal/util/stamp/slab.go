package stamp

import "math"

// alloc returns the index of an entry that is not in use.
func (q *Queue) alloc() int32 {
	if q.unused > 0 {
		i := q.free
		q.free = q.entries[i].next
		q.unused--
		return i
	}
	if len(q.entries) == math.MaxInt32 {
		panic("stamp: too many transactions under way")
	}
	q.entries = append(q.entries, entry{})
	return int32(len(q.entries) - 1)
}

// remove takes entry i out of the queue.
func (q *Queue) remove(i int32) {
	prev, next := q.entries[i].prev, q.entries[i].next
	if prev == none {
		q.head = next
	} else {
		q.entries[prev].next = next
	}
	if next == none {
		q.tail = prev
	} else {
		q.entries[next].prev = prev
	}
	q.entries[i] = entry{next: q.free}
	q.free = i
	q.unused++
	q.used--
	if q.used == 0 {
		q.shrink()
	}
}

// shrink lets go of the memory of an empty queue that no longer gets as long as it once was. It
// waits until the queue has been empty twice, so that a steady load does not allocate.
func (q *Queue) shrink() {
	if len(q.entries) > smallest && q.peak < len(q.entries)/4 {
		q.entries, q.unused = nil, 0
	}
	q.peak = 0
}
