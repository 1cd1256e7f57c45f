package queuetest

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue"
)

// Memory is a log in memory, for tests of those who use one. It passes the suite,
// which shows that the interface leaves room for another log; it survives Close
// and Reopen, but not the process.
type Memory struct {
	mu       sync.Mutex
	id       queue.ID
	limits   queue.Limits
	blocks   []stored
	next     queue.Sequence
	cursor   queue.Sequence
	floor    queue.Sequence
	unsent   int64
	reserved int64
	refused  uint64
	lost     map[queue.Reason]queue.Total
	losses   []queue.Loss
	changed  chan struct{} // closed and replaced when something is new
	closed   bool
}

type stored struct {
	queue.Block
	size int64
}

var _ queue.Log = (*Memory)(nil)

// NewMemory returns an empty log.
func NewMemory(l queue.Limits) *Memory {
	m := &Memory{id: uuid.New(), next: 1, lost: make(map[queue.Reason]queue.Total), changed: make(chan struct{})}
	m.Reopen(l)
	return m
}

// Reopen opens a closed log again.
func (m *Memory) Reopen(l queue.Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.MaxBytes <= 0 {
		l.MaxBytes = queue.DefaultMaxBytes
	}
	m.limits, m.closed, m.reserved = l, false, 0
}

// ID implements queue.Log.
func (m *Memory) ID() queue.ID { return m.id }

// Reserve implements queue.Log.
func (m *Memory) Reserve(g *queue.Group) (queue.Reservation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := g.Size()
	switch {
	case m.closed:
		return queue.Reservation{}, queue.ErrClosed
	case g.Blocks() == 0:
		return queue.Reservation{}, errors.New("queuetest: a group without blocks")
	}
	for m.unsent+m.reserved+n > m.limits.MaxBytes {
		full := &queue.FullError{Queue: "memory", ID: m.id, Need: n, Unsent: m.unsent + m.reserved, Limit: m.limits.MaxBytes, Scope: "queue"}
		switch {
		case m.limits.Policy == queue.DropNewest:
			return queue.Reservation{}, &queue.LeftOutError{FullError: full}
		case m.limits.Policy == queue.Refuse || len(m.blocks) == 0:
			m.refused++
			return queue.Reservation{}, full
		}
		m.drop(queue.LostOldest, 1)
	}
	m.reserved += n
	return queue.NewReservation(n), nil
}

// Decline implements queue.Log.
func (m *Memory) Decline(g *queue.Group, keptElsewhere bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if keptElsewhere {
		m.lose(queue.Loss{Reason: queue.LostNewest, Blocks: uint64(g.Blocks()), Points: g.Points(), Bytes: g.Size(), Exact: true})
	} else {
		m.refused++
	}
}

// drop declares the oldest groups lost.
func (m *Memory) drop(reason queue.Reason, groups int) queue.Loss {
	loss := queue.Loss{Reason: reason, First: m.blocks[0].Sequence, Exact: true}
	for n := 0; n < groups && len(m.blocks) > 0; {
		b := m.blocks[0]
		m.blocks = m.blocks[1:]
		m.unsent -= b.size
		loss.Last, loss.Blocks, loss.Points, loss.Bytes = b.Sequence, loss.Blocks+1, loss.Points+int64(b.Points), loss.Bytes+b.size
		if b.Last {
			n++
		}
	}
	m.floor = loss.Last
	m.lose(loss)
	return loss
}

func (m *Memory) lose(x queue.Loss) {
	t := m.lost[x.Reason]
	m.lost[x.Reason] = queue.Total{Times: t.Times + 1, Blocks: t.Blocks + x.Blocks, Points: t.Points + x.Points, Bytes: t.Bytes + x.Bytes}
	m.losses = append(m.losses, x)
}

// Release implements queue.Log.
func (m *Memory) Release(r queue.Reservation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= r.Bytes()
}

// Append implements queue.Log.
func (m *Memory) Append(ctx context.Context, r queue.Reservation, g *queue.Group) (first, last queue.Sequence, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserved -= r.Bytes()
	if m.closed {
		return 0, 0, queue.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	now := time.Now().UnixNano()
	if n := len(m.blocks); n > 0 {
		now = max(now, m.blocks[n-1].Time)
	}
	first = m.next
	end := first + queue.Sequence(g.Blocks()) - 1
	for i := range g.Blocks() {
		b, err := g.Block(i)
		if err != nil {
			return 0, 0, err
		}
		b.Sequence, b.Group, b.Time = m.next, end, now
		m.next++
		m.blocks = append(m.blocks, stored{Block: b, size: g.Size() / int64(g.Blocks())})
		m.unsent += g.Size() / int64(g.Blocks())
	}
	close(m.changed)
	m.changed = make(chan struct{})
	return first, m.next - 1, nil
}

// Ack implements queue.Log.
func (m *Memory) Ack(seq queue.Sequence) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return queue.ErrClosed
	case seq >= m.next:
		return &queue.AckError{Queue: "memory", Sequence: seq, Last: m.next - 1}
	}
	m.cursor = max(m.cursor, seq)
	for len(m.blocks) > 0 && m.blocks[0].Sequence <= seq {
		m.unsent -= m.blocks[0].size
		m.blocks = m.blocks[1:]
	}
	return nil
}

// Cursor implements queue.Log.
func (m *Memory) Cursor() queue.Sequence {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cursor
}

// Purge implements queue.Log.
func (m *Memory) Purge() (queue.Loss, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return queue.Loss{}, queue.ErrClosed
	}
	if len(m.blocks) == 0 {
		return queue.Loss{}, nil
	}
	return m.drop(queue.LostPurge, len(m.blocks)), nil
}

// Stats implements queue.Log.
func (m *Memory) Stats() queue.Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := queue.Stats{
		ID: m.id, Name: "memory", Limit: m.limits.MaxBytes, UnsentBytes: m.unsent, ReservedBytes: m.reserved,
		Cursor: m.cursor, Floor: m.floor, LastSeq: m.next - 1, Lost: m.lost, Losses: m.losses, Refused: m.refused,
	}
	if len(m.blocks) > 0 {
		s.FirstSeq, s.OldestUnsent = m.blocks[0].Sequence, m.blocks[0].Time
	}
	return s
}

// Close implements queue.Log.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		close(m.changed)
		m.changed = make(chan struct{})
	}
	return nil
}

// NewReader implements queue.Log.
func (m *Memory) NewReader(after queue.Sequence) (queue.Reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, queue.ErrClosed
	}
	return &memoryReader{m: m, after: after}, nil
}

type memoryReader struct {
	m      *Memory
	after  queue.Sequence
	closed bool
}

func (r *memoryReader) Next(ctx context.Context) (queue.Block, error) { return r.NextInto(ctx, nil) }

func (r *memoryReader) NextInto(ctx context.Context, dst []byte) (queue.Block, error) {
	for {
		r.m.mu.Lock()
		if r.closed || r.m.closed {
			r.m.mu.Unlock()
			return queue.Block{}, queue.ErrClosed
		}
		for _, b := range r.m.blocks {
			if b.Sequence > r.after {
				r.after = b.Sequence
				b.Payload = append(dst[:0], b.Payload...)
				r.m.mu.Unlock()
				return b.Block, nil
			}
		}
		changed := r.m.changed
		r.m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return queue.Block{}, ctx.Err()
		}
	}
}

func (r *memoryReader) Close() error {
	r.closed = true
	return nil
}
