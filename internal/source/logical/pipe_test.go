package logical

import (
	"context"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/logical"
)

func TestBoundedPipeHoldsItsBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipe(budget.New(100 + 2*messageBytes))
		sent := 0
		go func() {
			for i := range 10 {
				if err := p.Send(t.Context(), logical.Message{Body: i, Size: 40}); err != nil {
					t.Error(err)
				}
				sent++
			}
		}()
		synctest.Wait()
		if sent != 2 {
			t.Errorf("%d messages of 40 bytes passed into a pipe of 100, want 2", sent)
		}
		for i := range 10 {
			msg, err := p.Receive(t.Context())
			if err != nil || msg.Body != i {
				t.Fatalf("message %d: got %v, %v", i, msg.Body, err)
			}
			synctest.Wait()
			if held := sent - i; held > 2 {
				t.Errorf("%d messages of 40 bytes are held by a pipe of 100", held)
			}
		}
	})
}

// TestBoundedPipeCountsItsMessages shows that messages which hold on to nothing are bounded too.
func TestBoundedPipeCountsItsMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		b := budget.New(size)
		p := newPipe(b)
		ctx, cancel := context.WithCancel(t.Context())
		sent := 0
		go func() {
			for sent < size && p.Send(ctx, logical.Message{Body: sent}) == nil {
				sent++
			}
		}()
		synctest.Wait()
		if held := cap(p.queue) * int(unsafe.Sizeof(logical.Message{})); sent == 0 || held > size {
			t.Errorf("BOUNDED: %d messages that wait take %d bytes of %d", sent, held, size)
		}
		cancel()
		synctest.Wait()
		p.close()
		if b.Used() != 0 {
			t.Errorf("%d bytes are held by a pipe that is closed", b.Used())
		}
	})
}

func TestMessageLargerThanThePipePassesAlone(t *testing.T) {
	t.Parallel()
	p := newPipe(budget.New(10))
	if err := p.Send(t.Context(), logical.Message{Size: 1000}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Send(ctx, logical.Message{Size: 1}); err == nil {
		t.Error("a message passed beside one that is larger than the pipe")
	}
}

func TestRollbackComesAfterWhatWasSentAndWaitsForProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipe(budget.New(100 + 2*messageBytes))
		for i := range 2 {
			if err := p.Send(t.Context(), logical.Message{Body: i, Size: 10}); err != nil {
				t.Fatal(err)
			}
		}
		rolledBack := false
		go func() {
			if err := p.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
			rolledBack = true
		}()
		synctest.Wait()
		for i := range 2 {
			if msg, err := p.Receive(t.Context()); err != nil || msg.Body != i {
				t.Fatalf("got %v, %v, want message %d", msg, err, i)
			}
		}
		if msg, err := p.Receive(t.Context()); err != nil || !msg.Rollback {
			t.Fatalf("got %v, %v, want the rollback", msg, err)
		}
		synctest.Wait()
		if rolledBack {
			t.Error("Rollback returned before Process had dealt with it")
		}
		go func() { _ = p.Send(t.Context(), logical.Message{Body: 7, Size: 10}) }()
		if msg, err := p.Receive(t.Context()); err != nil || msg.Body != 7 {
			t.Fatalf("got %v, %v", msg, err)
		}
		synctest.Wait()
		if !rolledBack {
			t.Error("Rollback did not return")
		}
	})
}
