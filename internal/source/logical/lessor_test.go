package logical

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// leased is a tape that only one loop at a time may read.
type leased struct {
	*tape
	office *office
}

// office gives the lease away, and takes it away.
type office struct {
	mu      sync.Mutex
	changed chan struct{}
	holder  *lease
	asked   string
	most    int // loops that read at the same time
	reading int
}

type lease struct {
	office *office
	lost   chan struct{}
}

func (d leased) Acquire(ctx context.Context, loop string) (logical.Lease, error) {
	o := d.office
	for {
		o.mu.Lock()
		o.asked = loop
		if o.holder == nil {
			o.holder = &lease{o, make(chan struct{})}
			defer o.mu.Unlock()
			return o.holder, nil
		}
		if o.changed == nil {
			o.changed = make(chan struct{})
		}
		changed := o.changed
		o.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (l *lease) Lost() <-chan struct{} { return l.lost }

func (l *lease) Release(context.Context) error {
	l.office.mu.Lock()
	defer l.office.mu.Unlock()
	if l.office.holder == l {
		l.office.holder = nil
		l.office.tell()
	}
	return nil
}

func (o *office) tell() {
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
}

// revoke takes the lease away from whoever holds it.
func (o *office) revoke() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.holder.lost)
	o.holder = nil
}

// count changes how many loops read.
func (o *office) count(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reading += n
	o.most = max(o.most, o.reading)
}

func (d leased) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	d.office.count(1)
	defer d.office.count(-1)
	return d.tape.ReadInto(ctx, from, out)
}

// TestFencedByTheLeaseOfTheSource has two processes run one loop: one of them waits, and takes over when
// the other one ends, or has lost the lease.
func TestFencedByTheLeaseOfTheSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target, o := memory.Open(memory.Config{}), &office{}
		begun := time.Now()
		when := func(n int) time.Time { return begun.Add(time.Duration(n) * time.Second) }
		var loops [2]*Loop
		for i := range loops {
			factory := quietFactory(t, FactoryConfig{Target: target})
			var err error
			source := leased{&tape{txs: make([][]logical.Mutation, 60), when: when}, o}
			if loops[i], err = factory.Get(t.Context(), Spec{Name: "loop", Identity: "identity", Dialect: &source}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if o.asked != "identity" || loops[0].Status().State != StateRunning || loops[1].Status().State != StateStarting {
			t.Errorf("asked for %q, the loops are %s and %s", o.asked, loops[0].Status().State, loops[1].Status().State)
		}
		time.Sleep(10 * time.Second)
		o.revoke()
		synctest.Wait() // whoever has lost the lease stops before another one can have it
		o.mu.Lock()
		o.tell()
		o.mu.Unlock()
		synctest.Wait()
		time.Sleep(10 * time.Second)
		for _, l := range loops {
			l.Stop(t.Context())
			time.Sleep(time.Second)
		}
		point := max(loops[0].Status().Point.(at).N, loops[1].Status().Point.(at).N)
		if o.most != 1 || point < 20 || o.holder != nil {
			t.Errorf("%d loops read at the same time, the newest is at %d; the lease is held: %v", o.most, point, o.holder != nil)
		}
	})
}
