package replication

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
	"github.com/tailrace-cdc/tailrace/internal/remote"
	"github.com/tailrace-cdc/tailrace/internal/source/influxlogical"
	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/logical"
)

// State is what a stream is doing, in one word for monitors; Advice says what to do about it.
type State string

// The states, beside those of loops (starting, running, retrying, rejecting, stopped).
const (
	StatePaused        State = "paused"
	StateSecretMissing State = "secret missing"
	StateTargetBroken  State = "target broken"
	StateTargetRefused State = "target refused"
	StateQueueBroken   State = "queue broken"
)

// Status is how a stream does, now.
type Status struct {
	// Mode is backfill, serial, immediate, paused or stopped.
	Mode string
	// State says what the stream is doing, Reason why, and Advice what to do about it.
	State          State
	Reason, Advice string
	// Notice is something about its position or its dead letters that must not be silent; see
	// influxlogical.Notice.
	Notice string
	// Lag is how long the oldest write has been waiting that is not in the target.
	Lag time.Duration
	// UnsentBytes wait in the queue; DiskBytes is the size of its files.
	UnsentBytes, DiskBytes int64
	// LastError is the last failure, "" if something has succeeded since; LastErrorAt is when it was.
	LastError     string
	LastErrorAt   time.Time
	LastSuccessAt time.Time
	// ResponseCode is what an HTTP remote answered last, 0 if it did not answer; Answered says that it
	// was asked at all.
	ResponseCode int
	Answered     bool
	// DeadLetters is how many there are; LettersKnown is false if the target has never said.
	DeadLetters  int64
	LettersKnown bool
	// Lost are the points that were given up since the stream was made, by reason.
	Lost map[string]int64
	// Filtered are the points that the stream's filter has kept back since the server started.
	Filtered uint64
	// Stalled says that the stream makes no progress although it has something to send.
	Stalled bool
}

// countWithin bounds how long a status waits for the number of dead letters.
const countWithin = 500 * time.Millisecond

// Status returns how a stream does.
func (s *Service) Status(ctx context.Context, id metadata.ID) Status {
	stream := s.config.Streams.Get(id.String())
	if stream == nil {
		return Status{Mode: "stopped", State: State(loops.StateStopped), Lost: map[string]int64{}}
	}
	st := statusOf(stream.Status(), time.Now())
	ctx, cancel := context.WithTimeout(ctx, countWithin)
	defer cancel()
	st.DeadLetters, st.LettersKnown = stream.CountLetters(ctx)
	st.ResponseCode, st.Answered = stream.LatestResponse()
	return st
}

// StalledAfter is how long something may wait behind a failing loop until the stream counts as stalled:
// longer than a database takes to be restarted.
const StalledAfter = 10 * time.Second

// statusOf says what the state of a stream means.
func statusOf(in influxlogical.Status, now time.Time) Status {
	st := Status{
		Mode: in.Loop.Mode.String(), State: State(in.Loop.State), Notice: string(in.Notice), Lag: in.Lag(now),
		UnsentBytes: in.Queue.UnsentBytes, DiskBytes: in.Queue.DiskBytes, LastSuccessAt: in.Loop.PointAt, LastErrorAt: in.Loop.ErrAt,
		Lost: map[string]int64{}, Filtered: in.Filtered,
	}
	for reason, total := range maps.All(in.Queue.Lost) {
		st.Lost[string(reason)] = total.Points
	}
	if in.Loop.Err != nil {
		st.LastError, st.Reason, st.Advice = in.Loop.Err.Error(), in.Loop.Err.Error(), logical.HintOf(in.Loop.Err)
	}
	switch {
	case in.Fault != nil && in.Fault.Part == influxlogical.FaultQueue:
		st.Mode, st.State, st.Reason = "stopped", StateQueueBroken, in.Fault.Err.Error()
		st.Advice = "writes to its bucket are refused; mend the directory (see 'tailrace queue verify' and 'repair'), then resume the stream, or delete it"
		st.Stalled = true
	case in.Fault != nil:
		st.Mode, st.State, st.Reason = "stopped", StateTargetBroken, in.Fault.Err.Error()
		switch {
		case errors.Is(in.Fault.Err, ErrSecretMissing):
			st.State = StateSecretMissing
		case remote.IsRefused(in.Fault.Err):
			st.State = StateTargetRefused
		}
		if st.Advice = logical.HintOf(in.Fault.Err); st.Advice == "" {
			st.Advice = "correct the remote, or what it leads to: it is tried again by itself; writes are accepted meanwhile"
		}
		st.LastError, st.Stalled = st.Reason, true
	case in.Paused:
		st.Mode, st.State = "paused", StatePaused
		st.Advice = "writes are accepted and wait; resume it to send them"
		st.Stalled = in.Queue.UnsentBytes > 0
		if st.Reason == "" {
			st.Reason = "paused by an operator"
		}
	case !in.Running:
		st.Mode, st.State = "stopped", State(loops.StateStopped)
		st.Stalled = in.Queue.UnsentBytes > 0
	case in.Loop.State == loops.StateRejecting:
		st.Stalled = true
		if st.Advice == "" {
			st.Advice = "the target will never accept what is next; change it there, or set onReject to deadLetter or discard"
		}
	case remote.IsRefused(in.Loop.Err):
		st.State, st.Advice, st.Stalled = StateTargetRefused, refusedAdvice, true
	case in.Loop.Err != nil:
		st.Stalled = st.Lag >= StalledAfter
		if st.Advice == "" {
			st.Advice = "it is tried again, for as long as it takes; nothing is lost meanwhile"
		}
	}
	if st.Notice != "" && st.Advice == "" {
		st.Advice = noticeAdvice(in.Notice)
	}
	return st
}

const refusedAdvice = "give the remote another remoteURL, or have the operator of this server allow this one; writes are accepted and wait"

func noticeAdvice(n influxlogical.Notice) string {
	switch n {
	case influxlogical.NoticeGap:
		return "the target lacks what was sent before it was restored from a backup: write that again from another source"
	case influxlogical.NoticeReplaced, influxlogical.NoticeMissing:
		return "what was in the old queue and not in the target is lost: write it again from another source"
	case influxlogical.NoticeLetters:
		return "there are dead letters in a target that the stream had before: give it that remote again to replay or drop them"
	case influxlogical.NoticeBehind:
		return "the data directory is older than the target: what was accepted in between is in the target only as far as it had been sent"
	}
	return fmt.Sprintf("see the log for %q", string(n))
}

// Health is how a stream does, in short.
type Health struct {
	ID, Name, Bucket string
	Stalled          bool
	Reason           string
}

// Health returns how all streams do. It asks no target.
func (s *Service) Health() []Health {
	now := time.Now()
	buckets := s.directory.Load().buckets
	streams := s.config.Streams.All()
	all := make([]Health, 0, len(streams))
	for _, stream := range streams {
		in := stream.Status()
		st := statusOf(in, now)
		h := Health{ID: in.ID, Name: in.Name, Bucket: in.Bucket, Stalled: st.Stalled}
		if id, err := metadata.ParseID(in.Bucket); err == nil {
			h.Bucket = buckets[id].Name
		}
		if st.Stalled {
			h.Reason = string(st.State) + ": " + st.Reason
			if st.Advice != "" {
				h.Reason += "; " + st.Advice
			}
		}
		all = append(all, h)
	}
	return all
}
