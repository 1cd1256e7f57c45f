package fan

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// resolveIfDue starts to apply what is held up by a constraint when everything else has landed and
// nothing more comes: the source is between two transactions, so that its own state fulfilled the
// constraint, or it waits for us. Callers hold mu.
func (f *Fan) resolveIfDue() {
	due := len(f.blocked) > 0 && f.workers == 0 && !f.drained && f.err == nil && !f.stopping &&
		(f.feeding || !f.progress.Open())
	if !due {
		return
	}
	// What is queued behind a batch that is held up may be what another one waits for.
	var items []item
	for _, r := range f.blocked {
		items = append(items, r.items...)
		items = r.shard.take(items, r.shard.queued, f.held, &f.blocks)
		r.shard.running = false
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.seq, b.seq) })
	f.blocked = nil
	f.drained = true
	f.workers++
	go f.resolve(f.ctx, f.waits, items)
}

// resolve applies what is left after a drain.
func (f *Fan) resolve(ctx, waits context.Context, items []item) {
	w := f.worker(ctx, waits, nil)
	var err error
	for len(items) > 0 && err == nil {
		items, err = w.round(items)
	}
	if err == nil {
		f.mu.Lock()
		f.drained = false
		for i := range f.shards {
			if s := &f.shards[i]; s.queued > 0 {
				f.run(s)
			}
		}
		f.mu.Unlock()
	}
	f.exit(w)
}

// round makes some progress with items that violate constraints, and returns those that are left.
//
// All together in source order is what the source did, and helps unless a shard that is ahead of the
// others has put something in the way. Then what one shard has, merged, may be free of what it was in
// between. One by one finds out what can be applied at all. What cannot, although nothing else can
// move either, is rejected.
func (w *worker) round(items []item) ([]item, error) {
	err := w.try(items, false)
	if err == nil || errors.Is(err, errStopped) {
		return nil, err
	}
	left, err := w.byShard(items)
	if err != nil || len(left) < len(items) {
		return left, err
	}
	left, failed, err := w.oneByOne(items)
	if err != nil || len(left) < len(items) {
		return left, err
	}
	return w.rejectAll(left, failed)
}

// byShard applies what each shard has, merged, in a transaction each.
func (w *worker) byShard(items []item) (left []item, err error) {
	groups := make([][]item, len(w.fan.shards))
	for i := range items {
		h, _ := route(&items[i].mut, nil)
		n := h % uint64(len(groups))
		groups[n] = append(groups[n], items[i])
	}
	for _, group := range groups {
		if len(group) == 0 {
			continue
		}
		switch err := w.try(group, true); {
		case err == nil:
		case errors.Is(err, errStopped):
			return nil, err
		default:
			left = append(left, group...)
		}
	}
	slices.SortFunc(left, func(a, b item) int { return cmp.Compare(a.seq, b.seq) })
	return left, nil
}

// oneByOne applies items in a transaction each. Where one of a key fails, the later ones of the key
// are not tried (ORDER). It returns those that did not land, and the errors of those that were tried
// among them, by their place in source order.
func (w *worker) oneByOne(items []item) (left []item, failed map[uint64]error, err error) {
	failed = map[uint64]error{}
	behind := map[string]bool{}
	for i := range items {
		key := orderKey(&items[i].mut)
		if behind[key] {
			left = append(left, items[i])
			continue
		}
		switch err := w.try(items[i:i+1], false); {
		case err == nil:
		case errors.Is(err, errStopped):
			return nil, nil, err
		default:
			behind[key] = true
			failed[items[i].seq] = err
			left = append(left, items[i])
		}
	}
	return left, failed, nil
}

// rejectAll lets it be decided about all that failed one by one, and returns what is left.
func (w *worker) rejectAll(items []item, failed map[uint64]error) (left []item, err error) {
	for i := range items {
		reason, ok := failed[items[i].seq]
		if ok {
			done, err := w.reject(items[i:i+1], reason)
			if err != nil {
				return nil, err
			}
			if done {
				continue
			}
		}
		left = append(left, items[i])
	}
	return left, nil
}

// orderKey names what a mutation must keep its order within.
func orderKey(m *logical.Mutation) string {
	if m.Route != 0 {
		return strconv.FormatUint(m.Route, 16)
	}
	return string(m.AppendKey(nil))
}
