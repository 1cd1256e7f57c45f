package fan

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/util/budget"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A void is a session whose target does nothing, at once.
type void struct{ logical.Session }

func (void) Prepare(context.Context, []*logical.Relation) error { return nil }
func (void) Begin(context.Context) (logical.Tx, error)          { return voidTx{}, nil }
func (void) Fence(context.Context) error                        { return nil }

type voidTx struct{}

func (voidTx) Apply(context.Context, []logical.Mutation) error      { return nil }
func (voidTx) SetMemo(context.Context, logical.MemoState) error     { return nil }
func (voidTx) SetAside(context.Context, []logical.DeadLetter) error { return nil }
func (voidTx) TakeBack(context.Context, []int64) error              { return nil }
func (voidTx) Commit(context.Context) error                         { return nil }
func (voidTx) Rollback(context.Context) error                       { return nil }

// BenchmarkFan measures what the fan itself costs for each mutation.
func BenchmarkFan(b *testing.B) {
	for _, c := range []struct {
		name                 string
		keys, perTx, perCall int
	}{
		{"keys differ", 1 << 20, 1000, 1000},
		{"hot keys", 64, 1000, 1000},
		{"one mutation a transaction", 1 << 20, 1, 1},
		{"ten calls a transaction", 1 << 20, 100, 10},
	} {
		for _, shards := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/shards=%d", c.name, shards), func(b *testing.B) {
				benchmarkFan(b, shards, c.keys, c.perTx, c.perCall)
			})
		}
	}
}

func benchmarkFan(b *testing.B, shards, keys, perTx, perCall int) {
	const n = 1 << 16
	in := make([]logical.Mutation, n)
	for i := range in {
		in[i] = mut(logical.OpPatch, points, int64(i%keys), i, i)
	}
	f := New(Config{Session: void{}, Shards: shards, Budget: budget.New(10 << 20)})
	ctx := context.Background()
	stamps := 0
	b.ReportAllocs()
	for b.Loop() {
		for at := 0; at < n; at += perTx {
			stamps++
			must(b, f.Begin(ctx, num(stamps)))
			for end := min(n, at+perTx); at < end; {
				call := min(end, at+perCall)
				must(b, f.Data(ctx, in[at:call]))
				at = call
			}
			at -= perTx
			must(b, f.Commit())
		}
		must(b, f.Drain(ctx))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/mutation")
	b.ReportMetric(0, "ns/op")
	must(b, f.Close(ctx))
}

// BenchmarkIdle measures the memory of a fan that has been at work and is idle.
func BenchmarkIdle(b *testing.B) {
	ctx := context.Background()
	fans := make([]*Fan, 1000)
	for b.Loop() {
		clear(fans)
		before := heap()
		goroutines := runtime.NumGoroutine()
		for i := range fans {
			fans[i] = New(Config{Session: void{}, Shards: 8})
			send(b, fans[i], 1, set(1, 1), set(2, 2), set(3, 3))
			must(b, fans[i].Drain(ctx))
		}
		b.ReportMetric(float64(heap()-before)/float64(len(fans)), "bytes/fan")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(len(fans)), "goroutines/fan")
		for _, f := range fans {
			must(b, f.Close(ctx))
		}
	}
}

func heap() uint64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
