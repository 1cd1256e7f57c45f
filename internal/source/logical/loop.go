package logical

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/meter"
	"github.com/tailrace-cdc/tailrace/internal/source/logical/mode"
	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A Loop drives one dialect into one target. Its exported methods may be called concurrently.
type Loop struct {
	name     string
	identity string
	holder   string
	dialect  logical.Dialect
	target   logical.Target
	config   logical.Config
	piped    *budget.Budget // of messages that wait to be decoded
	budget   *budget.Budget // of mutations that have not landed
	log      *slog.Logger
	meter    *meter.Meter
	rand     func() float64 // for delays; may be nil
	// open knows the dead letters that are kept, and rejectRun how many mutations have been rejected since
	// one was accepted.
	open         *openLetters
	rejectRun    atomic.Int64
	maxRejectRun int64
	replaying    turn // held by a call of Replay
	signals      func(ctx context.Context, site string, n int)
	// control is used by one run at a time, under its switcher's lock.
	control *mode.Controller
	// unclean says that the target may be ahead of the consistent point in places, or hold a backfill in
	// part. It is used under the switcher's lock.
	unclean bool
	// batchRows is what the last fan found to be a good size of its batches; 0 before the first.
	batchRows int
	// cutShort says that a fan was cut short before the present run, so that the target may be ahead up to
	// uncleanUntil, where the source ended when the run began, or nil if it could not tell.
	cutShort     bool
	uncleanUntil logical.Stamp
	// torn is a transaction that a fan was made to give up, when parts of it had landed; nil if there was none.
	// The target is not clean before it has been read again.
	torn logical.Stamp

	cancel  context.CancelCauseFunc // ends the applying, and all else
	stopped context.CancelFunc      // asks the loop to drain and end
	done    chan struct{}

	mu      sync.Mutex
	changed chan struct{}
	status  Status
	counts  counts
	running *writer // of the present run; nil between two
	sink    sink    // that of its mode; nil between two runs
	waiting map[*retry.Retry]struct{}
	kicks   uint64             // calls of Kick
	known   map[string]*known  // of streamed transactions, by stored stamp
	errLog  repeated           // failures at the target
	srcLog  repeated           // failures at the source
	srcErrs [sourceWorks]error // the last ones, until the same succeeds
	badLog  repeated           // rejected mutations
}

// Status is what a loop tells about itself.
type Status struct {
	// State says what the loop is doing.
	State State
	// Mode is the mode in force.
	Mode mode.Mode
	// Point is the consistent point; nil before the target has answered.
	Point logical.Stamp
	// Offset is the consistent point as a number that grows with the source's history; OffsetKnown is
	// false where the source's stamps have none.
	Offset      uint64
	OffsetKnown bool
	// PointAt is when the consistent point was last advanced in the target; zero if never.
	PointAt time.Time
	// ConsistentSince is since when every state of the target is one of the source's.
	ConsistentSince time.Time
	// Staleness is the age of the oldest source transaction that is not in the target.
	Staleness time.Duration
	// StalenessKnown is false while the source has not answered.
	StalenessKnown bool
	// Err is the last failure at the target, nil when it has done since what it was asked for; ErrAt is its time.
	Err   error
	ErrAt time.Time
	// SourceErr is why reading the source failed last, or else telling it of progress; nil when that has succeeded
	// since.
	SourceErr error
	// Rejected counts mutations that were set aside or discarded since the start.
	Rejected int64
	// Mutations counts those that have landed since the start.
	Mutations int64
	// Letters and LetterBytes are the dead letters that are kept: how many, and their size.
	Letters, LetterBytes int64
}

// State is what a loop is doing.
type State string

// The states.
const (
	StateStarting  State = "starting"  // the target has not been taken over yet
	StateRunning   State = "running"   //
	StateRetrying  State = "retrying"  // the last attempt failed; it is tried again
	StateRejecting State = "rejecting" // the target rejects a mutation that is neither skipped nor set aside
	StateStopped   State = "stopped"   //
)

var (
	errStopped    = errors.New("the loop was stopped")
	errRolledBack = errors.New("a transaction that was partly sent to the target was rolled back")
	errLeaseLost  = errors.New("the lease of the loop was lost: another process has taken the loop over, or an answer of the target got lost; it is taken over again")
)

// Name returns the name under which the factory knows the loop.
func (l *Loop) Name() string { return l.name }

// Status returns the present status.
func (l *Loop) Status() Status {
	staleness := l.staleness()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Staleness, s.StalenessKnown = staleness.Known()
	s.Letters, s.LetterBytes = l.open.kept()
	if point, ok := s.Point.(logical.OffsetStamp); ok {
		s.Offset, s.OffsetKnown = point.Offset(), true
	}
	return s
}

// Changed returns a channel that is closed when the status changes next (its staleness aside).
func (l *Loop) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Stop ends the loop: no more is read, what is in flight lands, as far as it can before ctx ends.
// Stopping twice is harmless; each call waits for the end.
func (l *Loop) Stop(ctx context.Context) {
	l.stopped()
	select {
	case <-l.done:
	case <-ctx.Done():
		l.cancel(errStopped)
		<-l.done
	}
}

// update changes the status under the lock and wakes who waits for changes.
func (l *Loop) update(f func(*Status)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.status)
	close(l.changed)
	l.changed = make(chan struct{})
}

// advance reports that everything up to stamp is durably in the target, and that it is stored there. The
// consistent point only moves forward (PREFIX).
func (l *Loop) advance(stamp logical.Stamp) {
	now := time.Now()
	l.update(func(s *Status) {
		if s.Point == nil || s.Point.Compare(stamp) < 0 {
			s.Point = stamp
		}
		s.PointAt = now
	})
}

// landed counts what one target transaction brought: source transactions (in serial mode), and
// mutations.
func (l *Loop) landed(txs, rows int) {
	l.update(func(s *Status) {
		s.Mutations += int64(rows)
		l.counts.txs += int64(txs)
	})
	l.log.Debug("landed", "transactions", txs, "mutations", rows)
	l.succeeded()
}

// succeeded reports that the target has done what it was asked for, perhaps after failures.
func (l *Loop) succeeded() {
	l.update(func(s *Status) { s.State, s.Err = StateRunning, nil })
	l.recovered()
}

// mended is succeeded for what brings nothing to the target, and is only worth a word after a failure.
func (l *Loop) mended() {
	l.mu.Lock()
	failing := l.status.Err != nil
	l.mu.Unlock()
	if failing {
		l.succeeded()
	}
}

// failed reports a failure that is going to be tried again.
func (l *Loop) failed(err error) {
	class := logical.ClassOf(err)
	state := StateRetrying
	if class == logical.ClassReject || class == logical.ClassConstraint {
		state = StateRejecting
	}
	now := time.Now()
	l.update(func(s *Status) { s.State, s.Err, s.ErrAt = state, err, now })
	l.mu.Lock()
	n, say := l.errLog.repeats(err.Error(), 1, now)
	l.mu.Unlock()
	if say {
		l.log.Error("cannot apply; trying again", "error", err.Error(), "class", class.String(), "times", n)
	}
}

// recovered ends a run of failures.
func (l *Loop) recovered() {
	l.mu.Lock()
	n := l.errLog.reset()
	l.mu.Unlock()
	if n > 0 {
		l.log.Info("applying again", "failures", n)
	}
}

// rejected reports mutations that were set aside or discarded.
func (l *Loop) rejected(n int, reason error) {
	l.update(func(s *Status) { s.Rejected += int64(n) })
	l.mu.Lock()
	total, say := l.badLog.repeats(reason.Error(), n, time.Now())
	if say {
		l.badLog.n = 0
	}
	l.mu.Unlock()
	if !say {
		return
	}
	l.log.Warn("the target rejected mutations", "count", total, "policy", string(l.config.OnReject), "reason", reason.Error())
}

// memoState returns what is stored with the data.
func (l *Loop) memoState(stamp logical.Stamp) (logical.MemoState, error) {
	point, err := encodeStamp(stamp)
	if err != nil {
		return logical.MemoState{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	state := logical.MemoState{Point: point, Mode: l.status.Mode.String(), ConsistentSince: l.status.ConsistentSince}
	if t, ok := stamp.(logical.TimeStamp); ok {
		state.PointTime = t.Time()
	}
	return state, nil
}

// point returns the consistent point.
func (l *Loop) point() logical.Stamp {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status.Point
}

// staleness returns the age of the oldest source transaction that is not in the target.
func (l *Loop) staleness() mode.Staleness {
	l.mu.Lock()
	sink, point := l.sink, l.status.Point
	l.mu.Unlock()
	if sink != nil {
		if stamp, waits := sink.oldest(); waits {
			if t, ok := stamp.(logical.TimeStamp); ok && !t.Time().IsZero() {
				return mode.Since(time.Now(), t.Time())
			}
			return mode.Unknown()
		}
	}
	source, ok := as[logical.Stalenesser](l.dialect)
	if !ok {
		return mode.Unknown()
	}
	if point == nil {
		// The target has never answered. What waits at the source gets old all the same.
		point = l.dialect.ZeroStamp()
	}
	at, known := source.OldestPending(point)
	if !known {
		return mode.Unknown()
	}
	return mode.Since(time.Now(), at)
}
