package queue

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// ringChunks is how many chunks a ring holds.
	ringChunks = 8
	// ringAfter is how many chunks of backlog a reader reads alone, before it gets a
	// ring.
	ringAfter = 8
	// ringLate is how long a reader waits for its helper at most before it goes on
	// alone: the other processors have more urgent work then, or the device is what
	// takes the time. It goes alone for ringPause bytes, whatever was the reason.
	ringLate  = time.Millisecond / 2
	ringPause = 64 << 20
	// maxRings bounds what all readers together take for reading ahead, and how many
	// processors.
	maxRings = 4
)

// rings lends the right to read ahead. There are few rings for all the queues of
// a store, so that a thousand backlogs take no more memory than a handful: who
// gets none reads plainly.
type rings struct {
	left atomic.Int64
	// spare keeps what was given back for who asks soon; the garbage collector
	// clears it.
	spare sync.Pool // of *ring
}

// newRings returns one ring for each processor that is beside the reader's own.
func newRings() *rings {
	p := &rings{}
	p.left.Store(int64(min(runtime.GOMAXPROCS(0)-1, maxRings)))
	return p
}

// lookAhead returns where the queue's readers get their rings.
func (q *Queue) lookAhead() *rings {
	if q.cfg.guard != nil {
		return q.cfg.guard.rings
	}
	p := newRings()
	if q.cfg.manual {
		p.left.Store(1) // the same on every machine
	}
	return p
}

// roomFor returns how much memory lies before the chunks of a ring: the part of a
// block that reaches the end of the ring is moved there, so that its other part
// follows it. Larger blocks gain nothing, since too much of them would be moved.
func roomFor(chunk int) int { return 2 * chunk }

// get returns a ring, or nil if all are lent.
func (p *rings) get(chunk int) *ring {
	if p.left.Add(-1) < 0 {
		p.left.Add(1)
		return nil
	}
	r, _ := p.spare.Get().(*ring)
	if r == nil || r.chunk != chunk {
		r = &ring{from: p, room: roomFor(chunk), chunk: chunk}
		r.mem = make([]byte, r.room+ringChunks*chunk)
		r.changed.L = &r.mu
	}
	return r
}

// ring is memory into which the chunks of one segment are read ahead of where its
// reader is. A helper reads them, and the reader too, where it would have to wait
// otherwise: reading from the page cache keeps one processor busy, and summing what
// was read leaves the other one time to spare.
//
// The reader sees chunk after chunk side by side in memory, until the ring begins
// again.
type ring struct {
	from  *rings
	mem   []byte // room, then the chunks
	room  int
	chunk int
	// alone leaves the helper out: the reader itself reads as far ahead as it could
	// have. For tests that must do the same each time.
	alone bool

	file        io.ReaderAt
	base, limit int64 // the bytes of the file that are read
	count       int   // how many chunks that is
	taken       int   // chunks that the reader has seen; its own
	helper      sync.WaitGroup

	mu       sync.Mutex
	changed  sync.Cond
	claimed  int // chunks that someone reads, or has read
	freed    int // chunks that the reader needs no longer
	got      [ringChunks]int
	stopping bool // nothing more is claimed
}

// notYet stands in ring.got while a chunk is being read.
const notYet = -1

// start begins to read a file ahead.
func (r *ring) start(file io.ReaderAt, from, limit int64) {
	page := int64(min(4096, r.chunk))
	r.file, r.base, r.limit = file, from-from%page, limit
	r.count = int((limit - r.base + int64(r.chunk) - 1) / int64(r.chunk))
	r.taken, r.claimed, r.freed, r.stopping = 0, 0, 0, false
	if !r.alone {
		r.helper.Go(r.help)
	}
}

// stop waits for the helper, after which the file may be closed.
func (r *ring) stop() {
	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()
	r.changed.Broadcast()
	r.helper.Wait()
	r.file = nil
}

// put gives the ring back, after which it must not be used.
func (r *ring) put() {
	r.from.spare.Put(r)
	r.from.left.Add(1)
}

func (r *ring) help() {
	for {
		r.mu.Lock()
		for !r.stopping && r.claimed < r.count && r.claimed == r.freed+ringChunks {
			r.changed.Wait()
		}
		i, ok := r.claim()
		r.mu.Unlock()
		if !ok {
			return
		}
		r.read(i)
	}
}

// claim returns the next chunk that is to be read and has a place. Called with mu
// held.
func (r *ring) claim() (int, bool) {
	i := r.claimed
	if r.stopping || i == r.count || i == r.freed+ringChunks {
		return 0, false
	}
	r.claimed++
	r.got[i%ringChunks] = notYet
	return i, true
}

// read reads a chunk. Where that fails, reading ahead ends: the reader comes to
// the same place by itself, and sees what there is to see.
func (r *ring) read(i int) {
	place := r.place(i)
	n, _ := r.file.ReadAt(place, r.base+int64(i)*int64(r.chunk))
	r.mu.Lock()
	r.got[i%ringChunks] = n
	if n < len(place) {
		r.stopping = true
	}
	r.mu.Unlock()
	r.changed.Broadcast()
}

// place returns where a chunk goes.
func (r *ring) place(i int) []byte {
	size := min(int64(r.chunk), r.limit-r.base-int64(i)*int64(r.chunk))
	return r.mem[r.room+i%ringChunks*r.chunk:][:size]
}

// wraps reports whether the next chunk lies at the beginning again.
func (r *ring) wraps() bool { return r.taken%ringChunks == 0 }

// next returns the next chunk, in its place, or false if it cannot be read.
func (r *ring) next() ([]byte, bool) {
	i := r.taken
	if i == r.count {
		return nil, false
	}
	r.mu.Lock()
	for r.alone || i >= r.claimed || r.got[i%ringChunks] == notYet {
		if j, ok := r.claim(); ok {
			r.mu.Unlock()
			r.read(j)
			r.mu.Lock()
			continue
		}
		if r.alone || i >= r.claimed {
			break
		}
		begin := time.Now()
		r.changed.Wait()
		if time.Since(begin) > ringLate {
			r.stopping = true
		}
	}
	whole := i < r.claimed && r.got[i%ringChunks] == len(r.place(i))
	r.mu.Unlock()
	if !whole {
		return nil, false
	}
	r.taken++
	return r.place(i), true
}

// free gives back the places of all chunks that end at or before off.
func (r *ring) free(off int64) {
	n := min(int((off-r.base)/int64(r.chunk)), r.taken)
	r.mu.Lock()
	r.freed = max(r.freed, n)
	// Half a ring at once, so that the helper is not woken for each chunk.
	wake := r.claimed-r.freed <= ringChunks/2
	r.mu.Unlock()
	if wake {
		r.changed.Signal()
	}
}
