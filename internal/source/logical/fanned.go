package logical

import (
	"context"
	"sync"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/util/fan"
	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/logical"
)

// fanned is the sink of fan mode: mutations are applied over several target transactions at once, in
// order per key. What has landed moves the consistent point; the point counts when it is stored in the
// target, which a goroutine of its own does now and then.
type fanned struct {
	w   *writer
	fan *fan.Fan

	// What follows is owned by the caller of Events.
	marked bool          // the memo says that a fan is at work
	begun  logical.Stamp // of the open transaction
	parts  bool          // mutations of it were given to the fan

	mu     sync.Mutex
	landed logical.Stamp // the fan's consistent point
	stored logical.Stamp // the one in the memo
	wake   chan struct{}

	saving turn // to write the memo
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{}
}

func newFanned(w *writer) *fanned {
	s := &fanned{w: w, wake: make(chan struct{}, 1), saving: newTurn(), done: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(w.ctx))
	shards := w.config.FanShards
	if most := w.traits.MaxParallel; most > 0 {
		shards = min(shards, most)
	}
	var reaches func(context.Context, *logical.Mutation) bool
	if session, ok := as[logical.Reacher](w.session); ok {
		reaches = session.Reaches
	}
	s.fan = fan.New(fan.Config{
		Session: w.session, Shards: shards, Raw: w.traits.WantsRaw, Budget: w.budget, Point: w.loop.point(), Skip: w.skip,
		Reaches: reaches, FirstRows: w.loop.batchRows, Timed: w.timed, Memo: s.memo,
		Retry:      retry.Config{Base: w.config.RetryDelay, Max: w.config.RetryMax, Rand: w.loop.rand},
		OnPoint:    s.advanced,
		OnLanded:   s.batch,
		OnFailure:  s.failed,
		OnFail:     w.fail,
		OnReject:   s.reject,
		OnSettled:  s.settled,
		Joins:      s.joins(),
		BeforeTake: func(ctx context.Context, shard int) { w.loop.signal(ctx, signalTake, shard) },
	})
	go s.keep()
	return s
}

// OnBegin implements logical.Events. Before anything can land, the memo says that a fan is at work: should
// it be cut short, its successor has to know.
func (s *fanned) OnBegin(ctx context.Context, stamp logical.Stamp) error {
	if !s.marked {
		if err := s.store(ctx); err != nil {
			return err
		}
		s.marked = true
	}
	s.begun, s.parts = stamp, false
	return s.fan.Begin(ctx, stamp)
}

// OnData implements logical.Events.
func (s *fanned) OnData(ctx context.Context, muts []logical.Mutation) error {
	s.parts = s.parts || len(muts) > 0
	return s.fan.Data(ctx, muts)
}

// OnCommit implements logical.Events.
func (s *fanned) OnCommit(context.Context) error {
	s.w.skip, s.parts = 0, false // the fan has seen to it
	return s.fan.Commit()
}

// OnRollback implements logical.Events: everything that was given to the fan lands, what it was given of the
// open transaction included. That one is read again, by this fan, which knows what it must not do twice; until
// then the target holds a part of it.
func (s *fanned) OnRollback(ctx context.Context) error {
	if s.parts {
		s.w.loop.tear(s.begun)
		s.parts = false
	}
	if err := s.drain(ctx); err != nil {
		return err
	}
	if err := s.fan.Abort(ctx); err != nil {
		return err
	}
	_, s.w.skip = s.fan.Progress()
	s.w.loop.mended()
	return nil
}

// drain implements sink: everything has landed, and the consistent point says so (DRAIN).
func (s *fanned) drain(ctx context.Context) error {
	if err := s.fan.Drain(ctx); err != nil {
		return err
	}
	if err := s.save(ctx); err != nil {
		return err
	}
	s.w.loop.mended()
	return nil
}

// partial implements sink. A fan does not wait for the end of an open transaction.
func (s *fanned) partial() bool { return false }

// oldest implements sink.
func (s *fanned) oldest() (logical.Stamp, bool) { return s.fan.Oldest() }

// kick implements sink.
func (s *fanned) kick() { s.fan.Kick() }

// stop implements sink.
func (s *fanned) stop(cause error) {
	s.cancel(cause)
	<-s.done
	// What is cut short is fenced by whoever takes the loop over.
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.fan.Close(now)
	s.w.loop.batchRows = s.fan.BatchRows()
}

// advanced is told of the fan's consistent point while the fan is locked.
func (s *fanned) advanced(point logical.Stamp, txs int) {
	s.mu.Lock()
	s.landed = point
	s.mu.Unlock()
	s.w.loop.count(func(c *counts) { c.txs += int64(txs) })
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// keep stores the consistent point while it advances.
func (s *fanned) keep() {
	defer close(s.done)
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
		if err := s.save(s.ctx); err != nil {
			if s.ctx.Err() == nil {
				s.w.fail(err)
			}
			return
		}
		pause.Reset(s.w.config.StandbyTimeout / 5)
		select {
		case <-pause.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// save stores the consistent point, if it has advanced.
func (s *fanned) save(ctx context.Context) error {
	if err := s.saving.lock(ctx); err != nil {
		return err
	}
	defer s.saving.unlock()
	s.mu.Lock()
	point := s.landed
	known := point == nil || s.stored != nil && s.stored.Compare(point) >= 0
	s.mu.Unlock()
	if known {
		return nil
	}
	if err := s.store(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	s.stored = point
	s.mu.Unlock()
	s.w.loop.advance(point)
	return nil
}

// store writes the memo, and tries until that is done, ctx ends or the loop is fenced out.
func (s *fanned) store(ctx context.Context) error {
	failed := false
	for tries := s.w.loop.newTries(); ; failed = true {
		err := s.fan.SaveMemo(ctx)
		if err == nil {
			if failed {
				s.w.loop.succeeded()
			}
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if logical.ClassOf(err) == logical.ClassFenced {
			return err
		}
		s.w.loop.failed(err)
		if err := tries.wait(ctx, err); err != nil {
			return err
		}
	}
}

// memo says what is stored of a consistent point. A stamp that cannot be encoded is a fault of its dialect
// that no run gets past.
func (s *fanned) memo(point logical.Stamp, skip int) logical.MemoState {
	if point == nil {
		point = s.w.loop.dialect.ZeroStamp()
	}
	state, err := s.w.loop.memoState(point)
	if err != nil {
		panic(err)
	}
	state.Skip = skip
	return state
}

// failed is told of each failure. What the target refuses may be accepted when other shards have come as far,
// and otherwise it is decided about.
func (s *fanned) failed(x fan.Failure) {
	if refused(x.Err) {
		s.w.loop.log.Debug("refused for now", "shard", x.Shard, "mutations", x.Mutations, "error", x.Err.Error())
		return
	}
	s.w.loop.failed(x.Err)
}

// reject decides about a mutation that the target will never accept.
func (s *fanned) reject(_ context.Context, r fan.Rejected) fan.Decision {
	w := s.w
	reason := r.Err
	if reason == nil {
		reason = errJoined
	} else if w.config.OnReject != logical.RejectStop && w.loop.rejectRun.Load() >= w.loop.maxRejectRun {
		w.loop.failed(onlyRejected(r.Err, w.loop.maxRejectRun))
		return fan.Decision{Verdict: fan.Again}
	}
	switch w.config.OnReject {
	case logical.RejectDiscard:
		return fan.Decision{Verdict: fan.Discard}
	case logical.RejectDeadLetter:
		stamp, err := encodeStamp(r.Stamp)
		if err != nil {
			break
		}
		letter := logical.NewDeadLetter(r.Mutation, w.loop.identity, stamp, r.Position, reason, time.Now())
		if w.loop.letterBytes()+letter.Size() > w.config.MaxDeadLetterBytes {
			w.loop.failed(tooManyLetters(reason))
			return fan.Decision{Verdict: fan.Again}
		}
		return fan.Decision{Verdict: fan.SetAside, Letter: letter}
	}
	w.loop.failed(reason)
	return fan.Decision{Verdict: fan.Again}
}

// settled counts what reject has decided, once it has been carried out.
func (s *fanned) settled(r fan.Rejected, v fan.Verdict, letter *logical.DeadLetter) {
	reason := r.Err
	if reason == nil {
		reason = errJoined
	} else {
		s.w.loop.rejectRun.Add(1)
	}
	if v == fan.SetAside {
		s.w.loop.open.settled(letter, r.Stamp, r.Mutation.Relation.Points)
	}
	s.w.loop.rejected(1, reason)
	s.w.loop.mended()
}

// joins returns what knows the mutations that join dead letters. Those that a target forwards as they came
// are points, and do not.
func (s *fanned) joins() fan.Joins {
	if s.w.config.OnReject != logical.RejectDeadLetter || s.w.traits.WantsRaw {
		return nil
	}
	return s.w.loop.open
}

// batch is told of each batch that has landed.
func (s *fanned) batch(x fan.Landed) {
	if x.Applied > 0 {
		s.w.loop.rejectRun.Store(0)
	}
	s.w.loop.landed(0, x.Mutations)
}
