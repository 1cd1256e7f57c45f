package logical

import (
	"context"

	"github.com/tailrace-cdc/tailrace/internal/source/logical/meter"
	"github.com/tailrace-cdc/tailrace/internal/source/logical/mode"
	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Of a loop's bytes in flight, a part is for messages that wait to be decoded, and the rest for mutations.
// Each part has a budget of its own, so that what is decoded never waits for what is to be decoded.
const pipePart = 4

// start makes a loop and sets it to work.
func (f *Factory) start(s settings, dialect logical.Dialect) *Loop {
	config := s.config.WithDefaults()
	ctx, cancel := context.WithCancelCause(context.Background())
	stop, stopped := context.WithCancel(ctx)
	piped, least := config.BytesInFlight/pipePart, int64(logical.MinBytesInFlight/pipePart)
	l := &Loop{
		name: s.name, identity: s.identity, holder: f.config.Holder,
		config: config, target: f.config.Chaos.Target(s.name, s.target), meter: meter.New(), counts: newCounts(),
		rand: f.config.Rand, open: newOpenLetters(), replaying: newTurn(), signals: f.signals, maxRejectRun: f.maxRejectRun,
		piped:  f.pool.Join(piped, least),
		budget: f.pool.Join(config.BytesInFlight-piped, logical.MinBytesInFlight-least),
		log:    f.config.Log.With("loop", s.name),
		cancel: cancel, stopped: stopped,
		control: mode.NewController(mode.Policy{
			Window: config.BackfillWindow, MinDwell: config.MinDwell, Immediate: config.Immediate,
		}),
		done: make(chan struct{}), changed: make(chan struct{}),
		waiting: map[*retry.Retry]struct{}{},
		status:  Status{State: StateStarting}, known: map[string]*known{},
	}
	l.dialect = l.meter.Dialect(f.config.Chaos.Dialect(s.name, dialect))
	f.config.Metrics.add(l)
	go func() {
		defer close(l.done)
		defer cancel(nil)
		l.run(ctx, stop)
		l.piped.Leave()
		l.budget.Leave()
		if err := closeOpened(s, dialect); err != nil {
			l.log.Warn("closing the source", "error", err.Error())
		}
	}()
	return l
}

// Done returns a channel that is closed when the loop has ended.
func (l *Loop) Done() <-chan struct{} { return l.done }

func (l *Loop) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}
