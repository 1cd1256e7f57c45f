package influxlogical

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/lineprotocol/filter"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/logical"
)

// StreamConfig says what one stream does.
type StreamConfig struct {
	// ID names the stream for ever: in logs and metrics, in the target's memo, and as the directory of
	// its queue.
	ID string
	// Name is what people call it. Default: ID.
	Name string
	// Bucket is the id of the bucket that it replicates.
	Bucket string
	// Remote is where it goes.
	Remote Remote
	// Schema is the target's schema for the measurements; empty for the target's default.
	Schema string
	// Filter says which points the stream takes; nil means all. It works at intake: see Stream.SetFilter.
	Filter *filter.Filter
	// Loop is how the loop behaves.
	Loop logical.Config
	// Queue is how the queue is kept; the store says where.
	Queue queue.Config
	// Paused says that the loop is not to run.
	Paused bool
	// Notice is something that is known about the position from the start; empty if there is nothing.
	Notice Notice
}

// A Remote opens the target of a stream.
type Remote struct {
	// Place says where the data goes. Two remotes of one place are one, whatever their secrets: a memo
	// that is there counts for both.
	Place string
	// Letters says where the dead letters are kept: for some targets in the installation, for others at Place.
	Letters string
	// Connection tells two ways of reaching a place apart: when it changes, the target is opened anew.
	// It is compared and never shown.
	Connection string
	// Server is equal for remotes that one answer tells about: address and secret are the same. Default:
	// Connection.
	Server string
	// Open returns the target, and what gives it back. It needs no target that can be reached. Its
	// error is shown as the stream's state.
	Open func(ctx context.Context) (target logical.Target, release func(), err error)
}

// A Stream replicates one bucket to one target. Its exported methods may be called concurrently.
type Stream struct {
	shared Config
	lives  *life

	config   atomic.Pointer[StreamConfig] // replaced, never changed
	queue    atomic.Pointer[queue.Queue]  // nil while it cannot be opened
	loop     atomic.Pointer[loops.Loop]   // nil while there is none
	notice   atomic.Pointer[Notice]
	noted    [len(notices)]atomic.Uint64 // how often, by the index in notices
	fault    atomic.Pointer[Fault]
	gone     atomic.Bool                   // it has been removed, or is being
	filter   atomic.Pointer[filter.Filter] // nil: all points
	filtered atomic.Uint64                 // points that it kept back

	failedPoints, failedBytes atomic.Uint64 // of writes that its queue did not take
	letters                   atomic.Int64  // as last counted, plus one; zero is never

	held   atomic.Pointer[held]   // nil while the target is not open
	opener atomic.Pointer[opener] // nil unless opening it has failed, and is to be tried again

	lettersBehind atomic.Bool // behind is not empty

	mu    sync.Mutex // held while the queue, the loop or the target is replaced
	tried time.Time  // when opening the queue was last tried
	// behind are the former targets in which there are dead letters, by Remote.Letters.
	behind []string
}

// held is an open target, and what gives it back.
type held struct {
	logical.Target
	release func()
}

// ErrRemoved says that a stream has been removed, or is being.
var ErrRemoved = errors.New("the stream has been removed")

// A Fault is why a stream cannot run at all, until somebody does something.
type Fault struct {
	// Part is what is broken: "queue" or "target".
	Part string
	// Err says what is wrong with it.
	Err error
}

// Part names of a Fault.
const (
	FaultQueue  = "queue"
	FaultTarget = "target"
)

func newStream(shared Config, lives *life, config StreamConfig) *Stream {
	if config.Name == "" {
		config.Name = config.ID
	}
	s := &Stream{shared: shared, lives: lives}
	s.config.Store(&config)
	s.filter.Store(config.Filter)
	if config.Notice != "" {
		s.note(config.Notice)
	}
	return s
}

// ID returns the stream's id.
func (s *Stream) ID() string { return s.config.Load().ID }

// identity is the loop's in the target.
func (s *Stream) identity() string { return s.shared.Installation + "/" + s.ID() }

func (s *Stream) log() *slog.Logger {
	c := s.config.Load()
	return s.shared.Log.With("stream", c.ID, "name", c.Name)
}

// openQueue opens the queue, if it is not open. s.mu is held.
func (s *Stream) openQueue() error {
	c := s.config.Load()
	switch {
	case s.gone.Load():
		return errors.WithMessagef(ErrRemoved, "stream %s", c.ID) // opening would make its queue anew
	case s.queue.Load() != nil:
		return nil
	}
	s.tried = time.Now()
	settings := c.Queue
	settings.Name, settings.Logger = c.ID, s.log()
	q, err := s.shared.Store.Open(c.ID, settings)
	if err != nil {
		s.failed(FaultQueue, err)
		return errors.WithMessagef(err, "stream %s", c.ID)
	}
	q.SetLimits(settings.Limits)
	s.queue.Store(q)
	s.fault.Store(nil)
	return nil
}

// failed shows that a part is broken, and logs it if that is news.
func (s *Stream) failed(part string, err error) {
	was := s.fault.Swap(&Fault{Part: part, Err: err})
	if was == nil || was.Part != part || was.Err.Error() != err.Error() {
		s.log().Error("the stream cannot run", "broken", part, "error", err.Error(), "hint", hintOf(err))
	}
}

func hintOf(err error) string {
	if hint := logical.HintOf(err); hint != "" {
		return hint
	}
	return queue.Hint(err)
}

// startLoop opens the target and starts the loop, if it does not run. s.mu is held.
func (s *Stream) startLoop(ctx context.Context) error {
	q := s.queue.Load()
	if s.loop.Load() != nil || q == nil || s.gone.Load() {
		return nil
	}
	c := s.config.Load()
	target, err := s.open(ctx)
	if err != nil {
		s.failed(FaultTarget, err)
		s.tryAgain(err)
		return errors.WithMessagef(err, "stream %s", c.ID)
	}
	decoding := lineprotocol.DecoderConfig{Schema: c.Schema, RawOnly: target.Traits().WantsRaw}
	loop, err := s.shared.Factory.Get(ctx, loops.Spec{
		Name:     c.ID,
		Identity: s.identity(),
		Target:   target,
		Config:   c.Loop,
		Dialect: &dialect{
			queue: q, log: s.log(), note: s.note,
			decoder: lineprotocol.NewDecoder(decoding), decoding: decoding,
		},
	})
	if err != nil {
		s.failed(FaultTarget, err)
		s.tryAgain(err)
		return errors.WithMessagef(err, "stream %s", c.ID)
	}
	s.giveUpOpening()
	s.fault.Store(nil)
	s.loop.Store(loop)
	return nil
}

// stopLoop drains and stops the loop, or ends the tries to start it. s.mu is held.
func (s *Stream) stopLoop(ctx context.Context) {
	s.giveUpOpening()
	if s.loop.Load() != nil {
		s.shared.Factory.Remove(ctx, s.ID())
		s.loop.Store(nil)
	}
}

// open returns the target, which is opened if it is not. s.mu is held.
func (s *Stream) open(ctx context.Context) (logical.Target, error) {
	if h := s.held.Load(); h != nil {
		return h.Target, nil
	}
	target, release, err := s.config.Load().Remote.Open(ctx)
	if err != nil {
		return nil, err
	}
	s.held.Store(&held{target, release})
	return target, nil
}

// letGo gives the target back. s.mu is held, and there is no loop.
func (s *Stream) letGo() {
	if h := s.held.Swap(nil); h != nil {
		h.release()
	}
}

// kept returns the open target as something else that it can do.
func kept[T any](s *Stream) (T, bool) {
	if h := s.held.Load(); h != nil {
		as, ok := h.Target.(T)
		return as, ok
	}
	var none T
	return none, false
}

// Resume starts the loop, if it does not run. A stream that is broken tries again.
func (s *Stream) Resume(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(func(c *StreamConfig) { c.Paused = false })
	return s.start(ctx)
}

// start opens what is not open. s.mu is held.
func (s *Stream) start(ctx context.Context) error {
	if err := s.openQueue(); err != nil {
		return err
	}
	if s.config.Load().Paused {
		s.absolve()
		return nil
	}
	return s.startLoop(ctx)
}

// Pause drains and stops the loop. Writes are still accepted, and wait in the queue.
func (s *Stream) Pause(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(func(c *StreamConfig) { c.Paused = true })
	s.stopLoop(ctx)
	s.letGo()
	s.absolve()
}

// absolve forgets what was wrong with a target that is not to be open. s.mu is held.
func (s *Stream) absolve() {
	if f := s.fault.Load(); f != nil && f.Part == FaultTarget {
		s.fault.Store(nil)
	}
}

// change replaces the configuration. s.mu is held.
func (s *Stream) change(f func(*StreamConfig)) {
	c := *s.config.Load()
	f(&c)
	s.config.Store(&c)
}

// Flush ends the delay before the next try at the target, unless the target asked for it.
func (s *Stream) Flush() {
	if o := s.opener.Load(); o != nil {
		o.retry.Kick()
	}
	if loop := s.loop.Load(); loop != nil {
		loop.Kick()
	}
}

// Purge declares everything lost that is queued and not in the target.
func (s *Stream) Purge() (queue.Loss, error) {
	q := s.queue.Load()
	if q == nil {
		return queue.Loss{}, errors.Errorf("stream %s: its queue cannot be opened", s.ID())
	}
	return q.Purge()
}

// SetFilter changes which points the stream takes of the writes that come from now on; nil means all. What
// is in the queue was accepted for this stream, and stays (ACKED).
func (s *Stream) SetFilter(f *filter.Filter) { s.filter.Store(f) }

// note keeps what is to be shown of the stream's position.
func (s *Stream) note(n Notice) {
	s.notice.Store(&n)
	if i := slices.Index(notices[:], n); i >= 0 {
		s.noted[i].Add(1)
	}
}
