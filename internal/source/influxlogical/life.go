package influxlogical

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/logical"
)

// How long the ends of streams may take.
const (
	// drainWithin bounds how long a loop that is replaced waits for what is in flight.
	drainWithin = 5 * time.Second
	// forgetWithin bounds how long removing a memo from a target may take.
	forgetWithin = 3 * time.Second
)

// Add makes a stream: its queue, and its loop. A stream whose parts are broken is added all the same,
// and says so in its status; the error tells. Without the queue, writes to its bucket are refused.
func (s *Streams) Add(ctx context.Context, config StreamConfig) (*Stream, error) {
	stream := newStream(s.config, s.lives, config)
	stream.mu.Lock()
	defer stream.mu.Unlock()
	err := stream.openQueue() // before a write can ask for it
	if unlisted := s.list(stream); unlisted != nil {
		if q := stream.queue.Load(); q != nil {
			_ = q.Close() // nothing was written to it
		}
		return nil, unlisted
	}
	if err != nil {
		return stream, err
	}
	return stream, stream.start(ctx)
}

// MakeQueue makes the queue of a stream that is to be added, and closes it.
func (s *Streams) MakeQueue(config StreamConfig) error {
	q, err := s.config.Store.Open(config.ID, config.Queue)
	if err != nil {
		return err
	}
	return q.Close()
}

// DropQueue removes the queue of a stream that is not there.
func (s *Streams) DropQueue(id string) error { return s.config.Store.Delete(id) }

// list makes a stream known.
func (s *Streams) list(stream *Stream) error {
	c := stream.config.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrStopping
	}
	if _, ok := s.byID[c.ID]; ok {
		return errors.Errorf("stream %s: it is there already", c.ID)
	}
	s.byID[c.ID] = stream
	s.buckets[c.Bucket] = append(slices.Clone(s.buckets[c.Bucket]), stream)
	return nil
}

// unlist makes a stream unknown: no more writes reach it.
func (s *Streams) unlist(stream *Stream) {
	c := stream.config.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, c.ID)
	left := slices.DeleteFunc(slices.Clone(s.buckets[c.Bucket]), func(o *Stream) bool { return o == stream })
	if len(left) == 0 {
		delete(s.buckets, c.Bucket)
		return
	}
	s.buckets[c.Bucket] = left
}

// Get returns the stream with an id, or nil.
func (s *Streams) Get(id string) *Stream {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

// Update gives a stream that runs another configuration. Its id and bucket stay. No block is lost: what
// a loop that has to be replaced does not bring to an end is read again from the queue, by the next one.
// A target at another place begins at the queue's cursor, and the old one forgets the stream, if it can
// be reached.
func (s *Streams) Update(ctx context.Context, config StreamConfig) error {
	stream := s.Get(config.ID)
	if stream == nil {
		return errors.Errorf("stream %s: there is no such stream", config.ID)
	}
	stream.mu.Lock()
	defer stream.mu.Unlock()
	if stream.gone.Load() {
		return errors.WithMessagef(ErrRemoved, "stream %s", config.ID)
	}
	old := stream.config.Load()
	if config.Name == "" {
		config.Name = config.ID
	}
	config.Bucket = old.Bucket
	moved := old.Remote.Place != config.Remote.Place
	reopen := moved || old.Remote.Connection != config.Remote.Connection
	restart := reopen || old.Schema != config.Schema || old.Loop != config.Loop || config.Paused
	if q := stream.queue.Load(); q != nil {
		q.SetLimits(config.Queue.Limits)
	}
	if restart {
		stop, cancel := context.WithTimeout(ctx, drainWithin)
		stream.stopLoop(stop)
		cancel()
	}
	if moved {
		stream.forget(ctx, true)
		counting, cancel := context.WithTimeout(ctx, forgetWithin)
		left, _ := stream.CountLetters(counting)
		cancel()
		stream.leave(old.Remote, config.Remote, left)
	}
	if reopen || config.Paused {
		stream.letGo()
	}
	stream.SetFilter(config.Filter)
	stream.config.Store(&config)
	return stream.start(ctx)
}

// forget removes what the target stores about the stream; its dead letters may stay. s.mu is held, and
// there is no loop.
func (s *Stream) forget(ctx context.Context, keepLetters bool) {
	ctx, cancel := context.WithTimeout(ctx, forgetWithin)
	defer cancel()
	if _, err := s.open(ctx); err != nil {
		return // the stream's state has said what is wrong
	}
	target, ok := kept[logical.Forgetter](s)
	if !ok {
		return
	}
	if err := target.Forget(ctx, logical.Claim{Loop: s.identity(), Holder: s.shared.Holder}, keepLetters); err != nil {
		s.log().Warn("the stream's rows in the old target could not be removed; they do no harm", "loop", s.identity(), "error", err.Error())
	}
}

// Removed says what a stream left undone.
type Removed struct {
	// UnsentPoints and UnsentBytes were in the queue and not in the target. Points that had landed and
	// were not acknowledged yet may be among them.
	UnsentBytes  int64
	UnsentPoints int64
	// Letters are the dead letters that went with the stream, if the target could tell.
	Letters int64
}

// Remove ends a stream for ever: writes do not reach it any more, what is queued is sent for as long as
// flush says and as there is progress, and then its loop, its rows in the target (as far as that can be
// reached), its queue and its metrics go. Removing what is not there removes the queue of that id.
func (s *Streams) Remove(ctx context.Context, id string, flush time.Duration) (Removed, error) {
	stream := s.Get(id)
	if stream == nil {
		return Removed{}, s.config.Store.Delete(id)
	}
	stream.gone.Store(true)
	if o := stream.opener.Load(); o != nil {
		o.end() // it may be in the middle of a try
	}
	s.unlist(stream)
	stream.flush(ctx, flush)
	return stream.end(ctx)
}

// Discard ends a stream that is not there, as Remove does: its removal was interrupted. No write reaches it, and
// nothing of it is sent.
func (s *Streams) Discard(ctx context.Context, config StreamConfig) (Removed, error) {
	if s.Get(config.ID) != nil {
		return Removed{}, errors.Errorf("stream %s: it is there, and has to be removed", config.ID)
	}
	config.Paused = true
	stream := newStream(s.config, s.lives, config)
	stream.mu.Lock()
	_ = stream.openQueue() // it has said what is wrong, and goes anyway
	stream.gone.Store(true)
	stream.mu.Unlock()
	return stream.end(ctx)
}

// end takes away all that there is of a stream that gets no writes any more.
func (s *Stream) end(ctx context.Context) (left Removed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stop, cancel := context.WithTimeout(ctx, drainWithin)
	s.stopLoop(stop)
	cancel()
	if q := s.queue.Load(); q != nil {
		left.UnsentBytes = q.Stats().UnsentBytes
		if left.UnsentBytes > 0 {
			loss, err := q.Purge() // it counts, and tells the log
			if err != nil {
				s.log().Warn("what is lost with the stream cannot be counted", "error", err.Error())
			}
			left.UnsentPoints = loss.Points
		}
		if err := q.Close(); err != nil {
			s.log().Warn("closing the queue", "error", err.Error())
		}
		s.queue.Store(nil)
	}
	if store, ok := kept[logical.DeadLetters](s); ok {
		counting, cancel := context.WithTimeout(ctx, forgetWithin)
		left.Letters, _, _ = store.CountDeadLetters(counting, s.identity())
		cancel()
	}
	s.forget(ctx, false)
	s.letGo()
	return left, s.shared.Store.Delete(s.ID())
}

// flush waits until all that is queued has landed, for a bounded time, and not for a target that fails.
func (s *Stream) flush(ctx context.Context, within time.Duration) {
	loop := s.loop.Load()
	if loop == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	loop.Kick()
	before := loop.Status().ErrAt
	for {
		changed := loop.Changed()
		st := s.Status()
		if !st.Running || st.Settled() || st.Loop.Err != nil && st.Loop.ErrAt != before {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Orphan is a queue in the directory that belongs to no stream.
type Orphan struct {
	ID string
	// UnsentBytes is what is in it; zero if Err is set.
	UnsentBytes int64
	// Foreign says that it is called like no queue of ours, and was left alone.
	Foreign bool
	// Removed says that it was empty, and is gone.
	Removed bool
	// Err is why it cannot be read.
	Err error
}

// Sweep removes the queues that belong to no stream and hold nothing, and returns all that belong to
// none. Directories whose names are not ours, and those that skip has, are left alone. It is called when all streams have been added. What was never sent is not removed: a crash can
// leave no such queue, so that somebody must have put it there, or have taken the metadata away.
func (s *Streams) Sweep(skip map[string]bool, ours func(name string) bool) ([]Orphan, error) {
	names, err := s.config.Store.List()
	if err != nil {
		return nil, err
	}
	var orphans []Orphan
	for _, name := range names {
		if s.Get(name) != nil || skip[name] {
			continue
		}
		if !ours(name) {
			orphans = append(orphans, Orphan{ID: name, Foreign: true})
			continue
		}
		o := Orphan{ID: name}
		var q *queue.Queue
		if q, o.Err = s.config.Store.Open(name, queue.Config{Logger: s.config.Log}); o.Err == nil {
			o.UnsentBytes = q.Stats().UnsentBytes
			o.Err = q.Close()
		}
		if o.Err == nil && o.UnsentBytes == 0 {
			o.Err = s.config.Store.Delete(name)
			o.Removed = o.Err == nil
		}
		orphans = append(orphans, o)
	}
	return orphans, nil
}

// Queues returns the ids of the queues that are there, of whomever.
func (s *Streams) Queues() ([]string, error) { return s.config.Store.List() }
