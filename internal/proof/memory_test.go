package proof

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/internal/testenv"
	"github.com/tailrace-cdc/tailrace/logical"
)

// void is a target that keeps nothing, and takes a while for it, so that its loops always have more than it takes.
type void struct{ perRow time.Duration }

type (
	voidSession struct {
		void
		lost chan struct{}
	}
	voidTx struct{ void }
)

func (v void) Traits() logical.Traits { return logical.Traits{Transactional: true} }
func (v void) Take(context.Context, logical.Claim) (logical.Session, error) {
	return voidSession{v, make(chan struct{})}, nil
}
func (void) Close() error { return nil }

func (s voidSession) Lost() <-chan struct{}                            { return s.lost }
func (voidSession) Release(context.Context) error                      { return nil }
func (voidSession) Prepare(context.Context, []*logical.Relation) error { return nil }
func (s voidSession) Begin(context.Context) (logical.Tx, error)        { return voidTx{s.void}, nil }
func (voidSession) Fence(context.Context) error                        { return nil }
func (voidSession) LoadMemo(context.Context) (logical.MemoState, error) {
	return logical.MemoState{}, nil
}
func (voidSession) SaveMemo(context.Context, logical.MemoState) error { return nil }
func (x voidTx) Apply(ctx context.Context, muts []logical.Mutation) error {
	return pause(ctx, time.Duration(len(muts))*x.perRow)
}
func (voidTx) SetMemo(context.Context, logical.MemoState) error     { return nil }
func (voidTx) SetAside(context.Context, []logical.DeadLetter) error { return nil }
func (voidTx) TakeBack(context.Context, []int64) error              { return nil }
func (voidTx) Commit(context.Context) error                         { return nil }
func (voidTx) Rollback(context.Context) error                       { return nil }

// flood is a source that makes its transactions while they are read.
type flood struct {
	source
	n, rows int // transactions, and mutations in each
}

var flooded = &logical.Relation{Name: "t", Columns: []logical.Column{
	{Name: "id", Kind: logical.KindInt64, Key: true}, {Name: "v", Kind: logical.KindText},
}}

// floodBytes is about what a mutation of a flood takes.
const floodBytes = 400

func (d *flood) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	for n := from.(at).N + 1; n <= d.n; n++ {
		if err := out.Send(ctx, logical.Message{Body: n, Size: 64}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (d *flood) Process(ctx context.Context, in logical.Inbox, events logical.Events) error {
	for {
		msg, err := in.Receive(ctx)
		if err != nil {
			return err
		}
		if msg.Rollback {
			err = events.OnRollback(ctx)
		} else {
			err = d.make(ctx, msg.Body.(int), events)
		}
		if err != nil {
			return err
		}
	}
}

func (d *flood) make(ctx context.Context, n int, events logical.Events) error {
	if err := events.OnBegin(ctx, at{n}); err != nil {
		return err
	}
	muts := make([]logical.Mutation, 0, 256)
	for i := 0; i < d.rows; {
		for muts = muts[:0]; i < d.rows && len(muts) < cap(muts); i++ {
			muts = append(muts, logical.Mutation{Op: logical.OpUpsert, Relation: flooded, Values: []logical.Value{
				logical.Int64(int64(n*d.rows + i)), logical.Text(strings.Repeat("x", floodBytes-160)),
			}})
		}
		if err := events.OnData(ctx, muts); err != nil {
			return err
		}
	}
	return events.OnCommit(ctx)
}

func (d *flood) Newest() (logical.Stamp, bool) { return at{d.n}, true }

// live returns the bytes that the last garbage collection found alive.
func live() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// TestBoundedMemory: a backlog, one large transaction, and many loops that are all being written to take what the
// settings say, and not what there is. It runs alone, because it looks at the memory of the whole process.
func TestBoundedMemory(t *testing.T) {
	const budget = 10 << 20
	for name, c := range map[string]struct {
		loops, n, rows int
		immediate      bool
	}{
		"a backlog, serial":       {1, testenv.Count(24<<20, 2<<30) / floodBytes / 100, 100, false},
		"a backlog, fan":          {1, testenv.Count(24<<20, 2<<30) / floodBytes / 100, 100, true},
		"one transaction, serial": {1, 1, testenv.Count(24<<20, 1<<30) / floodBytes, false},
		"one transaction, fan":    {1, 1, testenv.Count(24<<20, 1<<30) / floodBytes, true},
		"many loops, serial":      {testenv.Count(50, 1000), testenv.Count(12, 100), 100, false},
		"many loops, fan":         {testenv.Count(50, 1000), testenv.Count(12, 100), 100, true},
	} {
		t.Run(name, func(t *testing.T) {
			total, shared := int64(budget), int64(logical.DefaultTotalBytesInFlight)
			if c.loops > 1 {
				total = int64(max(budget, c.loops*logical.MinBytesInFlight))
				shared = total
			}
			peak, held := watch(t, c.loops, shared, time.Duration(c.loops*testenv.Count(100, 20))*time.Microsecond, logical.Config{Immediate: c.immediate, BytesInFlight: budget, FanShards: 4},
				func() logical.Dialect { return &flood{n: c.n, rows: c.rows} })
			size := int64(c.loops) * int64(c.n) * int64(c.rows) * floodBytes
			t.Logf("%d MiB passed; at most %.1f MiB were alive, of %.1f MiB that the budget allows, of which %.1f were held",
				size>>20, float64(peak)/(1<<20), float64(total)/(1<<20), float64(held)/(1<<20))
			// What the garbage collector finds while it runs, and what a loop takes by itself, comes on top.
			if most := 2*total + 8<<20 + int64(c.loops)*(96<<10); peak > most {
				t.Errorf("BOUNDED: %d bytes were alive, at most %d are allowed", peak, most)
			}
		})
	}
}

// watch runs loops to the ends of their sources, and returns the most memory that was alive meanwhile, and the most that
// they said to hold.
func watch(t *testing.T, n int, total int64, perRow time.Duration, config logical.Config, source func() logical.Dialect) (peak, held int64) {
	t.Helper()
	runtime.GC()
	before := live()
	factory, err := loops.NewFactory(loops.FactoryConfig{
		Holder: "one", Log: slog.New(slog.DiscardHandler), Target: void{perRow}, BytesInFlight: total, Config: config,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer factory.Close(context.Background())
	all := make([]*loops.Loop, n)
	ends := make([]int, n)
	for i := range all {
		d := source()
		ends[i] = d.(*flood).n
		if all[i], err = factory.Get(t.Context(), loops.Spec{Name: fmt.Sprint("loop ", i), Dialect: d}); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(2 * time.Hour)
	for i := 0; i < n; {
		if p, ok := all[i].Status().Point.(at); ok && p.N == ends[i] {
			i++
			continue
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not come to its end: %+v", all[i].Status())
		}
		time.Sleep(100 * time.Millisecond)
		runtime.GC()
		peak = max(peak, live()-before)
	}
	_, held, _ = factory.BytesInFlight()
	return peak, held
}
