package memory

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A lock is held by one transaction exclusively, or by any number of them together.
type lock struct {
	target    *Target
	name      string
	holders   map[*tx]struct{}
	exclusive bool
}

// lock acquires the named lock for x, and waits while other transactions hold it in a way that
// excludes that. A wait that would never end is a conflict. Callers hold mu, which is released while
// it waits.
func (x *tx) lock(ctx context.Context, name string, exclusive bool) error {
	t := x.session.target
	for {
		l := t.locks[name]
		if l == nil {
			l = &lock{target: t, name: name, holders: map[*tx]struct{}{}}
			t.locks[name] = l
		}
		if l.take(x, exclusive) {
			x.wait = nil
			return nil
		}
		x.wait = x.wait[:0]
		for holder := range l.holders {
			if holder != x {
				x.wait = append(x.wait, holder)
			}
		}
		if x.waitsFor(x, map[*tx]bool{}) {
			x.wait = nil
			return classed(logical.ClassConflict, errors.New("memory: deadlock"))
		}
		if err := t.wait(ctx); err != nil {
			x.wait = nil
			return err
		}
		if err := x.check(); err != nil {
			return err
		}
	}
}

// take acquires l for x if it can be had at once.
func (l *lock) take(x *tx, exclusive bool) bool {
	_, held := l.holders[x]
	others := len(l.holders)
	if held {
		others--
	}
	if others > 0 && (exclusive || l.exclusive) {
		return false
	}
	if !held {
		l.holders[x] = struct{}{}
		x.held = append(x.held, l)
	}
	l.exclusive = l.exclusive || exclusive
	return true
}

func (l *lock) release(x *tx) {
	delete(l.holders, x)
	if len(l.holders) == 0 && l.target.locks[l.name] == l {
		delete(l.target.locks, l.name)
	}
	l.exclusive = false
}

// waitsFor reports whether x waits, directly or through others, for goal.
func (x *tx) waitsFor(goal *tx, seen map[*tx]bool) bool {
	for _, other := range x.wait {
		if other == goal {
			return true
		}
		if !seen[other] {
			seen[other] = true
			if other.waitsFor(goal, seen) {
				return true
			}
		}
	}
	return false
}
