package memory

import (
	"context"
	"hash/fnv"
	"io"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A Site is a call at which faults can be injected.
type Site string

// The sites.
const (
	SiteTake     Site = "take"
	SitePrepare  Site = "prepare"
	SiteBegin    Site = "begin"
	SiteApply    Site = "apply"
	SiteSetMemo  Site = "set memo"
	SiteSetAside Site = "set aside"
	SiteTakeBack Site = "take back"
	SiteCommit   Site = "commit"
	SiteFence    Site = "fence"
	SiteLoadMemo Site = "load memo"
	SiteSaveMemo Site = "save memo"
)

// site is where calls are counted.
type site struct {
	loop string
	site Site
}

// A Hook decides what goes wrong at the n-th call (counted from 1) of a loop at a site. It may be
// called concurrently.
type Hook func(loop string, at Site, n uint64) Fault

// A Fault is what goes wrong. The zero Fault is nothing.
type Fault struct {
	// Stall lets the call wait before anything else happens.
	Stall time.Duration
	// Err makes the call fail.
	Err error
	// After lets the call take effect before it fails.
	After bool
	// Late lets a commit or SaveMemo that fails take effect so much later, when its caller has been
	// told. It holds no locks until then, and takes effect over whatever is there by then. A fence
	// waits for the commit; the memo that comes after a fence has no effect.
	Late time.Duration
}

// after returns the error of a fault that strikes after the call took effect.
func (f Fault) after() error {
	if f.After {
		return f.Err
	}
	return nil
}

// before asks the hook, and does what the fault wants done before the call takes effect.
func (t *Target) before(ctx context.Context, loop string, at Site) (Fault, error) {
	if err := context.Cause(ctx); err != nil {
		return Fault{}, errors.WithStack(err)
	}
	if t.cfg.Hook == nil {
		return Fault{}, nil
	}
	t.mu.Lock()
	t.counts[site{loop, at}]++
	n := t.counts[site{loop, at}]
	t.mu.Unlock()
	f := t.cfg.Hook(loop, at, n)
	if f.Stall > 0 {
		timer := time.NewTimer(f.Stall)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return f, errors.WithStack(context.Cause(ctx))
		}
	}
	if f.Err != nil && !f.After && f.Late == 0 {
		return f, f.Err
	}
	return f, nil
}

// Chaos returns a hook that lets a share prob of all calls go wrong, each in one of the ways in which
// it can. A stall takes up to the given time, and so does a commit or a
// memo that is late.
func Chaos(seed uint64, prob float64, stall time.Duration) Hook {
	return func(loop string, at Site, n uint64) Fault {
		h := decide(seed, loop, at, n)
		if float64(h>>11)/(1<<53) >= prob {
			return Fault{}
		}
		h = mix(h)
		return pick(at, h%16, 1+time.Duration(mix(h)%uint64(max(1, stall))))
	}
}

// pick chooses one of the ways in which a call can go wrong.
func pick(at Site, way uint64, d time.Duration) Fault {
	fail := func(class logical.Class) error {
		return classed(class, errors.Errorf("memory: injected %s at %s", class, at))
	}
	switch {
	case way < 2:
		return Fault{Stall: d}
	case at == SiteCommit && way < 5:
		return Fault{Err: fail(logical.ClassUnknownCommit)}
	case at == SiteCommit && way < 8:
		return Fault{Err: fail(logical.ClassUnknownCommit), After: true}
	case at == SiteCommit && way < 11:
		return Fault{Err: fail(logical.ClassUnknownCommit), Late: d}
	case at == SiteSaveMemo && way < 5:
		return Fault{Err: fail(logical.ClassUnknownCommit), Late: d}
	case (at == SiteCommit || at == SiteApply) && way < 13:
		return Fault{Err: fail(logical.ClassConflict)}
	case at != SiteCommit && way < 9:
		return Fault{Err: fail(logical.ClassRetry), After: true}
	}
	return Fault{Err: fail(logical.ClassRetry)}
}

// decide hashes what a decision depends on.
func decide(seed uint64, loop string, at Site, n uint64) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, loop)
	_, _ = h.Write([]byte{0})
	_, _ = io.WriteString(h, string(at))
	return mix(mix(mix(seed)^h.Sum64()) + n)
}

// mix spreads each bit of x over the whole result (the finaliser of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
