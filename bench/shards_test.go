package bench

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	loops "github.com/tailrace-cdc/tailrace/internal/source/logical"
	"github.com/tailrace-cdc/tailrace/logical"
)

// BenchmarkShardsIntoPostgres shows what each further shard of the fan brings.
func BenchmarkShardsIntoPostgres(b *testing.B) {
	list := points(100_000)
	for _, shards := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				b.StopTimer()
				txs := mutations(list, 1000)
				target, _ := server(b)
				b.StartTimer()
				took += run(b, target, txs, logical.Config{Immediate: true, FanShards: shards, StandbyTimeout: 250 * time.Millisecond})
			}
			b.ReportMetric(float64(b.N*len(list))/took.Seconds(), "rows/s")
		})
	}
}

// BenchmarkSerialJoining compares serial mode whose transactions wait, so that several share one of the
// target, with one whose source has the next only when the one before has landed.
func BenchmarkSerialJoining(b *testing.B) {
	const n = 1000
	for _, waits := range []bool{true, false} {
		b.Run(map[bool]string{true: "joined", false: "one at a time"}[waits], func(b *testing.B) {
			var took time.Duration
			for b.Loop() {
				b.StopTimer()
				txs := mutations(points(n), 1)
				target, _ := server(b)
				b.StartTimer()
				if waits {
					took += run(b, target, txs, logical.Config{})
				} else {
					took += stepwise(b, target, txs)
				}
			}
			b.ReportMetric(float64(b.N*n)/took.Seconds(), "transactions/s")
		})
	}
}

// step is a replay that has the next transaction only when the one before has landed.
type step struct {
	replay
	loop atomic.Pointer[loops.Loop]
}

func (s *step) ReadInto(ctx context.Context, from logical.Stamp, out logical.Outbox) error {
	for n := from.(position).N; n < len(s.txs); n++ {
		if err := out.Send(ctx, logical.Message{Body: n, Size: 64}); err != nil {
			return err
		}
		for {
			loop := s.loop.Load()
			if loop == nil {
				continue
			}
			changed := loop.Changed()
			if p, ok := loop.Status().Point.(position); ok && p.N > n {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func stepwise(b *testing.B, target logical.Target, txs [][]logical.Mutation) time.Duration {
	b.Helper()
	factory, err := loops.NewFactory(loops.FactoryConfig{Holder: "bench", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer factory.Close(b.Context())
	d := &step{replay: replay{txs}}
	begun := time.Now()
	loop, err := factory.Get(b.Context(), loops.Spec{Name: b.Name(), Dialect: d, Target: target})
	if err != nil {
		b.Fatal(err)
	}
	d.loop.Store(loop)
	for {
		changed := loop.Changed()
		if p, ok := loop.Status().Point.(position); ok && p.N == len(txs) {
			return time.Since(begun)
		}
		<-changed
	}
}
