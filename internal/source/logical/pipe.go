package logical

import (
	"context"
	"sync"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/logical"
)

// pipe carries messages from ReadInto to Process. It is bounded by the bytes that the messages hold
// on to, the one that is being processed included; a message larger than the bound passes alone.
// One goroutine sends and one receives.
type pipe struct {
	budget *budget.Budget

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced whenever the state changes
	queue    []logical.Message
	current  int64 // bytes of the message that was received last
	handed   bool  // Process has a message and has not come back for more
	ended    bool
	rollback rollbackState
}

// messageBytes is what a message takes beside its body, so that empty ones count too.
const messageBytes = int64(unsafe.Sizeof(logical.Message{})) * 2 // a queue that grows has twice the room

// cost is what a message takes of the budget.
func cost(msg *logical.Message) int64 { return int64(msg.Size) + messageBytes }

var errPipeEnded = errors.New("logical: a message was sent after its ReadInto had returned")

type rollbackState uint8

const (
	rollbackNone      rollbackState = iota
	rollbackRequested               // Process has not seen it yet
	rollbackHanded                  // Process has it and has not come back for more
)

func newPipe(b *budget.Budget) *pipe {
	return &pipe{budget: b, changed: make(chan struct{})}
}

// Send implements logical.Outbox.
func (p *pipe) Send(ctx context.Context, msg logical.Message) error {
	if err := p.budget.Acquire(ctx, cost(&msg)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		p.budget.Release(cost(&msg))
		return errPipeEnded
	}
	p.queue = append(p.queue, msg)
	p.broadcast()
	return nil
}

// close gives back what was not processed. Nothing can be sent any more.
func (p *pipe) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for i := range p.queue {
		p.current += cost(&p.queue[i])
	}
	p.budget.Release(p.current)
	p.queue, p.current = nil, 0
}

// Receive implements logical.Inbox.
func (p *pipe) Receive(ctx context.Context) (logical.Message, error) {
	p.release()
	var msg logical.Message
	err := p.wait(ctx, func() bool {
		if len(p.queue) == 0 {
			if p.rollback != rollbackRequested {
				return false
			}
			p.rollback = rollbackHanded
			msg = logical.Message{Rollback: true}
			return true
		}
		msg = p.queue[0]
		p.queue[0] = logical.Message{}
		if p.queue = p.queue[1:]; len(p.queue) == 0 {
			p.queue = nil
		}
		p.current, p.handed = cost(&msg), true
		return true
	})
	return msg, err
}

// Rollback has Process roll back after what was sent, and returns when it has: the consistent point is
// then where reading goes on. What was sent is not dropped, so that a source which fails often makes
// progress all the same.
func (p *pipe) Rollback(ctx context.Context) error {
	p.mu.Lock()
	p.rollback = rollbackRequested
	p.broadcast()
	p.mu.Unlock()
	return p.wait(ctx, func() bool { return p.rollback == rollbackNone })
}

// Flush returns when Process has dealt with everything that was sent, and has come back for more.
func (p *pipe) Flush(ctx context.Context) error {
	return p.wait(ctx, func() bool { return len(p.queue) == 0 && !p.handed })
}

// release gives back the message that was received last.
func (p *pipe) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget.Release(p.current)
	p.current, p.handed = 0, false
	if p.rollback == rollbackHanded {
		p.rollback = rollbackNone
	}
	p.broadcast()
}

// wait calls try under the lock until it reports success.
func (p *pipe) wait(ctx context.Context, try func() bool) error {
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		p.mu.Lock()
		if try() {
			p.broadcast()
			p.mu.Unlock()
			return nil
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// broadcast wakes all waiters; the lock is held.
func (p *pipe) broadcast() {
	close(p.changed)
	p.changed = make(chan struct{})
}
