package fan

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/util/retry"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A worker is what applies the items of one shard, or those that were left after a drain.
type worker struct {
	*workspace
	fan   *Fan
	shard int
	ctx   context.Context // for calls; done when what is in flight is given up
	waits context.Context // for delays; done when nothing is tried again
	retry *retry.Retry
}

// worker returns a worker for a shard, or for what is left after a drain if s is nil.
func (f *Fan) worker(ctx, waits context.Context, s *shard) *worker {
	w := &worker{workspace: f.spaces.Get().(*workspace), fan: f, shard: -1, ctx: ctx, waits: waits}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.drainRetry
	if s != nil {
		r, w.shard = &s.retry, s.number
	}
	if *r == nil {
		*r = retry.New(f.cfg.Retry)
	}
	w.retry = *r
	return w
}

// work applies what is queued for a shard until nothing is left.
func (f *Fan) work(ctx, waits context.Context, s *shard) {
	w := f.worker(ctx, waits, s)
	for f.next(s, w) {
		left, err := w.land(w.items)
		if err != nil {
			f.hold(s, left, err)
			break
		}
	}
	f.exit(w)
}

// next takes the next batch of a shard. If there is none, the shard stops running.
func (f *Fan) next(s *shard, w *worker) bool {
	if f.cfg.BeforeTake != nil {
		f.cfg.BeforeTake(w.waits, s.number)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(w.items)
	w.items = w.items[:0]
	if s.queued == 0 || f.stopping || f.err != nil {
		s.running = false
		return false
	}
	w.items = s.take(w.items, f.tune.rows(f.cfg.MaxRows), f.cfg.MaxBytes, &f.blocks)
	return true
}

// hold keeps what a shard could not apply. If it is held up by a constraint, it waits for a drain;
// otherwise the fan stops, and it will be given up.
func (f *Fan) hold(s *shard, left []item, err error) {
	if logical.ClassOf(err) != logical.ClassConstraint {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blocked = append(f.blocked, rest{s, append([]item(nil), left...)})
}

// exit ends a worker.
func (f *Fan) exit(w *worker) {
	w.release()
	f.spaces.Put(w.workspace)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.workers--
	f.resolveIfDue()
	f.broadcast()
}

// fail makes the fan fail, unless it has failed already.
func (f *Fan) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return
	}
	f.err = err
	f.cancel(err)
	f.broadcast()
	if f.cfg.OnFail != nil {
		f.cfg.OnFail(err)
	}
}

// landed counts items out: they are in the target, set aside, or discarded. It returns the bytes
// that they held.
func (f *Fan) landed(items []item) (bytes int64) {
	f.mu.Lock()
	advanced := false
	for i := 0; i < len(items); {
		n := 0
		for tx := items[i].tx; i+n < len(items) && items[i+n].tx == tx; n++ {
			bytes += items[i+n].bytes
		}
		advanced = f.progress.Done(items[i].tx, n) || advanced
		i += n
	}
	if advanced {
		f.advanced()
	}
	if items[0].alone {
		f.skip, f.unsure = f.barrier, false
	}
	f.left -= len(items)
	f.held -= bytes
	f.broadcast()
	f.mu.Unlock()
	f.cfg.Budget.Release(bytes)
	return bytes
}

// land applies items in order until all have landed. If it cannot, it returns those that have not,
// and an error: of class constraint if they need everything else to land first.
//
// It tries all at once. When the target rejects them and names the offending mutations, these are decided
// about, and the rest is tried again. Otherwise it narrows down where the offending mutation is:
// bad is the length of a prefix that is known to hold one, and cut chooses how much of it to try.
// After a rejected mutation it goes on with small batches that grow, because they often come in runs.
func (w *worker) land(items []item) ([]item, error) {
	bad, next := 0, len(items)
	for len(items) > 0 {
		if bad > 1 {
			next = cut(items[:bad])
		}
		next = min(next, len(items))
		err := w.try(items[:next], true)
		switch class := logical.ClassOf(err); {
		case err == nil:
			items = items[next:]
			if bad = max(0, bad-next); bad == 0 {
				next *= 2
			} else {
				next = bad
			}
		case class == logical.ClassReject && w.named(err, next) != nil:
			if items, err = w.rejectNamed(items, w.named(err, next)); err != nil {
				return items, err
			}
			bad, next = 0, len(items)
		case class == logical.ClassReject && next > 1:
			bad = next
		case class == logical.ClassReject:
			done, err := w.reject(items[:1], err)
			if err != nil {
				return items, err
			}
			if done {
				items = items[1:]
			}
			bad, next = 0, 1
		default:
			return items, err
		}
	}
	return nil, nil
}

// named returns the rejections that the target has named among the first n items, as long as they can be
// told: nothing is merged for a target that forwards what came.
func (w *worker) named(err error, n int) []logical.Rejection {
	if !w.fan.cfg.Raw || w.fan.cfg.Joins != nil {
		return nil
	}
	list := logical.RejectedOf(err)
	last := -1
	for _, r := range list {
		if r.Index <= last || r.Index >= n {
			return nil
		}
		last = r.Index
	}
	return list
}

// rejectNamed asks what to do about the named items, and does it. It returns those that are to be tried
// again, with all others.
func (w *worker) rejectNamed(items []item, list []logical.Rejection) ([]item, error) {
	left := make([]item, 0, len(items))
	from := 0
	for _, r := range list {
		left = append(left, items[from:r.Index]...)
		from = r.Index + 1
		one := items[r.Index:from]
		done, err := w.reject(one, &logical.Error{Err: r.Reason, Class: logical.ClassReject})
		if err != nil {
			return items, err
		}
		if !done {
			left = append(left, one...)
		}
	}
	return append(left, items[from:]...), nil
}

// cut returns where to cut items that hold one which the target rejects: at the boundary between
// two source transactions that is nearest to the middle, or in the middle if all are of one.
func cut(items []item) int {
	middle := len(items) / 2
	for d := 0; d < middle; d++ {
		for _, at := range [2]int{middle - d, middle + d} {
			if at > 0 && at < len(items) && items[at-1].tx != items[at].tx {
				return at
			}
		}
	}
	return middle
}

// reject asks what to do about a mutation that the target does not accept by itself, and does it.
// It reports whether the mutation has been settled; otherwise it is to be tried again.
func (w *worker) reject(one []item, err error) (bool, error) {
	r := w.rejected(&one[0], err)
	switch d := w.fan.cfg.OnReject(w.ctx, r); d.Verdict {
	case SetAside:
		return true, w.setAside(one, r, d.Letter)
	case Discard:
		w.settle(r, Discard, nil)
		w.fan.landed(one)
		return true, nil
	case Again:
		if w.retry.Wait(w.waits, err) != nil {
			return false, errStopped
		}
		return false, nil
	default:
		w.fan.fail(err)
		return false, errStopped
	}
}

func (w *worker) rejected(it *item, err error) Rejected {
	if errors.Is(err, errJoins) {
		err = nil
	}
	return Rejected{Stamp: w.stampOf(it), Position: it.at, Mutation: &it.mut, Err: err}
}

func (w *worker) stampOf(it *item) logical.Stamp {
	w.fan.mu.Lock()
	defer w.fan.mu.Unlock()
	return w.fan.progress.Stamp(it.tx)
}

func (w *worker) settle(r Rejected, v Verdict, letter *logical.DeadLetter) {
	if w.fan.cfg.OnSettled != nil {
		w.fan.cfg.OnSettled(r, v, letter)
	}
}
