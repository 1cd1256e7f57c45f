package logical

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// deaf is a tape that cannot be told of progress so many times, and cannot be read then once.
type deaf struct {
	*tape
	calls, fail int
	mute        chan struct{}
}

func (d *deaf) Acknowledge(ctx context.Context, stamp logical.Stamp) error {
	if d.calls++; d.calls > 1 && d.calls <= 1+d.fail { // the first one says where the loop began
		return errors.New("it does not listen")
	}
	return d.tape.Acknowledge(ctx, stamp)
}

func (d *deaf) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-d.mute:
			cancel(errors.New("it does not speak"))
		case <-reading.Done():
		}
	}()
	return d.tape.ReadInto(reading, from, out)
}

// TestAckedASourceIsToldAgain: an acknowledgement that failed is made again, also if nothing follows, and its error is
// shown until then, and no longer. Reading has an error of its own.
func TestAckedASourceIsToldAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		source := &deaf{tape: newReplayable(false, "1 a", "2 b").tape, fail: 12, mute: make(chan struct{})}
		source.when = func(n int) time.Time { return begun.Add(time.Duration(n*n*n) * time.Minute) } // after 1 and 8 minutes
		factory := quietFactory(t, FactoryConfig{Target: memory.Open(memory.Config{})})
		loop, err := factory.Get(t.Context(), Spec{Name: "loop", Dialect: source})
		if err != nil {
			t.Fatal(err)
		}
		until(loop, time.Hour, func(s Status) bool { return s.SourceErr != nil })
		if s := loop.Status(); s.SourceErr == nil {
			t.Fatal("nothing is said of the acknowledgement that failed")
		}
		until(loop, time.Hour, func(s Status) bool { return s.SourceErr == nil })
		if s := loop.Status(); s.SourceErr != nil || source.acked.N != 1 || s.Point.(at).N != 1 {
			t.Errorf("the source was told of %d, the loop is at %v, and the error is %v", source.acked.N, s.Point, s.SourceErr)
		}
		source.mute <- struct{}{}
		synctest.Wait()
		if s := loop.Status(); s.SourceErr == nil {
			t.Error("nothing is said of a read that failed")
		}
		until(loop, time.Hour, func(s Status) bool { return s.Point.(at).N == 2 && s.SourceErr == nil })
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := loop.Status(); s.SourceErr != nil || source.acked.N != 2 {
			t.Errorf("the source was told of %d, and the error is %v", source.acked.N, s.SourceErr)
		}
		factory.Close(t.Context())
	})
}
