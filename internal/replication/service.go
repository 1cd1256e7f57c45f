package replication

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Config is what a Service works with. All fields but FlushWithin, ApplyWithin and Log are required.
type Config struct {
	// Installation identifies the installation in the targets.
	Installation string
	Store        *metadata.Store
	Streams      *influxlogical.Streams
	// Open opens targets.
	Open remote.Opener
	// Limits say which addresses may come over the API.
	Limits remote.Limits
	// Loop and Queue are the settings of streams that have none of their own.
	Loop  logical.Config
	Queue queue.Config
	// FlushWithin bounds how long deleting a stream waits for what is queued. Default: 5 s.
	FlushWithin time.Duration
	// ApplyWithin bounds how long a request waits until what it has changed is applied to all streams; to the
	// others it is applied later. Default: 10 s.
	ApplyWithin time.Duration
	// Log takes the logs. Default: slog.Default().
	Log *slog.Logger
}

// A Service is the streams of an installation, and what belongs to them. Its methods may be called
// concurrently.
type Service struct {
	config Config
	store  *metadata.Store
	pool   *remote.Pool
	log    *slog.Logger

	directory atomic.Pointer[directory]
	reading   sync.Mutex // held while the directory is read anew

	// starting are the queues that were there at the start, while Start runs; nil otherwise.
	starting map[string]bool

	ctx        context.Context // ends with the service
	stop       context.CancelFunc
	background sync.WaitGroup // what goes on beside the requests

	mu    sync.Mutex
	locks map[metadata.ID]*lock // of streams whose running is being changed
}

// New returns a Service. Start has what is stored run.
func New(config Config) *Service {
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.FlushWithin == 0 {
		config.FlushWithin = 5 * time.Second
	}
	if config.ApplyWithin == 0 {
		config.ApplyWithin = 10 * time.Second
	}
	s := &Service{config: config, store: config.Store, pool: remote.NewPool(config.Log), log: config.Log, locks: map[metadata.ID]*lock{}}
	s.directory.Store(&directory{})
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Close waits for what goes on beside the requests, which it cuts short. What is left of it is done by the next
// start. It comes after the last call of another method, and before what the service works with is closed.
func (s *Service) Close() {
	s.stop()
	s.background.Wait()
	s.pool.Close()
}

// startersAtOnce is how many streams are started at the same time.
const startersAtOnce = 8

// Start is called once, before all else. It starts what is stored, looks for queues that belong to nobody, and
// goes on with what a crash interrupted, until Close. That a stream cannot run is no error: its status says so.
func (s *Service) Start(ctx context.Context) error {
	if err := s.reread(ctx); err != nil {
		return err
	}
	if err := s.mendAddresses(ctx); err != nil {
		return err
	}
	deleting, err := s.store.Streams(ctx, metadata.StreamFilter{Deleting: true})
	if err != nil {
		return err
	}
	streams, err := s.store.Streams(ctx, metadata.StreamFilter{})
	if err != nil {
		return err
	}
	queues, err := s.config.Streams.Queues()
	if err != nil {
		return err
	}
	s.starting = map[string]bool{}
	for _, id := range queues {
		s.starting[id] = true
	}
	defer func() { s.starting = nil }()
	var starters errgroup.Group
	starters.SetLimit(startersAtOnce)
	for _, stream := range streams {
		starters.Go(func() error {
			err := s.apply(ctx, stream.ID)
			if err != nil {
				s.log.Error("a stream does not run", "stream", stream.ID.String(), "name", stream.Name, "error", err.Error())
			}
			return ctx.Err()
		})
	}
	if err := starters.Wait(); err != nil {
		return errors.WithStack(err)
	}
	if err := s.sweep(deleting); err != nil {
		return err
	}
	buckets := s.directory.Load().all
	s.background.Go(func() { s.finishDeleting(context.WithoutCancel(ctx), deleting, buckets) })
	return nil
}

// finishDeleting deletes what was being deleted when the server ended.
func (s *Service) finishDeleting(ctx context.Context, streams []metadata.Stream, buckets []metadata.Bucket) {
	var removers errgroup.Group
	removers.SetLimit(startersAtOnce)
	for _, stream := range streams {
		removers.Go(func() error {
			if s.ctx.Err() != nil {
				return nil
			}
			s.log.Info("going on with the deletion of a stream", "stream", stream.ID.String(), "name", stream.Name)
			if err := s.remove(ctx, stream); err != nil {
				s.log.Warn("a stream could not be deleted; the next start tries again", "stream", stream.ID.String(), "error", err.Error())
			}
			return nil
		})
	}
	_ = removers.Wait() // each has said what is wrong
	for _, bucket := range buckets {
		if !bucket.Deleting || s.ctx.Err() != nil {
			continue
		}
		_, err := changed(ctx, s, bucket.ID, s.store.DeleteBucket(ctx, bucket.ID))
		if gone := new(metadata.NotFoundError); err != nil && !errors.As(err, &gone) {
			s.log.Warn("a bucket could not be deleted; the next start tries again", "bucket", bucket.Name, "error", err.Error())
		}
	}
}

// sweep says which queues belong to no stream, not even to one that is being deleted.
func (s *Service) sweep(deleting []metadata.Stream) error {
	skip := map[string]bool{}
	for _, st := range deleting {
		skip[st.ID.String()] = true
	}
	orphans, err := s.config.Streams.Sweep(skip, func(name string) bool {
		_, err := metadata.ParseID(name)
		return err == nil
	})
	for _, o := range orphans {
		switch {
		case o.Foreign:
			s.log.Warn("there is a directory among the queues that is none of ours", "name", o.ID)
		case o.Removed:
			s.log.Info("an empty queue that belongs to no stream was removed", "queue", o.ID)
		case o.Err != nil:
			s.log.Warn("there is a directory that belongs to no stream, and it cannot be read as a queue; look at it, and remove it",
				"queue", o.ID, "error", o.Err.Error())
		default:
			s.log.Warn("a queue belongs to no stream and holds what was never sent; look at it with 'tailrace queue dump', and remove it",
				"queue", o.ID, "unsentBytes", o.UnsentBytes)
		}
	}
	return err
}

// A lock is a mutex that is forgotten when nobody wants it.
type lock struct {
	sync.Mutex
	users int
}

// lockStream has the running of one stream changed by one caller at a time.
func (s *Service) lockStream(id metadata.ID) (unlock func()) {
	s.mu.Lock()
	l := s.locks[id]
	if l == nil {
		l = &lock{}
		s.locks[id] = l
	}
	l.users++
	s.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(s.locks, id)
		}
	}
}
