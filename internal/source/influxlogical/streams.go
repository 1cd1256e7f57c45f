package influxlogical

import (
	"context"
	stderrors "errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/lineprotocol/filter"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
)

// Config is what the streams of one installation share.
type Config struct {
	// Factory runs the loops.
	Factory *loops.Factory
	// Store keeps the queues.
	Store *queue.Store
	// Installation identifies the installation in the targets.
	Installation string
	// Holder is the factory's: who takes loops over. Default: Installation.
	Holder string
	// Log takes the logs. Default: slog.Default().
	Log *slog.Logger
}

// Streams are the buckets of one installation and their streams. Its methods may be called
// concurrently.
type Streams struct {
	config Config
	lives  *life
	groups sync.Pool // of *queue.Group
	sieves sync.Pool // of *filter.Sieve

	mu      sync.RWMutex
	byID    map[string]*Stream
	buckets map[string][]*Stream // by the bucket's id; a slice is replaced, never changed
	closed  bool
}

// ErrNoStream says that a bucket has no stream, so that there is nowhere to keep a write.
var ErrNoStream = errors.New("the bucket has no replication stream, so that there is nowhere to keep the write: create one, and write again")

// A BrokenError says that a stream's queue cannot be opened, and that nothing was kept anywhere.
type BrokenError struct {
	Stream string
	Err    error
}

// Error names the stream.
func (e *BrokenError) Error() string {
	return "the queue of stream " + e.Stream + " cannot be opened; nothing of this write was kept: " + e.Err.Error()
}

// Unwrap returns what is wrong with the queue.
func (e *BrokenError) Unwrap() error { return e.Err }

// A WriteError says that not every stream of a bucket could keep a write. Writing it again is
// harmless.
type WriteError struct {
	// Kept and Failed are the streams that have it and those that do not.
	Kept, Failed []string
	// Err is the first failure.
	Err error
}

// Error names the streams.
func (e *WriteError) Error() string {
	kept := "no stream kept it"
	if len(e.Kept) > 0 {
		kept = "kept by " + strings.Join(e.Kept, ", ")
	}
	return "stream " + strings.Join(e.Failed, ", ") + " could not make the write durable (" + kept + "): " + e.Err.Error()
}

// Unwrap returns the first failure.
func (e *WriteError) Unwrap() error { return e.Err }

// ErrStopping says that no more writes are taken.
var ErrStopping = errors.New("the server is stopping: write again when it is back")

// NewStreams returns an installation without streams.
func NewStreams(config Config) *Streams {
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Holder == "" {
		config.Holder = config.Installation
	}
	s := &Streams{config: config, lives: newLife(), byID: map[string]*Stream{}, buckets: map[string][]*Stream{}}
	s.groups.New = func() any { return new(queue.Group) }
	s.sieves.New = func() any { return new(filter.Sieve) }
	return s
}

// Write makes a write request durable in every stream of the bucket that has this id: in all of them,
// or, if one of them has no room, in none. A stream without room whose policy is to drop the newest is
// left out, and declares the write lost once the others have it. What nobody has kept is refused, and
// not lost.
func (s *Streams) Write(ctx context.Context, bucket string, blocks []lineprotocol.Block) error {
	streams, err := s.of(bucket)
	if err != nil || len(blocks) == 0 {
		return err
	}
	divided, err := s.share(streams, blocks)
	if err != nil {
		return err
	}
	defer s.release(divided)
	reserved, leftOut, err := reserve(divided.all)
	if err == nil {
		err = appendAll(ctx, reserved)
	}
	for _, sh := range leftOut {
		// After an error the client writes again, so that it is not lost.
		sh.queue.Decline(sh.group, err == nil)
	}
	if err == nil {
		divided.countFiltered()
	}
	return err
}

// of returns the streams of a bucket.
func (s *Streams) of(bucket string) ([]*Stream, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return nil, ErrStopping
	}
	streams := s.buckets[bucket]
	if len(streams) == 0 {
		return nil, ErrNoStream
	}
	return streams, nil
}

// reservation is room for a group in a stream's queue.
type reservation struct {
	stream *Stream
	queue  *queue.Queue
	group  *queue.Group
	room   queue.Reservation
}

// reserve sets room aside in every queue. A stream that drops the newest write is left out; if all of
// them are, that is an error, because nobody would have the write. A stream that takes nothing of it has no
// part in this.
func reserve(shares []share) (reserved, leftOut []reservation, err error) {
	reserved = make([]reservation, 0, len(shares))
	var full error
	gone := 0
	for _, sh := range shares {
		stream, group := sh.stream, sh.group
		if group == nil {
			continue
		}
		q, err := stream.writable()
		var room queue.Reservation
		if err == nil {
			room, err = q.Reserve(group)
		}
		if stream.gone.Load() {
			if err == nil {
				q.Release(room)
			}
			gone++
			continue // it is being deleted, and was listed when the write began
		}
		if _, ok := stderrors.AsType[*queue.LeftOutError](err); ok {
			full, leftOut = err, append(leftOut, reservation{stream, q, group, room})
			continue
		}
		if err != nil {
			stream.refused(group)
			for _, r := range reserved {
				r.queue.Release(r.room)
			}
			return nil, leftOut, err
		}
		reserved = append(reserved, reservation{stream, q, group, room})
	}
	switch {
	case len(reserved) == 0 && gone == len(shares):
		return nil, nil, ErrNoStream // they have all been deleted meanwhile
	case len(reserved) == 0:
		return nil, leftOut, full
	}
	return reserved, leftOut, nil
}

// reopenEvery is how often, at most, a write tries to open a queue that could not be opened.
const reopenEvery = 5 * time.Second

// writable returns the stream's queue.
func (s *Stream) writable() (*queue.Queue, error) {
	if q := s.queue.Load(); q != nil {
		return q, nil
	}
	if s.mu.TryLock() {
		if time.Since(s.tried) > reopenEvery && !s.gone.Load() {
			_ = s.start(context.Background()) // the fault says what is wrong
		}
		s.mu.Unlock()
		if q := s.queue.Load(); q != nil {
			return q, nil
		}
	}
	err := queue.ErrClosed
	if fault := s.fault.Load(); fault != nil {
		err = fault.Err
	}
	return nil, &BrokenError{Stream: s.config.Load().Name, Err: err}
}

// refused counts a write that the stream's queue did not take.
func (s *Stream) refused(group *queue.Group) {
	s.failedPoints.Add(uint64(group.Points()))
	s.failedBytes.Add(uint64(group.Size()))
}

// appendAll appends the groups to all queues at once.
func appendAll(ctx context.Context, reserved []reservation) error {
	if len(reserved) == 0 {
		return nil // no stream wants anything of it
	}
	failures := make([]error, len(reserved))
	var others sync.WaitGroup
	for i, r := range reserved[1:] {
		others.Go(func() { _, _, failures[i+1] = r.queue.Append(ctx, r.room, r.group) })
	}
	_, _, failures[0] = reserved[0].queue.Append(ctx, reserved[0].room, reserved[0].group)
	others.Wait()
	var result WriteError
	for i, err := range failures {
		stream := reserved[i].stream
		name := stream.config.Load().Name
		switch {
		case err == nil:
			result.Kept = append(result.Kept, name)
			continue
		case stream.gone.Load():
			continue // it has been deleted meanwhile
		}
		stream.refused(reserved[i].group)
		result.Failed = append(result.Failed, name)
		if result.Err == nil {
			result.Err = err
		}
	}
	switch {
	case result.Err != nil:
		return &result
	case len(result.Kept) == 0:
		return ErrNoStream
	}
	return nil
}

// All returns the streams of all buckets, by id.
func (s *Streams) All() []*Stream {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*Stream, 0, len(s.byID))
	for _, id := range slices.Sorted(maps.Keys(s.byID)) {
		all = append(all, s.byID[id])
	}
	return all
}

// Stopping reports whether Close has been called.
func (s *Streams) Stopping() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

// Close takes no more writes, lets what is in flight to the targets land until ctx ends, closes the
// queues and gives the targets back.
func (s *Streams) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.lives.end()
	s.config.Factory.Close(ctx)
	var first error
	for _, stream := range s.All() {
		stream.mu.Lock()
		if q := stream.queue.Load(); q != nil {
			if err := q.Close(); err != nil && first == nil {
				first = errors.WithMessagef(err, "stream %s", stream.ID())
			}
		}
		stream.letGo()
		stream.mu.Unlock()
	}
	s.lives.wait.Wait()
	return first
}
