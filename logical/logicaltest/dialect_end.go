package logicaltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// returns runs the dialect until Process returns, which has to be with the given error.
func (p *player) returns(want error, event string) {
	p.Helper()
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	processed, read := make(chan error, 1), make(chan struct{})
	go func() { processed <- p.dialect.Process(ctx, p, p) }()
	go func() {
		defer close(read)
		_ = p.read(ctx) // it is cut off, and may say anything
	}()
	select {
	case err := <-processed:
		if !errors.Is(err, want) {
			p.Errorf("the error of %s was %q, and Process returned %v", event, want, err)
		}
	case <-p.ctx.Done():
		p.Fatalf("Process does not return although %s fails", event)
	}
	cancel()
	select {
	case <-read:
	case <-p.ctx.Done():
		p.Fatalf("ReadInto has not returned although its context has ended")
	}
}

// ends: ReadInto and Process return when their context ends, wherever they are, and leave no goroutine.
func (r *reading) ends() {
	label := fmt.Sprintf("%p", r)
	pprof.Do(r.context(), pprof.Labels("logicaltest", label), func(ctx context.Context) {
		// The source has been read to its end, and more is waited for.
		d, end := r.open()
		p := r.play(d, d.ZeroStamp())
		p.run(func() bool {
			if len(p.txs) < r.source.Transactions {
				return false
			}
			p.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			p.mu.Lock()
			return true
		})
		end()

		// Nobody takes what it sends.
		d, end = r.open()
		stuck, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		from := d.ZeroStamp()
		if source, ok := d.(logical.Backfiller); ok {
			r.returnsAtOnce("BackfillInto", func() { _ = source.BackfillInto(stuck, from, nobody{}) })
		} else {
			r.returnsAtOnce("ReadInto", func() { _ = d.ReadInto(stuck, from, nobody{}) })
		}

		// Nothing comes.
		r.returnsAtOnce("Process", func() {
			if err := d.Process(stuck, nobody{}, r.play(d, from)); err == nil {
				r.Errorf("Process returned nil; it returns what Receive returned")
			}
		})
		end()
	})
	r.leavesNone(label)
}

// returnsAtOnce fails if the call does not come back.
func (r *reading) returnsAtOnce(what string, call func()) {
	r.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
	case <-time.After(r.patience()):
		r.Fatalf("%s has not returned although its context has ended", what)
	}
}

// leavesNone waits until no goroutine with the label is left: goroutines inherit those of whoever started
// them.
func (r *reading) leavesNone(label string) {
	r.Helper()
	var left string
	for limit := time.Now().Add(r.patience()); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		var profile bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
			r.Fatal(err)
		}
		left = ""
		for stack := range strings.SplitSeq(profile.String(), "\n\n") {
			if strings.Contains(stack, `"`+label+`"`) {
				left = stack
			}
		}
		if left == "" {
			return
		}
	}
	r.Errorf("a goroutine has been left behind:\n%s", left)
}

// nobody takes no message, and gives none.
type nobody struct{}

// Send implements logical.Outbox.
func (nobody) Send(ctx context.Context, _ logical.Message) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Receive implements logical.Inbox.
func (nobody) Receive(ctx context.Context) (logical.Message, error) {
	<-ctx.Done()
	return logical.Message{}, context.Cause(ctx)
}
