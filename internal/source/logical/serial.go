package logical

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// maxJoinedRows bounds how many mutations of consecutive source transactions are put into one target
// transaction. Beyond it, a longer transaction no longer saves a noticeable share of its commit.
const maxJoinedRows = 10_000

// serial is the sink of serial mode: source transactions are applied in order, in target
// transactions that end on source transaction boundaries (ATOMIC).
//
// A goroutine of its own applies, for as long as there is something to apply. While it is busy with one
// target transaction, the source transactions that arrive meanwhile wait, and the next target transaction
// takes all of them: the group commit of databases, without a timer. A source transaction that does not fit
// into the budget is streamed into one open target transaction instead.
type serial struct {
	w *writer

	cur  *segment // the transaction that is being collected; owned by the caller of Events
	skip int      // how many of its mutations are in the target already

	mu      sync.Mutex
	changed chan struct{}
	queue   []*segment
	busy    bool
	asking  bool     // nothing was handed over that is not landed or in an open target transaction
	doing   *segment // the first that is being applied, while busy
	err     error

	ctx     context.Context
	cancel  context.CancelCauseFunc
	running bool // a goroutine applies
	workers sync.WaitGroup
}

// A segment is a source transaction, or a part of one that is too large to be held.
type segment struct {
	stamp       logical.Stamp
	base        int // how many mutations of its transaction come before it
	muts        []logical.Mutation
	bytes       int64
	first, last bool // of its transaction
}

func (s *segment) whole() bool { return s.first && s.last }

// segmentBytes is what a segment takes beside its mutations, so that empty transactions count too.
const segmentBytes = 256

// newSerial returns the sink. After a fan it begins with a memo that says that the target is consistent,
// for readers who ask while the source is silent.
func newSerial(w *writer, afterFan bool) *serial {
	s := &serial{w: w, changed: make(chan struct{}), asking: true}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(w.ctx))
	if afterFan {
		s.start(true)
	}
	return s
}

// OnBegin implements logical.Events.
func (s *serial) OnBegin(ctx context.Context, stamp logical.Stamp) error {
	if err := s.w.budget.Acquire(ctx, segmentBytes); err != nil {
		return err
	}
	s.cur = &segment{stamp: stamp, bytes: segmentBytes, first: true}
	s.skip = s.w.skip
	return s.failure()
}

// OnData implements logical.Events.
func (s *serial) OnData(ctx context.Context, muts []logical.Mutation) error {
	skipped := min(s.skip, len(muts))
	s.skip -= skipped
	s.cur.base += skipped // while it has none of its own
	muts = muts[skipped:]
	for len(muts) > 0 {
		n, bytes := s.portion(muts)
		if len(s.cur.muts) > 0 && s.cur.bytes+bytes > s.w.budget.Size()/2 {
			s.handOver(s.following())
		}
		if err := s.acquire(ctx, bytes); err != nil {
			return err
		}
		s.cur.bytes += bytes
		s.cur.muts = append(s.cur.muts, muts[:n]...)
		muts = muts[n:]
	}
	return s.failure()
}

// following returns the segment that comes after the present one in its transaction.
func (s *serial) following() *segment {
	return &segment{stamp: s.cur.stamp, base: s.cur.base + len(s.cur.muts)}
}

// portion returns how many of the mutations are taken at once, and their size. A dialect may hand over
// more than the whole budget, which must not let it pass (BOUNDED).
func (s *serial) portion(muts []logical.Mutation) (n int, bytes int64) {
	for ; n < len(muts); n++ {
		size := int64(muts[n].Size())
		if n > 0 && bytes+size > s.w.budget.Size()/4 {
			break
		}
		bytes += size
	}
	return n, bytes
}

// OnCommit implements logical.Events.
func (s *serial) OnCommit(context.Context) error {
	s.cur.last = true
	s.handOver(nil)
	s.w.skip = 0
	return s.failure()
}

// OnRollback implements logical.Events: whole transactions still land, the open one does not.
func (s *serial) OnRollback(ctx context.Context) error {
	if s.cur != nil {
		s.release(s.cur)
		if !s.cur.first {
			// Its beginning is in an open target transaction. Only ending this sink undoes that.
			s.stop(errRolledBack)
			return errRolledBack
		}
		s.cur = nil
	}
	return s.drain(ctx)
}

// handOver gives the collected segment to the applying goroutine.
func (s *serial) handOver(next *segment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, s.cur)
	s.asking = false
	s.cur = next
	s.broadcast()
	if !s.running && s.err == nil {
		s.start(false)
	}
}

// start has a goroutine apply. The lock is held, or nobody else has the sink yet.
func (s *serial) start(afterFan bool) {
	s.running, s.asking = true, false
	skip := s.w.skip
	s.workers.Go(func() { s.run(afterFan, skip) })
}

// drain returns when everything that was handed over has landed.
func (s *serial) drain(ctx context.Context) error {
	for {
		s.mu.Lock()
		idle, err, changed := len(s.queue) == 0 && !s.busy, s.err, s.changed
		s.mu.Unlock()
		switch {
		case err != nil:
			return err
		case idle:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// stop ends the sink: what has not landed when it returns never will (through this sink).
func (s *serial) stop(cause error) {
	s.cancel(cause)
	s.workers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.queue {
		s.release(seg)
	}
	s.queue = nil
	if s.cur != nil {
		s.release(s.cur)
		s.cur = nil
	}
}

// release gives the segment's share of the budget back, once.
func (s *serial) release(seg *segment) {
	s.w.budget.Release(seg.bytes)
	seg.bytes, seg.muts = 0, nil
}

func (s *serial) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *serial) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// run applies what was handed over, until there is nothing left or the sink is stopped or fails.
func (s *serial) run(afterFan bool, skip int) {
	if afterFan {
		if err := s.w.declare(s.ctx, skip); err != nil {
			s.fail(err)
			return
		}
	}
	for {
		s.w.loop.signal(s.ctx, signalNext, 0)
		batch, err := s.next(false, 0)
		if err == nil && batch == nil {
			return
		}
		if err == nil {
			if batch[0].whole() {
				err = s.w.applyWhole(s.ctx, batch)
			} else {
				err = s.stream(batch[0])
			}
			for _, seg := range batch {
				s.release(seg)
			}
			s.released()
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

// fail ends the sink with an error, and with it the run of the loop: the source may be silent, so that
// nobody would ask.
func (s *serial) fail(err error) {
	s.mu.Lock()
	s.err, s.busy = err, false
	s.broadcast()
	s.mu.Unlock()
	if s.ctx.Err() == nil {
		s.w.fail(err)
	}
}

// errIdle says that there has been nothing to apply for a while.
var errIdle = errors.New("nothing came")

// next returns what is to be applied next: consecutive whole transactions, or one part of a transaction;
// nothing if there is nothing, and the goroutine is to end. Inside a transaction it waits for its next
// part, no longer than a patience that is not 0. The goroutine counts as busy until it asks again, unless
// inside a transaction.
func (s *serial) next(inside bool, patience time.Duration) ([]*segment, error) {
	var expired <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		expired = timer.C
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.busy = inside; len(s.queue) == 0; {
		s.asking = true
		s.broadcast()
		if !inside && s.ctx.Err() == nil {
			s.running = false
			return nil, nil
		}
		changed := s.changed
		idle := false
		s.mu.Unlock()
		select {
		case <-changed:
		case <-expired:
			idle = true
		case <-s.ctx.Done():
		}
		s.mu.Lock()
		switch {
		case s.ctx.Err() != nil:
			return nil, context.Cause(s.ctx)
		case idle:
			return nil, errIdle
		}
	}
	s.busy, s.doing = true, s.queue[0]
	n := s.joined()
	batch := s.queue[:n:n]
	if s.queue = s.queue[n:]; len(s.queue) == 0 {
		s.queue = nil
	}
	return batch, nil
}

// joined returns how many of the waiting segments go into one target transaction.
func (s *serial) joined() int {
	if !s.queue[0].whole() {
		return 1
	}
	n, rows, bytes := 0, 0, int64(0)
	for _, seg := range s.queue {
		rows, bytes = rows+len(seg.muts), bytes+seg.bytes
		if !seg.whole() || n > 0 && (rows > maxJoinedRows || bytes > s.w.budget.Size()/2) {
			break
		}
		n++
	}
	return n
}

// stream applies a transaction that is too large to be held, part by part, in one target
// transaction. It cannot be tried again from memory: an error goes back to the source. What was
// found to be rejected is remembered for the next time.
func (s *serial) stream(seg *segment) error {
	if err := s.w.prepare(s.ctx, seg.muts); err != nil {
		return err
	}
	tx, err := s.w.begin(s.ctx)
	if err != nil {
		return err
	}
	defer s.w.rollback(tx)
	defer func() { s.release(seg) }()
	known, within := s.w.loop.knownOf(seg.stamp), newOpenLetters()
	var aside badMutations // the bad ones, and those that join them
	rows := 0
	for {
		for done := 0; done < len(seg.muts); {
			n := known.slice(rows, len(seg.muts)-done)
			slice := &segment{stamp: seg.stamp, base: seg.base + done, muts: seg.muts[done : done+n]}
			part := s.w.joined(slice.muts, places(slice), known.bad.part(rows, n), within)
			aside = append(aside, part.moved(rows)...)
			if err := s.w.roomFor(aside, errJoined); err != nil {
				return err
			}
			if err := s.w.applyNow(s.ctx, tx, part.without(slice.muts)); err != nil {
				return s.w.rejectPart(slice, rows, known, part, err)
			}
			if err := s.w.setAside(s.ctx, tx, part); err != nil {
				return err
			}
			done, rows = done+n, rows+n
		}
		if seg.last {
			break
		}
		s.release(seg)
		next, err := s.nextPart(tx)
		if err != nil {
			return err
		}
		seg = next
		if err := s.w.prepareInside(s.ctx, tx, seg.muts); err != nil {
			return err
		}
	}
	if err := s.w.commit(s.ctx, tx, seg.stamp); err != nil {
		return s.w.refusedAtTheEnd(err)
	}
	s.w.loop.forgetKnown()
	s.w.settledBad(aside)
	s.w.landed(seg.stamp, 1, rows, aside)
	return nil
}

// nextPart waits for the next part of a transaction that is streamed, and keeps the target's transaction alive
// meanwhile: one that is silent for long is ended by its server, so that a frozen client cannot hold
// the epoch (FENCED), and the source of this one may only be slow.
func (s *serial) nextPart(tx logical.Tx) (*segment, error) {
	for {
		s.w.loop.signal(s.ctx, signalNext, 0)
		batch, err := s.next(true, s.w.config.StandbyTimeout)
		switch {
		case err == nil:
			return batch[0], nil
		case !errors.Is(err, errIdle):
			return nil, err
		}
		if err := s.w.flush(s.ctx, tx); err != nil {
			return nil, err
		}
	}
}

// kick implements sink: all its delays are those of the loop.
func (s *serial) kick() {}

// oldest implements sink.
func (s *serial) oldest() (logical.Stamp, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.busy:
		return s.doing.stamp, true
	case len(s.queue) > 0:
		return s.queue[0].stamp, true
	}
	return nil, false
}

// partial implements sink. Like the events, it is called when no other call is under way.
func (s *serial) partial() bool { return s.cur != nil && !s.cur.first }
