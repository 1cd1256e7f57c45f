package influxlogical

import (
	"os"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue"
)

// Snapshot returns a copy of a stream's queue, as of now; see queue.Snapshot. If there is no such stream, the
// error is os.ErrNotExist.
func (s *Streams) Snapshot(id string) (*queue.Snapshot, error) {
	stream := s.Get(id)
	if stream == nil {
		return nil, errors.WithStack(os.ErrNotExist)
	}
	if q := stream.queue.Load(); q != nil {
		return q.Snapshot()
	}
	err := queue.ErrClosed
	if fault := stream.fault.Load(); fault != nil {
		err = fault.Err
	}
	if stream.gone.Load() {
		err = os.ErrNotExist
	}
	return nil, errors.WithMessage(err, "it cannot be opened, and so not be backed up; mend it, or back up without the queues")
}
