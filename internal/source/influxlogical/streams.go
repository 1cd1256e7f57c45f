package influxlogical

import (
	"context"
	stderrors "errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

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
	// Log takes the logs. Default: slog.Default().
	Log *slog.Logger
}

// Streams are the buckets of one installation and their streams. Its methods may be called
// concurrently.
type Streams struct {
	config Config
	groups sync.Pool // of *queue.Group
	sieves sync.Pool // of *filter.Sieve

	mu      sync.RWMutex
	buckets map[string][]*Stream // a slice is replaced, never changed
	closed  bool
}

// An UnknownBucketError says that there is no bucket of that name.
type UnknownBucketError struct{ Bucket string }

// Error implements error.
func (e *UnknownBucketError) Error() string { return "bucket \"" + e.Bucket + "\" not found" }

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

// NewStreams returns an installation without buckets.
func NewStreams(config Config) *Streams {
	if config.Log == nil {
		config.Log = slog.Default()
	}
	s := &Streams{config: config, buckets: map[string][]*Stream{}}
	s.groups.New = func() any { return new(queue.Group) }
	s.sieves.New = func() any { return new(filter.Sieve) }
	return s
}

// Write makes a write request durable in every stream of the bucket: in all of them, or, if one of
// them has no room, in none. A stream without room whose policy is to drop the newest is left out, and
// declares the write lost once the others have it. What nobody has kept is refused, and not lost.
func (s *Streams) Write(ctx context.Context, bucket string, blocks []lineprotocol.Block) error {
	streams, err := s.of(bucket)
	if err != nil || len(blocks) == 0 || len(streams) == 0 {
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
		sh.stream.queue.Decline(sh.group, err == nil)
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
	streams, ok := s.buckets[bucket]
	if !ok {
		return nil, &UnknownBucketError{Bucket: bucket}
	}
	return streams, nil
}

// reservation is room for a group in a stream's queue.
type reservation struct {
	stream *Stream
	group  *queue.Group
	room   queue.Reservation
}

// reserve sets room aside in every queue. A stream that drops the newest write is left out; if all of
// them are, that is an error, because nobody would have the write. A stream that takes nothing of it has no
// part in this.
func reserve(shares []share) (reserved []reservation, leftOut []share, err error) {
	reserved = make([]reservation, 0, len(shares))
	var full error
	for _, sh := range shares {
		if sh.group == nil {
			continue
		}
		room, err := sh.stream.queue.Reserve(sh.group)
		if err != nil {
			sh.stream.notQueued(sh.group)
		}
		if _, ok := stderrors.AsType[*queue.LeftOutError](err); ok {
			full, leftOut = err, append(leftOut, sh)
			continue
		}
		if err != nil {
			for _, r := range reserved {
				r.stream.queue.Release(r.room)
			}
			return nil, leftOut, err
		}
		reserved = append(reserved, reservation{sh.stream, sh.group, room})
	}
	if len(reserved) == 0 {
		return nil, leftOut, full
	}
	return reserved, leftOut, nil
}

// appendAll appends the groups to all queues at once.
func appendAll(ctx context.Context, reserved []reservation) error {
	if len(reserved) == 0 {
		return nil // no stream wants anything of it
	}
	failures := make([]error, len(reserved))
	var others sync.WaitGroup
	for i, r := range reserved[1:] {
		others.Go(func() { _, _, failures[i+1] = r.stream.queue.Append(ctx, r.room, r.group) })
	}
	_, _, failures[0] = reserved[0].stream.queue.Append(ctx, reserved[0].room, reserved[0].group)
	others.Wait()
	var result WriteError
	for i, err := range failures {
		name := reserved[i].stream.config.ID
		if err == nil {
			result.Kept = append(result.Kept, name)
			continue
		}
		reserved[i].stream.notQueued(reserved[i].group)
		result.Failed = append(result.Failed, name)
		if result.Err == nil {
			result.Err = err
		}
	}
	if result.Err != nil {
		return &result
	}
	return nil
}

// Add opens a stream's queue and starts its loop.
func (s *Streams) Add(config StreamConfig) (*Stream, error) {
	stream, err := open(s.config, config)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets[config.Bucket] = append(slices.Clone(s.buckets[config.Bucket]), stream)
	return stream, nil
}

// All returns the streams of all buckets.
func (s *Streams) All() []*Stream {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var all []*Stream
	for _, streams := range s.buckets {
		all = append(all, streams...)
	}
	return all
}

// Buckets returns the names of the buckets, sorted.
func (s *Streams) Buckets() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := make([]string, 0, len(s.buckets))
	for name := range s.buckets {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// HasBucket reports whether there is a bucket of that name.
func (s *Streams) HasBucket(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.buckets[name]
	return ok
}

// Stopping reports whether Close has been called.
func (s *Streams) Stopping() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.closed
}

// Close takes no more writes, lets what is in flight to the targets land until ctx ends, and closes
// the queues.
func (s *Streams) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.config.Factory.Close(ctx)
	var first error
	for _, stream := range s.All() {
		if err := stream.queue.Close(); err != nil && first == nil {
			first = errors.WithMessagef(err, "stream %s", stream.config.ID)
		}
	}
	return first
}
