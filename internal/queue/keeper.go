package queue

import (
	"math"
	"sync/atomic"
	"time"
)

// keeper is the queue's one goroutine. It saves the cursor, removes what was
// sent, drops what is too old, syncs in the mode interval, and closes what is
// idle. It sleeps until one of them is due.
type keeper struct {
	kick chan struct{}
	quit chan struct{}
	done chan struct{} // run has returned
	gone chan struct{} // Close has returned
	// ack is kicked by acknowledgements, which need no answer at once.
	ack  chan struct{}
	owed atomic.Bool // it was kicked by one already
}

func (k *keeper) start(q *Queue) {
	k.kick = make(chan struct{}, 1)
	k.ack = make(chan struct{}, 1)
	k.quit = make(chan struct{})
	k.done = make(chan struct{})
	k.gone = make(chan struct{})
	if q.cfg.manual {
		close(k.done)
		return
	}
	go k.run(q)
}

func (k *keeper) stop() {
	close(k.quit)
	<-k.done
}

// wake makes the keeper look at everything now.
func (k *keeper) wake() { signal(k.kick) }

// acked tells that there is something to save.
func (k *keeper) acked() {
	if k.owed.CompareAndSwap(false, true) {
		signal(k.ack)
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (k *keeper) run(q *Queue) {
	defer close(k.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := time.Duration(0)
	begin := time.Now()
	for {
		select {
		case <-k.quit:
			return
		case <-timer.C:
		case <-k.kick:
		case <-k.ack:
			// Not now, but soon.
			left := due - time.Since(begin)
			due, begin = max(min(left, q.cfg.CursorEvery), 0), time.Now()
			timer.Reset(due)
			continue
		}
		k.owed.Store(false)
		due, begin = q.tend(), time.Now()
		timer.Reset(due)
	}
}

// tend does what is due, and returns when to come again at the latest.
func (q *Queue) tend() time.Duration {
	if err := q.dropOld(); err != nil {
		q.warn(err)
	}
	if err := q.saveDirtyBooks(); err != nil {
		q.warn(err)
	}
	q.head.mu.Lock()
	if err := q.advance(); err != nil {
		q.warn(err)
	}
	if err := q.resolve(); err != nil {
		q.warn(err)
	}
	if err := q.saveCursor(false); err != nil {
		q.warn(err)
	}
	q.removePassed()
	q.head.mu.Unlock()
	q.watchClock()
	next := min(q.untilTooOld(), q.tendWriter())
	return min(max(next, 10*time.Millisecond), math.MaxInt64)
}

// tendWriter syncs and parks the writer when due.
func (q *Queue) tendWriter() time.Duration {
	w := &q.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seg == nil {
		return math.MaxInt64 // whoever opens a file wakes us
	}
	if w.file == nil && !w.doomed {
		if err := w.retire(); err != nil {
			q.warn(err)
		}
		return math.MaxInt64
	}
	q.mu.Lock()
	mode := q.sync
	q.mu.Unlock()
	idle := q.cfg.IdleAfter - q.idleFor()
	if idle <= 0 {
		if err := w.retire(); err != nil {
			q.warn(err)
			return q.cfg.IdleAfter
		}
		return math.MaxInt64
	}
	if mode == SyncInterval {
		if err := w.settle(); err != nil {
			q.warn(err)
		}
		return min(q.cfg.SyncEvery, idle)
	}
	return idle
}

// retire closes the file of an idle queue. If all of it was sent, the segment is
// done with, and the queue takes no space.
func (w *writer) retire() error {
	if err := w.park(); err != nil {
		return err
	}
	q := w.q
	q.mu.Lock()
	sent := q.head.at.seq == 0
	q.mu.Unlock()
	if !sent {
		return nil
	}
	if w.seg != nil {
		q.seal(w.seg, w.prev)
		w.seg = nil
	}
	q.head.mu.Lock()
	defer q.head.mu.Unlock()
	q.mu.Lock()
	if q.head.at.seq == 0 {
		q.setEndLocked()
	}
	q.mu.Unlock()
	if err := q.saveCursor(false); err != nil {
		return err
	}
	q.removePassed()
	return nil
}
