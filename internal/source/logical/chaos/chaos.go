package chaos

import (
	"context"
	"hash/fnv"
	"io"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Config says how much goes wrong.
type Config struct {
	// Prob is the share of calls that are struck, from 0 to 1.
	Prob float64
	// Seed chooses which. Two runs with one seed are struck alike.
	Seed uint64
	// Stall bounds how long a call stalls, and how late a commit can come. Default 1 s.
	Stall time.Duration
}

// Chaos strikes calls. A nil Chaos strikes none, and wraps nothing.
type Chaos struct {
	cfg Config

	mu     sync.Mutex
	counts map[place]uint64
}

// place is where calls are counted.
type place struct{ loop, site string }

// New returns a Chaos, or nil if nothing is to go wrong.
func New(cfg Config) *Chaos {
	if cfg.Prob <= 0 {
		return nil
	}
	if cfg.Stall <= 0 {
		cfg.Stall = time.Second
	}
	return &Chaos{cfg: cfg, counts: map[place]uint64{}}
}

// way is what happens to a call that is struck.
type way uint8

const (
	none   way = iota
	stall      // it takes long
	before     // it fails, and has no effect
	after      // it takes effect, and fails
	late       // it fails, and takes effect later
)

// A strike is what happens to one call. The zero strike is nothing.
type strike struct {
	way  way
	site string
	d    time.Duration // of a stall, or of a delay
	h    uint64        // for what else there is to choose
}

// strike decides about a call at a site, and carries out a stall.
func (c *Chaos) strike(ctx context.Context, loop, site string) (strike, error) {
	c.mu.Lock()
	c.counts[place{loop, site}]++
	n := c.counts[place{loop, site}]
	c.mu.Unlock()
	h := decide(c.cfg.Seed, loop, site, n)
	if float64(h>>11)/(1<<53) >= c.cfg.Prob {
		return strike{}, nil
	}
	s := strike{site: site, h: mix(h)}
	s.d = 1 + time.Duration(mix(s.h)%uint64(c.cfg.Stall))
	switch s.h % 8 {
	case 0:
		s.way = stall
		return s, sleep(ctx, s.d)
	case 1, 2, 3, 4:
		s.way = before
	default:
		s.way = after
	}
	return s, nil
}

// choose returns a number below n, the same for the same strike.
func (s strike) choose(n uint64) uint64 { return s.h >> 8 % n }

// around calls f, with what the strike does to a call.
func (s strike) around(f func() error) error {
	if s.way == before {
		return s.err(logical.ClassRetry)
	}
	if err := f(); err != nil || s.way != after {
		return err
	}
	return s.err(logical.ClassRetry)
}

func (s strike) err(class logical.Class) error {
	when := "before"
	if s.way == after {
		when = "after"
	}
	return &logical.Error{Err: errors.Errorf("chaos: %s %s", when, s.site), Class: class}
}

// call strikes a call that may fail in any way.
func (c *Chaos) call(ctx context.Context, loop, site string, f func() error) error {
	s, err := c.strike(ctx, loop, site)
	if err != nil {
		return err
	}
	return s.around(f)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// decide hashes what a decision depends on.
func decide(seed uint64, loop, site string, n uint64) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, loop)
	_, _ = h.Write([]byte{0})
	_, _ = io.WriteString(h, site)
	return mix(mix(mix(seed)^h.Sum64()) + n)
}

// mix spreads each bit of x over the whole result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
