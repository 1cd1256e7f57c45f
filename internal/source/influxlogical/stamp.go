package influxlogical

import (
	"cmp"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Stamp is the position of one write request: the last block of its group in the queue. It is a
// sequence number, never a byte offset, so that it survives repairs of the queue's files.
type Stamp struct {
	// Queue is the queue's identity. Positions of another queue mean nothing in this one.
	Queue queue.ID `json:"queue"`
	// Sequence is that of the group's last block.
	Sequence queue.Sequence `json:"sequence"`
	// Enqueued is when the write was made durable, in nanoseconds since the Unix epoch.
	Enqueued int64 `json:"enqueued"`
}

var (
	_ logical.TimeStamp   = Stamp{}
	_ logical.OffsetStamp = Stamp{}
)

// Compare implements logical.Stamp. The zero stamp is before all others; otherwise stamps of two
// queues are never compared, because a dialect translates foreign ones when it decodes them.
func (s Stamp) Compare(other logical.Stamp) int {
	return cmp.Compare(s.Sequence, other.(Stamp).Sequence)
}

// Time implements logical.TimeStamp.
func (s Stamp) Time() time.Time {
	if s.Enqueued == 0 {
		return time.Time{}
	}
	return time.Unix(0, s.Enqueued)
}

// Offset implements logical.OffsetStamp.
func (s Stamp) Offset() uint64 { return uint64(s.Sequence) }

// String is for logs.
func (s Stamp) String() string {
	if s.Queue == uuid.Nil {
		return "start"
	}
	return fmt.Sprintf("%s/%d", s.Queue, s.Sequence)
}
