package replication

import (
	"context"
	stderrors "errors"
	"slices"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sync/errgroup"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
)

// Stream returns what is stored of a stream.
func (s *Service) Stream(ctx context.Context, id metadata.ID) (metadata.Stream, error) {
	return s.store.Stream(ctx, id)
}

// Streams returns the streams that a filter chooses, the oldest first.
func (s *Service) Streams(ctx context.Context, f metadata.StreamFilter) ([]metadata.Stream, error) {
	return s.store.Streams(ctx, f)
}

// CreateStream makes a stream: its queue, what is stored of it, and its loop, or nothing of it. Its
// remote need not be reachable.
func (s *Service) CreateStream(ctx context.Context, st metadata.Stream) (metadata.Stream, error) {
	st.ID, st.Opened = s.store.NewStreamID(), true
	r, err := s.checkStream(ctx, st)
	if err != nil {
		return st, err
	}
	ctx = context.WithoutCancel(ctx) // as a whole
	if err := s.config.Streams.MakeQueue(s.runConfig(st, r)); err != nil {
		return st, errors.WithMessage(err, "the queue cannot be made")
	}
	stored, err := s.store.CreateStream(ctx, st)
	if err != nil {
		if gone := s.config.Streams.DropQueue(st.ID.String()); gone != nil {
			s.log.Warn("the queue of a stream that was not made stays; the next start removes it", "queue", st.ID.String(), "error", gone.Error())
		}
		return st, err
	}
	s.log.Info("stream created", "stream", stored.ID.String(), "name", stored.Name, "remote", r.Name, "paused", stored.Paused)
	if err := s.apply(ctx, stored.ID); err != nil {
		s.log.Warn("the new stream does not run", "stream", stored.ID.String(), "error", err.Error())
	}
	return stored, nil
}

// CheckStream reports what keeps a stream from being stored. It makes nothing.
func (s *Service) CheckStream(ctx context.Context, st metadata.Stream) error {
	_, err := s.checkStream(ctx, st)
	return err
}

// checkStream looks at the settings, and returns the remote.
func (s *Service) checkStream(ctx context.Context, st metadata.Stream) (metadata.Remote, error) {
	r, err := s.store.Remote(ctx, st.RemoteID)
	if err != nil {
		return r, err
	}
	bucket, err := s.Bucket(st.BucketID)
	if err != nil {
		return r, err
	}
	if err := metadata.CheckOwners(st, r, bucket); err != nil {
		return r, err
	}
	return r, checkSettings(s.runConfig(st, r), st)
}

// UpdateStream changes a stream while it runs.
func (s *Service) UpdateStream(ctx context.Context, id metadata.ID, change func(*metadata.Stream) error) (metadata.Stream, error) {
	before, err := s.store.Stream(ctx, id)
	if err != nil {
		return before, err
	}
	proposed := before
	if err := change(&proposed); err != nil {
		return before, err
	}
	if _, err := s.checkStream(ctx, proposed); err != nil {
		return before, err
	}
	st, err := s.store.UpdateStream(ctx, id, change)
	if err != nil {
		return st, err
	}
	if err := s.apply(context.WithoutCancel(ctx), id); err != nil {
		if _, gone := errors.Cause(err).(*metadata.NotFoundError); gone { //nolint:errorlint // Cause has unwrapped it
			return st, err
		}
		s.log.Warn("the stream does not run after its update", "stream", id.String(), "error", err.Error())
	}
	return st, nil
}

// Pause stops a stream's loop, also over restarts; Resume starts it. Writes are accepted all the while.
func (s *Service) Pause(ctx context.Context, id metadata.ID, paused bool) (metadata.Stream, error) {
	st, err := s.UpdateStream(ctx, id, func(st *metadata.Stream) error { st.Paused = paused; return nil })
	if err == nil {
		s.log.Info("stream paused or resumed", "stream", id.String(), "name", st.Name, "paused", paused)
	}
	return st, err
}

// DeleteStream ends a stream for ever. What is queued is sent for a bounded time; what is not is lost,
// which is counted and logged.
func (s *Service) DeleteStream(ctx context.Context, id metadata.ID) error {
	st, err := s.store.RetireStream(ctx, id)
	if err != nil {
		return err
	}
	return s.remove(context.WithoutCancel(ctx), st) // it is decided
}

// remove ends a stream that is marked as being deleted.
func (s *Service) remove(ctx context.Context, st metadata.Stream) error {
	defer s.lockStream(st.ID)()
	id := st.ID
	deleting, err := s.store.Streams(ctx, metadata.StreamFilter{Deleting: true, BucketID: st.BucketID})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(deleting, func(d metadata.Stream) bool { return d.ID == id }) {
		return nil // another deletion was faster
	}
	left, err := s.end(ctx, st)
	log := s.log.With("stream", id.String(), "name", st.Name)
	if left.UnsentBytes > 0 || left.Letters > 0 {
		log.Warn("stream deleted with data that was not in its target", "reason", "deleted", "unsentPoints", left.UnsentPoints,
			"unsentBytes", left.UnsentBytes, "deadLetters", left.Letters)
	}
	if err != nil {
		return errors.WithMessagef(err, "the queue of stream %s cannot be removed", id)
	}
	if err := s.store.DeleteStream(ctx, id); err != nil {
		return err
	}
	log.Info("stream deleted")
	return nil
}

// end has everything of a stream removed but what is stored. Where a crash came in between, and it does not run,
// its target has to forget it all the same, as far as it can be reached.
func (s *Service) end(ctx context.Context, st metadata.Stream) (influxlogical.Removed, error) {
	if s.config.Streams.Get(st.ID.String()) == nil {
		if r, err := s.store.Remote(ctx, st.RemoteID); err == nil {
			return s.config.Streams.Discard(ctx, s.runConfig(st, r))
		}
	}
	return s.config.Streams.Remove(ctx, st.ID.String(), s.config.FlushWithin)
}

func (s *Service) removeAll(ctx context.Context, streams []metadata.Stream) error {
	var removers errgroup.Group
	removers.SetLimit(startersAtOnce)
	for _, st := range streams {
		removers.Go(func() error { return s.remove(ctx, st) })
	}
	return removers.Wait()
}

// apply makes what runs of a stream agree with what is stored.
func (s *Service) apply(ctx context.Context, id metadata.ID) error {
	defer s.lockStream(id)()
	st, err := s.store.Stream(ctx, id)
	if err != nil {
		return err
	}
	r, err := s.store.Remote(ctx, st.RemoteID)
	if err != nil {
		return err
	}
	config := s.runConfig(st, r)
	if s.config.Streams.Get(config.ID) != nil {
		return s.config.Streams.Update(ctx, config)
	}
	if st.Opened && s.starting != nil && !s.starting[config.ID] {
		s.log.Error("the queue of a stream was not there; it is made anew, and what was in it is lost", "stream", config.ID, "name", st.Name)
		config.Notice = influxlogical.NoticeMissing
	}
	stream, err := s.config.Streams.Add(ctx, config)
	if stream != nil && !st.Opened && stream.Status().Queue.Name != "" {
		_, stored := s.store.UpdateStream(ctx, id, func(st *metadata.Stream) error { st.Opened = true; return nil })
		err = stderrors.Join(err, stored)
	}
	return err
}

// applyAll applies what is stored of several streams, and waits for it for a bounded time. What the service's end
// cuts off is applied at the next start.
func (s *Service) applyAll(ctx context.Context, streams []metadata.Stream) {
	applied := make(chan struct{})
	s.background.Go(func() {
		defer close(applied)
		var appliers errgroup.Group
		appliers.SetLimit(startersAtOnce)
		for _, st := range streams {
			appliers.Go(func() error {
				if s.ctx.Err() != nil {
					return nil
				}
				if err := s.apply(ctx, st.ID); err != nil {
					s.log.Warn("a stream does not run", "stream", st.ID.String(), "error", err.Error())
				}
				return nil
			})
		}
		_ = appliers.Wait() // each has said what is wrong
	})
	late := time.NewTimer(s.config.ApplyWithin)
	defer late.Stop()
	select {
	case <-applied:
	case <-late.C:
		s.log.Warn("a change is stored, and is still being applied to its streams", "streams", len(streams))
	}
}

// Flush ends the delay before a stream's next try at its target.
func (s *Service) Flush(ctx context.Context, id metadata.ID) error {
	stream, err := s.running(ctx, id)
	if err == nil {
		stream.Flush()
	}
	return err
}

// Purged is what a purge has declared lost.
type Purged struct{ Points, Bytes int64 }

// Purge declares everything lost that waits in a stream's queue.
func (s *Service) Purge(ctx context.Context, id metadata.ID) (Purged, error) {
	stream, err := s.running(ctx, id)
	if err != nil {
		return Purged{}, err
	}
	loss, err := stream.Purge()
	if err == nil {
		s.log.Warn("queue purged", "stream", id.String(), "name", stream.Status().Name, "reason", "purge", "points", loss.Points, "bytes", loss.Bytes)
	}
	return Purged{loss.Points, loss.Bytes}, err
}

// running returns the stream that runs.
func (s *Service) running(ctx context.Context, id metadata.ID) (*influxlogical.Stream, error) {
	if _, err := s.store.Stream(ctx, id); err != nil {
		return nil, err
	}
	if stream := s.config.Streams.Get(id.String()); stream != nil {
		return stream, nil
	}
	return nil, &metadata.NotFoundError{Kind: metadata.KindStream, Ref: id.String()}
}
