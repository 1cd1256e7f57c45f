package queue

import (
	"context"

	"github.com/pkg/errors"
)

// maxGroup bounds a group, so that offsets in a segment fit into 32 bits.
const maxGroup = 1 << 30

// request is a group on its way to the disk.
type request struct {
	g           *Group
	reserved    int64
	first, last Sequence
	err         error
	taken       bool
	// turn tells the waiting appender to go on: its group is done, or, if it is
	// not, it has to commit for the others now.
	turn chan bool
}

// Reserve sets space aside for the group. See [Log].
func (q *Queue) Reserve(g *Group) (Reservation, error) {
	n := g.Size()
	if g.Blocks() == 0 {
		return Reservation{}, errors.Errorf("queue %s: a group without blocks cannot be appended", q.name)
	}
	for {
		full, err := q.tryReserve(n)
		if err != nil {
			return Reservation{}, err
		}
		if full == nil {
			return Reservation{bytes: n}, nil
		}
		switch policy := q.Limits().Policy; {
		case policy == DropOldest && !full.Never && (!full.final || full.Scope == "store"):
			reserved, err := q.makeRoomFor(n, full)
			if err != nil {
				return Reservation{}, err
			}
			if reserved {
				return Reservation{bytes: n}, nil
			}
		case policy == DropNewest:
			return Reservation{}, &LeftOutError{full}
		default:
			q.counts.refused.Add(1)
			return Reservation{}, full
		}
	}
}

// makeRoomFor drops older groups. If it is not this queue that is full but all of
// them, it has given back as much as it takes, and may reserve that.
func (q *Queue) makeRoomFor(n int64, full *FullError) (reserved bool, err error) {
	made, err := q.makeRoom(n)
	if err != nil {
		return false, err
	}
	if !made {
		return false, errors.WithStack(full)
	}
	if full.Scope == "queue" {
		return false, nil
	}
	again, err := q.admit(n)
	return again == nil, err
}

// tryReserve returns what is full, or nil if the space is reserved.
func (q *Queue) tryReserve(n int64) (*FullError, error) {
	if q.cfg.guard != nil {
		return q.cfg.guard.admit(q, n)
	}
	return q.admit(n)
}

// admit is tryReserve with this queue's own limits only.
func (q *Queue) admit(n int64) (*FullError, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		return nil, ErrClosed
	}
	unsent, limit := q.unsentLocked()+q.reserved, q.limits.MaxBytes
	if largest := min(limit, maxGroup); n > largest {
		return &FullError{Queue: q.name, ID: q.id, Need: n, Unsent: unsent, Limit: largest, Scope: "queue", Never: true}, nil
	}
	if unsent+n > limit {
		return &FullError{Queue: q.name, ID: q.id, Need: n, Unsent: unsent, Limit: limit, Scope: "queue"}, nil
	}
	q.reserved += n
	q.weighLocked()
	return nil, nil
}

// Release gives a reservation back.
func (q *Queue) Release(r Reservation) {
	q.mu.Lock()
	q.reserved -= r.bytes
	q.weighLocked()
	q.mu.Unlock()
}

// Append appends a group. See [Log].
//
// Appenders that come while another one waits for the disk are written and synced
// together when it is done. There is no goroutine for this: one of those who wait
// does the work for all.
func (q *Queue) Append(ctx context.Context, r Reservation, g *Group) (first, last Sequence, err error) {
	if g.Blocks() == 0 || r.bytes < g.Size() {
		q.Release(r)
		return 0, 0, errors.Errorf("queue %s: %d bytes are reserved for a group of %d", q.name, r.bytes, g.Size())
	}
	req, lead, err := q.enqueue(ctx, r, g)
	if err != nil {
		q.Release(r)
		return 0, 0, err
	}
	done := false
	for !done {
		if lead {
			q.commit()
		}
		if done, err = q.await(ctx, req); err != nil {
			return 0, 0, err
		}
		lead = !done
	}
	first, last, err = req.first, req.last, req.err
	q.spare.Put(req)
	return first, last, err
}

func (q *Queue) enqueue(ctx context.Context, r Reservation, g *Group) (*request, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	req, _ := q.spare.Get().(*request)
	if req == nil {
		req = &request{turn: make(chan bool, 1)}
	}
	*req = request{g: g, reserved: r.bytes, turn: req.turn}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		return nil, false, ErrClosed
	}
	q.pending = append(q.pending, req)
	lead := !q.leading
	q.leading = true
	return req, lead, nil
}

// await waits until the group is done (true) or it is our turn to commit (false).
func (q *Queue) await(ctx context.Context, req *request) (bool, error) {
	select {
	case done := <-req.turn:
		return done, nil
	case <-ctx.Done():
	}
	if !q.withdraw(req) {
		// Begun, or it is our turn: either way the answer comes without ctx.
		return <-req.turn, nil
	}
	q.Release(Reservation{bytes: req.reserved})
	return false, ctx.Err()
}

// withdraw takes a group back that nobody has begun to write. One that is first
// stays: the turn to commit may have been given to it already.
func (q *Queue) withdraw(req *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if req.taken || len(req.turn) > 0 {
		return false
	}
	for i, p := range q.pending {
		if p == req {
			q.pending = append(q.pending[:i], q.pending[i+1:]...)
			return true
		}
	}
	return false
}
