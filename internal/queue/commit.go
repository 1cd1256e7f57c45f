package queue

import (
	"runtime"
)

// maxBatch bounds what is written before the first of the waiting is answered.
const maxBatch = 4 << 20

// commit writes what waits, once, and passes the turn on. It returns when at
// least the first group that waited is done.
func (q *Queue) commit() {
	q.gather()
	q.writer.mu.Lock()
	q.writer.commit()
	q.writer.mu.Unlock()
	q.mu.Lock()
	if len(q.pending) > 0 {
		q.pending[0].turn <- false
	} else {
		q.leading = false
		if q.followed != nil {
			close(q.followed)
			q.followed = nil
		}
	}
	q.mu.Unlock()
}

// gather lets those who were answered a moment ago come back with their next
// group before the disk is busy again. Without it two crowds take turns, and each
// sync serves half of them.
func (q *Queue) gather() {
	seen := 0
	for range 16 {
		q.mu.Lock()
		n := len(q.pending)
		q.mu.Unlock()
		if n == seen {
			return
		}
		seen = n
		runtime.Gosched()
	}
}

// take moves groups from pending into the batch as long as they fit into room,
// and gives them their sequences. At least one is taken.
func (q *Queue) take(batch []*request, room int64) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	var size int64
	n := 0
	for _, r := range q.pending {
		s := r.g.Size()
		if n > 0 && (size+s > room || size+s > maxBatch) {
			break
		}
		size += s
		n++
		r.taken = true
		r.first = q.next
		q.next += Sequence(r.g.Blocks())
		r.last = q.next - 1
		batch = append(batch, r)
	}
	q.pending = append(q.pending[:0], q.pending[n:]...)
	q.writer.now = q.readClockLocked()
	q.writer.newest = q.lastTime
	return batch
}

// putBack takes back the sequences of a batch of which nothing was written.
func (q *Queue) putBack(batch []*request) {
	q.mu.Lock()
	q.next = batch[0].first
	q.mu.Unlock()
}

// finish answers the batch: durable if err is nil, else not kept.
func (q *Queue) finish(batch []*request, err error) {
	q.mu.Lock()
	for _, r := range batch {
		q.reserved -= r.reserved
		if err == nil {
			q.counts.appended.groups++
			q.counts.appended.blocks += uint64(r.g.Blocks())
			q.counts.appended.points += uint64(r.g.Points())
			q.counts.appended.bytes += uint64(r.g.Size())
		} else {
			q.counts.failed++
		}
	}
	q.active = q.cfg.Now()
	q.weighLocked()
	q.mu.Unlock()
	for _, r := range batch {
		r.err = err
		r.turn <- true
	}
}
