package influxlogical

import (
	"time"

	"github.com/tailrace-cdc/tailrace/internal/queue"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
)

// Status is what a stream tells about itself.
type Status struct {
	// ID, Name and Bucket are the stream's.
	ID, Name, Bucket string
	// Paused says that its loop is stopped by the operator.
	Paused bool
	// Fault says why it cannot run at all; nil if it can.
	Fault *Fault
	// Running says that there is a loop; Loop is then its status.
	Running bool
	Loop    loops.Status
	// Queue is the state of its queue; the zero value if that cannot be opened.
	Queue queue.Stats
	// Filtered is how many points its filter has kept back since the server started.
	Filtered uint64
	// Notice is something about its position or its dead letters; empty if there is nothing.
	Notice Notice
}

// Status returns the present status. It does not ask the target.
func (s *Stream) Status() Status {
	c := s.config.Load()
	st := Status{ID: c.ID, Name: c.Name, Bucket: c.Bucket, Paused: c.Paused, Fault: s.fault.Load(), Filtered: s.filtered.Load()}
	if q := s.queue.Load(); q != nil {
		st.Queue = q.Stats()
	}
	if notice := s.notice.Load(); notice != nil {
		st.Notice = *notice
	} else if s.lettersBehind.Load() {
		st.Notice = NoticeLetters
	}
	if loop := s.loop.Load(); loop != nil {
		st.Running, st.Loop = true, loop.Status()
	}
	return st
}

// Lag is how long the oldest write has been waiting that is not in the target, by the queue's account;
// zero if nothing waits. It is known without the target, and while the stream is paused.
func (st Status) Lag(now time.Time) time.Duration {
	if st.Running && st.Loop.StalenessKnown {
		return st.Loop.Staleness
	}
	if st.Queue.OldestUnsent == 0 {
		return 0
	}
	return max(0, now.Sub(time.Unix(0, st.Queue.OldestUnsent)))
}

// Settled reports whether everything that was queued has landed.
func (st Status) Settled() bool {
	if st.Queue.UnsentBytes == 0 {
		return true
	}
	point, ok := st.Loop.Point.(Stamp)
	return ok && point.Queue == st.Queue.ID && point.Sequence >= st.Queue.LastSeq
}

// An Answerer is a target that is asked over HTTP.
type Answerer interface {
	// LatestResponse returns the status of the last answer, 0 if there was none, and whether anything
	// was asked.
	LatestResponse() (code int, asked bool)
}

// LatestResponse returns what the stream's target answered last, if it is one that answers.
func (s *Stream) LatestResponse() (code int, asked bool) {
	if t, ok := kept[Answerer](s); ok {
		return t.LatestResponse()
	}
	return 0, false
}
