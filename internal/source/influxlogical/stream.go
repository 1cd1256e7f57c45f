package influxlogical

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/lineprotocol"
	"github.com/tailrace-cdc/tailrace/internal/lineprotocol/filter"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/logical"
)

// StreamConfig says what one stream does.
type StreamConfig struct {
	// ID names the stream in logs, metrics and answers, and in the target's memo.
	ID string
	// Bucket is what it replicates.
	Bucket string
	// Target takes the points.
	Target logical.Target
	// Schema is the target's schema for the measurements; empty for the target's default.
	Schema string
	// Filter says which points the stream takes; nil means all. It works at intake: see Stream.SetFilter.
	Filter *filter.Filter
	// Loop is how the loop behaves.
	Loop logical.Config
	// Queue is how the queue is kept; the store says where.
	Queue queue.Config
}

// A Stream replicates one bucket to one target.
type Stream struct {
	shared Config
	config StreamConfig
	queue  *queue.Queue

	notice   atomic.Pointer[Notice]
	filter   atomic.Pointer[filter.Filter] // nil: all points
	filtered atomic.Uint64                 // points that it kept back

	failedPoints, failedBytes atomic.Int64 // what the queue did not take

	mu   sync.Mutex                 // held while the loop is started or stopped
	loop atomic.Pointer[loops.Loop] // nil while paused
}

// open opens the queue and starts the loop.
func open(shared Config, config StreamConfig) (*Stream, error) {
	log := shared.Log.With("stream", config.ID)
	config.Queue.Name, config.Queue.Logger = config.ID, log
	q, err := shared.Store.Open(config.ID, config.Queue)
	if err != nil {
		return nil, errors.WithMessagef(err, "stream %s", config.ID)
	}
	s := &Stream{shared: shared, config: config, queue: q}
	s.filter.Store(config.Filter)
	if err := s.Resume(); err != nil {
		_ = q.Close() // the first error says more
		return nil, err
	}
	return s, nil
}

// Resume starts the loop, if it is paused.
func (s *Stream) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loop.Load() != nil {
		return nil
	}
	log := s.shared.Log.With("stream", s.config.ID)
	decoding := lineprotocol.DecoderConfig{Schema: s.config.Schema, RawOnly: s.config.Target.Traits().WantsRaw}
	loop, err := s.shared.Factory.Get(context.Background(), loops.Spec{
		Name:     s.config.ID,
		Identity: s.shared.Installation + "/" + s.config.ID,
		Target:   s.config.Target,
		Config:   s.config.Loop,
		Dialect: &dialect{
			queue: s.queue, log: log, note: s.note,
			decoder: lineprotocol.NewDecoder(decoding), decoding: decoding,
		},
	})
	if err == nil {
		s.loop.Store(loop)
	}
	return errors.WithMessagef(err, "stream %s", s.config.ID)
}

// Pause drains and stops the loop. Writes are still accepted, and wait in the queue.
func (s *Stream) Pause(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loop.Load() != nil {
		s.shared.Factory.Remove(ctx, s.config.ID)
		s.loop.Store(nil)
	}
}

// SetFilter changes which points the stream takes of the writes that come from now on; nil means all. What
// is in the queue was accepted for this stream, and stays (ACKED).
func (s *Stream) SetFilter(f *filter.Filter) { s.filter.Store(f) }

// notQueued counts a write that the queue did not take.
func (s *Stream) notQueued(group *queue.Group) {
	s.failedPoints.Add(group.Points())
	s.failedBytes.Add(group.Size())
}

// note keeps what is to be shown of the stream's position.
func (s *Stream) note(n Notice) {
	s.notice.Store(&n)
}

// Status is what a stream tells about itself.
type Status struct {
	// ID and Bucket are the stream's.
	ID, Bucket string
	// Paused says that its loop is stopped by the operator; Loop is then the zero status.
	Paused bool
	// Loop is the status of its loop.
	Loop loops.Status
	// Queue is the state of its queue.
	Queue queue.Stats
	// Filtered is how many points its filter has kept back since the server started.
	Filtered uint64
	// Notice is something about its position in the queue; empty if there is nothing.
	Notice Notice
}

// Status returns the present status.
func (s *Stream) Status() Status {
	loop := s.loop.Load()
	st := Status{ID: s.config.ID, Bucket: s.config.Bucket, Paused: loop == nil, Queue: s.queue.Stats(), Filtered: s.filtered.Load()}
	if notice := s.notice.Load(); notice != nil {
		st.Notice = *notice
	}
	if loop != nil {
		st.Loop = loop.Status()
	}
	return st
}

// ID returns the stream's id.
func (s *Stream) ID() string { return s.config.ID }
