package logical

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/memory"
	"github.com/tailrace-cdc/tailrace/logical"
)

// quietFactory returns a factory that logs nothing, and is closed with the test.
func quietFactory(t *testing.T, config FactoryConfig) *Factory {
	t.Helper()
	config.Holder, config.Log = "one", slog.New(slog.DiscardHandler)
	factory, err := NewFactory(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		factory.Close(ctx)
		if now, _, limit := factory.BytesInFlight(); now != 0 || limit != factory.config.BytesInFlight {
			t.Errorf("BOUNDED: after all loops have ended they hold %d bytes, and the limit is %d", now, limit)
		}
	})
	return factory
}

// parts opens dialects, and knows how many of them are open at the same time.
type parts struct {
	tape
	opened, closed, running, most atomic.Int32
}

// part is one of them.
type part struct {
	*tape
	of *parts
}

func (p *parts) open(context.Context) (logical.Dialect, error) {
	p.opened.Add(1)
	if now := p.running.Add(1); now > p.most.Load() {
		p.most.Store(now)
	}
	return &part{&tape{txs: p.txs}, p}, nil
}

// Close implements io.Closer.
func (p *part) Close() error {
	p.of.closed.Add(1)
	p.of.running.Add(-1)
	return nil
}

func TestFactoryMakesALoopOnceHoweverManyRace(t *testing.T) {
	t.Parallel()
	factory := quietFactory(t, FactoryConfig{Target: memory.Open(memory.Config{})})
	var source parts
	var all sync.WaitGroup
	loops := make([]*Loop, 64)
	for i := range loops {
		all.Go(func() {
			var err error
			loops[i], err = factory.Get(t.Context(), Spec{Name: "one", Open: source.open, Source: "the same"})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, l := range loops {
		if l != loops[0] {
			t.Fatal("two callers have got different loops")
		}
	}
	if n := source.opened.Load(); n != 1 {
		t.Errorf("the source was opened %d times", n)
	}
	factory.Close(t.Context())
	if n := source.closed.Load(); n != 1 {
		t.Errorf("the source was closed %d times", n)
	}
	if _, err := factory.Get(t.Context(), Spec{Name: "two", Open: source.open}); err == nil {
		t.Error("a factory that is closed made a loop")
	}
}

// TestFactoryUnderRaces gets, stops and removes loops of a few names from many goroutines: there is never
// more than one of a name, and in the end none.
func TestFactoryUnderRaces(t *testing.T) {
	t.Parallel()
	seeds(t, 20, 1000, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) { factoryUnderRaces(t, seed) })
	})
}

func factoryUnderRaces(t *testing.T, seed uint64) {
	factory := quietFactory(t, FactoryConfig{Target: memory.Open(memory.Config{})})
	names := []string{"a", "b", "c"}
	sources := map[string]*parts{"a": {}, "b": {}, "c": {}}
	for _, source := range sources {
		source.txs = writes(rand.New(rand.NewPCG(seed, 9)), 20)
	}
	var all sync.WaitGroup
	for worker := range uint64(8) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, worker))
			for range 30 {
				name := names[random.IntN(len(names))]
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(1000))*time.Millisecond)
				switch random.IntN(4) {
				case 0:
					factory.Remove(ctx, name)
				case 1:
					if loop, err := factory.Get(ctx, Spec{Name: name, Open: sources[name].open}); err == nil {
						loop.Stop(ctx)
					}
				default:
					loop, err := factory.Get(ctx, Spec{Name: name, Open: sources[name].open})
					if err != nil && ctx.Err() == nil {
						t.Error(err)
					}
					if err == nil && loop.Name() != name {
						t.Errorf("asked for %s, got %s", name, loop.Name())
					}
				}
				cancel()
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			}
		})
	}
	all.Wait()
	factory.Close(t.Context())
	for name, source := range sources {
		if most := source.most.Load(); most != 1 {
			t.Errorf("%d loops of the name %s were there at the same time", most, name)
		}
		if opened, closed := source.opened.Load(), source.closed.Load(); opened != closed {
			t.Errorf("%s was opened %d times and closed %d times", name, opened, closed)
		}
	}
}

func TestFactoryRefusesWhatContradicts(t *testing.T) {
	t.Parallel()
	factory := quietFactory(t, FactoryConfig{})
	source, target := &tape{}, memory.Open(memory.Config{})
	spec := Spec{Name: "one", Dialect: source, Target: target}
	first, err := factory.Get(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := factory.Get(t.Context(), spec); err != nil || again != first {
		t.Errorf("the same specification: got another loop, or %v", err)
	}
	with := func(change func(*Spec)) Spec {
		s := spec
		change(&s)
		return s
	}
	for what, s := range map[string]Spec{
		"another dialect":    with(func(s *Spec) { s.Dialect = &tape{} }),
		"another target":     with(func(s *Spec) { s.Target = memory.Open(memory.Config{}) }),
		"another identity":   with(func(s *Spec) { s.Identity = "x" }),
		"other settings":     with(func(s *Spec) { s.Config.FanShards = 3 }),
		"a shared identity":  with(func(s *Spec) { s.Name, s.Identity, s.Dialect = "two", "one", &tape{} }),
		"no name":            with(func(s *Spec) { s.Name = "" }),
		"no dialect":         with(func(s *Spec) { s.Name, s.Dialect = "two", nil }),
		"no target":          with(func(s *Spec) { s.Name, s.Target = "two", nil }),
		"settings that fail": with(func(s *Spec) { s.Name, s.Config.FanShards = "two", -1 }),
		"not comparable":     with(func(s *Spec) { s.Name, s.Dialect = "two", struct{ tapes }{} }),
	} {
		if _, err := factory.Get(t.Context(), s); err == nil {
			t.Errorf("%s is no error", what)
		}
	}
	first.Stop(t.Context())
	if anew, err := factory.Get(t.Context(), with(func(s *Spec) { s.Dialect = &tape{} })); err != nil || anew == first {
		t.Errorf("a loop that has ended could not be got anew: %v", err)
	}
}

// tapes is a dialect that cannot be compared.
type tapes struct {
	*tape
	_ []int
}

func TestFactoryProvidesTargetAndSettings(t *testing.T) {
	t.Parallel()
	shared, own := memory.Open(memory.Config{}), memory.Open(memory.Config{})
	factory := quietFactory(t, FactoryConfig{Target: shared, Config: logical.Config{FanShards: 3}})
	plain, err := factory.Get(t.Context(), Spec{Name: "plain", Dialect: &tape{}})
	if err != nil {
		t.Fatal(err)
	}
	special, err := factory.Get(t.Context(), Spec{Name: "special", Dialect: &tape{}, Target: own, Config: logical.Config{FanShards: 5}})
	if err != nil {
		t.Fatal(err)
	}
	if plain.target != shared || plain.config.FanShards != 3 || special.target != own || special.config.FanShards != 5 {
		t.Errorf("got %d and %d shards, targets %p and %p", plain.config.FanShards, special.config.FanShards, plain.target, special.target)
	}
}

// TestFactoryMakingIsBoundedByTheCallersContext has the first caller give up while the source is being
// opened: the second makes the loop.
func TestFactoryMakingIsBoundedByTheCallersContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		factory := quietFactory(t, FactoryConfig{Target: memory.Open(memory.Config{})})
		slow := func(ctx context.Context) (logical.Dialect, error) {
			return &tape{}, sleep(ctx, time.Minute)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := factory.Get(impatient, Spec{Name: "one", Open: slow}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the first caller got %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if _, err := factory.Get(t.Context(), Spec{Name: "one", Open: slow}); err != nil {
				t.Errorf("the second caller got %v", err)
			}
		})
		all.Wait()

		broken := errors.New("no such host")
		fails := func(ctx context.Context) (logical.Dialect, error) {
			_ = sleep(ctx, time.Second)
			return nil, broken
		}
		for range 3 {
			all.Go(func() {
				if _, err := factory.Get(t.Context(), Spec{Name: "two", Open: fails}); !errors.Is(err, broken) {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Wait()
		if _, err := factory.Get(t.Context(), Spec{Name: "two", Dialect: &tape{}}); err != nil {
			t.Errorf("after a failure the name is not free: %v", err)
		}

		all.Go(func() {
			if _, err := factory.Get(t.Context(), Spec{Name: "three", Open: slow}); !errors.Is(err, errRemoved) && !errors.Is(err, context.Canceled) {
				t.Errorf("a loop that was removed while it was made: got %v", err)
			}
		})
		synctest.Wait()
		factory.Remove(t.Context(), "three")
		all.Wait()
	})
}

// TestFactoryGetWaitsForARemoval has a loop take long to drain.
func TestFactoryGetWaitsForARemoval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stall := memory.Fault{Stall: time.Minute}
		target := memory.Open(memory.Config{Hook: func(_ string, at memory.Site, n uint64) memory.Fault {
			if at == memory.SiteCommit && n == 1 {
				return stall
			}
			return memory.Fault{}
		}})
		factory := quietFactory(t, FactoryConfig{Target: target, Config: logical.Config{ApplyTimeout: time.Hour}})
		first, err := factory.Get(t.Context(), Spec{Name: "one", Dialect: &tape{txs: writes(rand.New(rand.NewPCG(1, 1)), 5)}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		removed := make(chan struct{})
		go func() {
			factory.Remove(t.Context(), "one")
			close(removed)
		}()
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := factory.Get(impatient, Spec{Name: "one", Dialect: &tape{}}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Get did not wait for the removal: %v", err)
		}
		second, err := factory.Get(t.Context(), Spec{Name: "one", Dialect: &tape{}})
		if err != nil || second == first {
			t.Errorf("got %v, or the loop that was removed", err)
		}
		<-removed
	})
}

// TestIsolatedPartsComeAndGo adds and removes loops while others run.
func TestIsolatedPartsComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := memory.Open(memory.Config{})
		factory := quietFactory(t, FactoryConfig{Target: target})
		begun := time.Now()
		steady := &tape{txs: writes(rand.New(rand.NewPCG(1, 1)), 200)}
		steady.when = func(n int) time.Time { return begun.Add(time.Duration(n) * 100 * time.Millisecond) }
		loop, err := factory.Get(t.Context(), Spec{Name: "steady", Dialect: steady})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			name := string(rune('a' + i%5))
			if _, err := factory.Get(t.Context(), Spec{Name: name, Dialect: &tape{txs: writes(rand.New(rand.NewPCG(1, 2)), 3)}}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			factory.Remove(t.Context(), name)
		}
		time.Sleep(time.Minute)
		if at := loop.Status().Point.(at).N; at != 200 {
			t.Errorf("the loop that was left alone is at %d of 200", at)
		}
	})
}

// TestFactoryCloseIsBoundedWithDeadTargets stops loops whose targets do not answer.
func TestFactoryCloseIsBoundedWithDeadTargets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		target := memory.Open(memory.Config{Hook: deadTarget("")})
		factory := quietFactory(t, FactoryConfig{Target: target})
		for i := range 20 {
			if _, err := factory.Get(t.Context(), Spec{Name: string(rune('a' + i)), Dialect: &tape{txs: writes(rand.New(rand.NewPCG(1, 2)), 300)}}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		factory.Close(ctx)
		if took := time.Since(begun); took > 5*time.Second+releaseTimeout {
			t.Errorf("20 loops took %s to stop within 5 s", took)
		}
	})
}

// deadTarget stalls the commits of all loops but one for longer than anybody waits.
func deadTarget(alive string) memory.Hook {
	return func(loop string, at memory.Site, _ uint64) memory.Fault {
		if loop != alive && (at == memory.SiteApply || at == memory.SiteCommit) {
			return memory.Fault{Stall: 1000 * time.Hour}
		}
		return memory.Fault{}
	}
}
