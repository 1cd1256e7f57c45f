package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/logical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("down")

func leaveAlone(d time.Duration) error { return &logical.Error{Err: errDown, RetryAfter: d} }

// fixed is a source of randomness that always returns f.
func fixed(f float64) func() float64 { return func() float64 { return f } }

func TestDelaysGrowToTheCap(t *testing.T) {
	t.Parallel()
	r := New(Config{Base: time.Second, Max: 10 * time.Second, Rand: fixed(0.5)})
	want := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}
	for i, w := range want {
		if d := r.Next(errDown); d != w {
			t.Errorf("failure %d: %s, want %s", i+1, d, w)
		}
	}
	for range 1000 {
		r.Next(errDown)
	}
	if d := r.Next(errDown); d != 5*time.Second {
		t.Errorf("after a thousand failures: %s", d)
	}
	r.Reset()
	if d := r.Next(errDown); d != want[0] {
		t.Errorf("after a success: %s, want %s", d, want[0])
	}
}

func TestDelaysAreNotInLockstep(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	quarter := [4]int{}
	for range 4000 {
		r := New(Config{Base: 4 * time.Second, Rand: rng.Float64})
		quarter[r.Next(errDown)/time.Second]++
	}
	for i, n := range quarter {
		if n < 800 || n > 1200 {
			t.Errorf("%d of 4000 delays lie in second %d", n, i)
		}
	}
}

func TestRetryAfterIsHonouredBeyondTheCap(t *testing.T) {
	t.Parallel()
	r := New(Config{Base: time.Second, Max: 2 * time.Second, Rand: fixed(0.5)})
	if d, want := r.Next(leaveAlone(time.Hour)), time.Hour+500*time.Millisecond; d != want {
		t.Errorf("%s, want %s", d, want)
	}
}

// waited returns how long Wait takes, and its error.
func waited(ctx context.Context, r *Retry, err error) (time.Duration, error) {
	start := time.Now()
	werr := r.Wait(ctx, err)
	return time.Since(start), werr
}

func TestKickEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{Base: time.Minute, Rand: fixed(0.5)})
		time.AfterFunc(time.Second, r.Kick)
		if d, err := waited(t.Context(), r, errDown); d != time.Second || err != nil {
			t.Errorf("waited %s, %v", d, err)
		}
		// Nobody kicks: the whole second delay.
		if d, err := waited(t.Context(), r, errDown); d != time.Minute/2 || err != nil {
			t.Errorf("waited %s, %v", d, err)
		}
	})
}

func TestKickBetweenTwoWaitsIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{Base: time.Second, Rand: fixed(0.5)})
		r.Kick()
		r.Kick()
		if d, _ := waited(t.Context(), r, errDown); d != 0 {
			t.Errorf("waited %s", d)
		}
		if d, _ := waited(t.Context(), r, errDown); d != time.Second {
			t.Errorf("two kicks ended two waits: %s", d)
		}
		r.Kick()
		r.Reset()
		if d, _ := waited(t.Context(), r, errDown); d != time.Second/2 {
			t.Errorf("a kick outlived a success: %s", d)
		}
	})
}

func TestKickNeverCutsRetryAfterShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{Base: 10 * time.Second, Rand: fixed(0.5)})
		time.AfterFunc(time.Second, r.Kick)
		if d, err := waited(t.Context(), r, leaveAlone(time.Minute)); d != time.Minute || err != nil {
			t.Errorf("waited %s, %v", d, err)
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := New(Config{Base: time.Hour, Rand: fixed(0.5)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, err := range []error{errDown, leaveAlone(time.Hour)} {
			if d, werr := waited(ctx, r, err); d > time.Second || !errors.Is(werr, context.DeadlineExceeded) {
				t.Errorf("waited %s, %v", d, werr)
			}
		}
	})
}
