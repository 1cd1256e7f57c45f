package influx

import (
	"context"
	"errors"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// sending is one Apply: it sends lines in order, in as many requests as it takes.
type sending struct {
	t    *Target
	muts []logical.Mutation
	next int // lines before it are stored, or among bad
	bad  []logical.Rejection
	// patience is until when rejected lines are looked for; what has been found by then is returned.
	patience time.Time
}

// searchTime bounds the search for rejected lines where nobody else does.
const searchTime = 15 * time.Second

// patience returns until when to look for rejected lines: half of the time that there is.
func patience(ctx context.Context) time.Time {
	now := time.Now()
	if deadline, ok := ctx.Deadline(); ok {
		return now.Add(deadline.Sub(now) / 2)
	}
	return now.Add(searchTime)
}

// accepted returns how many lines at the beginning are stored, every one.
func (s *sending) accepted() int {
	if len(s.bad) > 0 {
		return min(s.next, s.bad[0].Index)
	}
	return s.next
}

// all sends all lines. An error of class reject lists those that the remote does not accept; if it took too
// long to find all, the ones that have been found.
func (s *sending) all(ctx context.Context) error {
	for s.next < len(s.muts) {
		n := s.t.portion(s.muts[s.next:])
		v, err := s.t.post(ctx, s.muts[s.next:s.next+n])
		if err != nil {
			return err
		}
		switch v.outcome {
		case accepted:
			s.next += n
		case unsettled:
			return v.err
		case tooLarge:
			if n == 1 {
				s.reject(s.next, v.err)
				s.next++
			}
		case rejected:
			err := s.search(ctx, s.next, s.next+n, v)
			if errors.Is(err, errEnough) {
				return s.rejection()
			}
			if err != nil {
				return err
			}
			s.next += n
		}
	}
	return s.rejection()
}

// errEnough ends a search that takes too long.
var errEnough = errors.New("influx: enough rejected lines were found")

// search finds the rejected ones among the lines that the remote has answered with a verdict, by its own
// words or by halving. When it returns nil, all others are stored.
func (s *sending) search(ctx context.Context, from, to int, v verdict) error {
	if to-from == 1 {
		s.reject(from, v.err)
		return nil
	}
	if lines := v.within(to - from); lines != nil {
		for _, l := range lines {
			s.reject(from+l.line, l.reason)
		}
		return nil
	}
	if len(s.bad) > 0 && time.Now().After(s.patience) {
		return errEnough
	}
	middle := from + (to-from)/2
	clean := true
	for _, part := range [2][2]int{{from, middle}, {middle, to}} {
		if part[0] == middle && clean && to-middle > 1 {
			// It is in here, so that there is no need to ask.
			return s.search(ctx, middle, to, verdict{outcome: rejected, err: v.err})
		}
		found, err := s.part(ctx, part[0], part[1])
		if err != nil {
			return err
		}
		clean = clean && !found
	}
	return nil
}

// part sends a part of what was rejected, and looks on in it if it is rejected too.
func (s *sending) part(ctx context.Context, from, to int) (found bool, err error) {
	v, err := s.t.post(ctx, s.muts[from:to])
	if err != nil {
		return false, err
	}
	switch v.outcome {
	case unsettled:
		return false, v.err
	case rejected:
		return true, s.search(ctx, from, to, v)
	case tooLarge:
		return true, s.search(ctx, from, to, verdict{outcome: rejected, err: v.err})
	}
	return false, nil
}

func (s *sending) reject(at int, reason error) {
	s.bad = append(s.bad, logical.Rejection{Index: at, Reason: reason})
}

// rejection returns the error that lists the rejected lines, or nil if there are none.
func (s *sending) rejection() error {
	if len(s.bad) == 0 {
		return nil
	}
	return &logical.Error{
		Err:   s.t.rejectedError(s.bad[0].Reason),
		Class: logical.ClassReject, Rejected: s.bad,
	}
}

// within returns the lines that the remote has named, ascending and each once, if they are ones of the n
// that it was sent.
func (v verdict) within(n int) []lineError {
	last := -1
	for _, l := range v.lines {
		if l.line <= last || l.line >= n {
			return nil
		}
		last = l.line
	}
	return v.lines
}

// portion returns how many of the lines make the next request: at least one.
func (t *Target) portion(muts []logical.Mutation) int {
	most := t.sizer.bytes()
	size := 0
	for n := range muts {
		if size += len(muts[n].Raw) + 1; size > most && n > 0 {
			return n
		}
	}
	return len(muts)
}
