package logicaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A transaction is what a dialect said in one OnBegin … OnCommit.
type transaction struct {
	stamp  logical.Stamp
	stored []byte // the stamp as JSON
	muts   []logical.Mutation
	texts  []string // of the mutations, when they were handed over
}

func (x transaction) String() string {
	return string(x.stored) + ": " + strings.Join(x.texts, "; ")
}

type history []transaction

// A player does for a dialect what a loop does: it hands messages from ReadInto to Process, and takes note
// of the events.
type player struct {
	*reading
	ctx     context.Context
	dialect logical.Dialect
	from    logical.Stamp

	// cut ends ReadInto at the n-th message, counted from 1; 0 never does.
	cut int
	// fail is what an event returns.
	fail func(event string) error

	msgs chan logical.Message

	mu        sync.Mutex
	changed   chan struct{}
	txs       history
	open      *transaction
	sent      int // messages, and rollbacks
	asked     int // for messages, by Process
	rollbacks int
	backfill  bool // BackfillInto has returned nil
}

// play prepares a run of the dialect from a stamp.
func (r *reading) play(d logical.Dialect, from logical.Stamp) *player {
	return &player{
		reading: r, ctx: r.context(), dialect: d, from: from, msgs: make(chan logical.Message),
		changed: make(chan struct{}), fail: func(string) error { return nil },
	}
}

var errEnough = errors.New("logicaltest: enough")

// until runs the dialect until it has committed n transactions, and ends it.
func (p *player) until(n int) {
	p.Helper()
	p.run(func() bool { return len(p.txs) >= n })
}

// run runs the dialect until enough reports true, which is called under the lock.
func (p *player) run(enough func() bool) {
	p.Helper()
	ctx, cancel := context.WithCancelCause(p.ctx)
	defer cancel(nil)
	processed, read := make(chan error, 1), make(chan error, 1)
	go func() { processed <- p.dialect.Process(ctx, p, p) }()
	go func() { read <- p.read(ctx) }()
	if !p.await(ctx, enough) {
		p.Errorf("what was waited for does not come: %d transactions after %v were committed, in a transaction: %v", len(p.txs), p.from, p.open != nil)
	}
	cancel(errEnough)
	for name, ended := range map[string]chan error{"Process": processed, "ReadInto": read} {
		select {
		case err := <-ended:
			if err == nil && name == "Process" {
				p.Errorf("Process returned nil; it returns what Receive returned")
			}
		case <-p.ctx.Done():
			p.Fatalf("%s has not returned although its context has ended", name)
		}
	}
}

// await waits until enough reports true, and tells whether it has. A test that has failed need not wait.
func (p *player) await(ctx context.Context, enough func() bool) bool {
	for {
		p.mu.Lock()
		done := enough()
		changed := p.changed
		p.mu.Unlock()
		if done || p.Failed() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// idle reports whether Process has dealt with everything that was sent, and asks for more.
func (p *player) idle() bool { return p.asked > p.sent }

// read keeps the source being read, as a loop does.
func (p *player) read(ctx context.Context) error {
	from := p.from
	for {
		reading, cancel := context.WithCancel(ctx)
		err := p.readOnce(reading, from, &sender{p, cancel})
		cancel()
		if ctx.Err() != nil {
			return err
		}
		p.mu.Lock()
		cut := p.cut > 0 && p.sent >= p.cut
		rollbacks := p.rollbacks
		p.mu.Unlock()
		if !cut {
			p.Errorf("ReadInto returned %v although its context has not ended", err)
			return err
		}
		select {
		case p.msgs <- logical.Message{Rollback: true}:
			p.note(func() { p.sent++ })
		case <-ctx.Done():
			return ctx.Err()
		}
		p.await(ctx, func() bool { return p.rollbacks > rollbacks && p.idle() || ctx.Err() != nil })
		p.mu.Lock()
		p.cut = 0
		if n := len(p.txs); n > 0 {
			from = p.txs[n-1].stamp
		}
		p.mu.Unlock()
	}
}

// readOnce is one BackfillInto, if there is such, and one ReadInto.
func (p *player) readOnce(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	if source, ok := p.dialect.(logical.Backfiller); ok {
		if err := source.BackfillInto(ctx, from, out); err != nil {
			return err
		}
		if p.await(ctx, p.idle); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.mu.Lock()
		p.backfill = true
		p.tell()
		if p.open != nil {
			p.Errorf("BackfillInto has ended within a transaction")
		}
		if n := len(p.txs); n > 0 {
			from = p.txs[n-1].stamp
		}
		p.mu.Unlock()
	}
	return p.dialect.ReadInto(ctx, from, out)
}

// sender is the outbox of one ReadInto.
type sender struct {
	*player
	cancel context.CancelFunc
}

// Send implements logical.Outbox.
func (s *sender) Send(ctx context.Context, msg logical.Message) error {
	if msg.Rollback || msg.Size < 0 {
		s.Errorf("a dialect sent a message with Rollback %v and Size %d", msg.Rollback, msg.Size)
	}
	s.mu.Lock()
	cut := s.cut > 0 && s.sent+1 >= s.cut
	s.mu.Unlock()
	select {
	case s.msgs <- msg:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.note(func() { s.sent++ })
	if cut {
		s.cancel()
	}
	return nil
}

// Receive implements logical.Inbox.
func (p *player) Receive(ctx context.Context) (logical.Message, error) {
	p.note(func() { p.asked++ })
	select {
	case msg := <-p.msgs:
		return msg, nil
	case <-ctx.Done():
		return logical.Message{}, context.Cause(ctx)
	}
}

// note changes what is noted, and wakes who waits for it.
func (p *player) note(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.tell()
}

func (p *player) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// OnBegin implements logical.Events.
func (p *player) OnBegin(_ context.Context, stamp logical.Stamp) error {
	stored, err := json.Marshal(stamp)
	if err != nil {
		p.Errorf("the stamp %v cannot be stored: %v", stamp, err)
	}
	p.note(func() {
		if p.open != nil {
			p.Errorf("OnBegin within a transaction; after a message with Rollback, OnRollback comes first")
		}
		before := p.from
		if n := len(p.txs); n > 0 {
			before = p.txs[n-1].stamp
		}
		if stamp.Compare(before) <= 0 {
			p.Errorf("ORDER: the stamp %s is not after the one before, %v", stored, before)
		}
		p.open = &transaction{stamp: stamp, stored: stored}
	})
	return p.fail("begin")
}

// OnData implements logical.Events.
func (p *player) OnData(_ context.Context, muts []logical.Mutation) error {
	p.note(func() {
		if p.open == nil {
			p.Errorf("OnData outside of a transaction")
			return
		}
		for i := range muts {
			p.open.muts = append(p.open.muts, muts[i])
			p.open.texts = append(p.open.texts, tellMutation(&muts[i]))
		}
	})
	return p.fail("data")
}

// OnCommit implements logical.Events.
func (p *player) OnCommit(context.Context) error {
	if err := p.fail("commit"); err != nil {
		return err
	}
	p.note(func() {
		if p.open == nil {
			p.Errorf("OnCommit outside of a transaction")
			return
		}
		p.txs = append(p.txs, *p.open)
		p.open = nil
	})
	return nil
}

// OnRollback implements logical.Events.
func (p *player) OnRollback(context.Context) error {
	p.note(func() { p.open, p.rollbacks = nil, p.rollbacks+1 })
	return p.fail("rollback")
}

// tellMutation writes a mutation down, with everything that it points to.
func tellMutation(m *logical.Mutation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %d %q", m.Op, m.Relation, m.Route, m.Raw)
	for i, v := range m.Values {
		name := "?"
		if m.Relation != nil && i < len(m.Relation.Columns) {
			name = m.Relation.Columns[i].Name
		}
		fmt.Fprintf(&b, " %s=%s:%s", name, v.Kind(), valueText(v))
	}
	for _, v := range m.OldKey {
		fmt.Fprintf(&b, " old %s:%s", v.Kind(), valueText(v))
	}
	return b.String()
}

// same compares what was read with what it has to be.
func (p *player) same(want history) {
	p.Helper()
	for i := range max(len(p.txs), len(want)) {
		got, exp := "nothing", "nothing"
		if i < len(p.txs) {
			got = p.txs[i].String()
		}
		if i < len(want) {
			exp = want[i].String()
		}
		if got != exp {
			p.Errorf("PREFIX: transaction %d after %v is\n  %s\nwant\n  %s", i+1, p.from, got, exp)
			return
		}
	}
}
