package logical

import (
	"context"
	stderrors "errors"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Replay applies the mutations of dead letters, by their IDs, and removes the letters, each in one target
// transaction with its mutation: exactly once, whatever happens, and beside what the loop applies. What cannot be
// replayed stays; the error joins a [logical.ReplayError] for each of these. A letter that the target rejects again stays
// with its new reason.
//
// Letters of one row are replayed in their order, and one does not pass another that stays. Letters that are not
// there are passed over. Replay tries for as long as ctx lets it. It needs a loop that runs, and a dialect that implements
// logical.Replayer. Calls wait for each other.
func (l *Loop) Replay(ctx context.Context, ids []int64) (replayed int, err error) {
	replayer, ok := as[logical.Replayer](l.dialect)
	if !ok {
		return 0, errors.Errorf("loop %s: its dialect cannot replay dead letters", l.name)
	}
	if err := l.replaying.lock(ctx); err != nil {
		return 0, err
	}
	defer l.replaying.unlock()
	w, ctx, leave, err := l.visit(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	r := &replay{w: w, replayer: replayer, chosen: map[int64]bool{}, behind: map[string]int64{}}
	for _, id := range ids {
		r.chosen[id] = true
	}
	if err := l.eachLetter(ctx, w, r.sort); err != nil {
		return 0, err
	}
	slices.SortStableFunc(r.letters, openLetter.compare)
	defer l.reconsidered()
	for i := range r.letters {
		done, err := r.one(ctx, i)
		if err != nil {
			r.failed = append(r.failed, &logical.ReplayError{ID: r.letters[i].ID, Err: err})
		}
		if done {
			replayed++
		} else {
			r.stays(&r.letters[i])
		}
		if ctx.Err() != nil {
			return replayed, stderrors.Join(append(r.failed, context.Cause(ctx))...)
		}
	}
	l.log.Info("dead letters were replayed", "replayed", replayed, "failed", len(r.failed))
	return replayed, stderrors.Join(r.failed...)
}

// replay is one call of Loop.Replay.
type replay struct {
	w        *writer
	replayer logical.Replayer
	chosen   map[int64]bool
	letters  []openLetter // those that were chosen, and those of rows, in their order
	failed   []error
	// behind names the rows and tables in which a letter stays, and which.
	behind map[string]int64
}

type openLetter struct {
	logical.DeadLetter
	stamp logical.Stamp // nil for a point, whose order does not matter
	mut   logical.Mutation
	err   error // why there is no mutation
}

func (o openLetter) compare(other openLetter) int {
	if o.stamp == nil || other.stamp == nil {
		return 0
	}
	return place{o.stamp, o.Position}.compare(place{other.stamp, other.Position})
}

// sort keeps a letter that was chosen, or that may have to come before one.
func (r *replay) sort(letter *logical.DeadLetter) error {
	o := openLetter{DeadLetter: *letter}
	o.mut, o.err = r.replayer.Replay(*letter)
	if o.err == nil && o.mut.Relation.Points {
		if r.chosen[o.ID] {
			r.letters = append(r.letters, o)
		}
		return nil
	}
	stamp, err := r.w.loop.dialect.DecodeStamp(letter.Stamp)
	if err != nil {
		return &logical.ReplayError{ID: o.ID, Err: err}
	}
	o.stamp = stamp
	r.letters = append(r.letters, o)
	return nil
}

// Names in replay.behind.
const (
	behindRow   = "row "
	behindTable = "table "  // for all of its rows
	behindAny   = "within " // for what changes the table as a whole
)

// stays notes that a letter of a row is not replayed.
func (r *replay) stays(o *openLetter) {
	if o.stamp == nil {
		return
	}
	name := behindRow + string(o.Key)
	if o.Op.Barrier() {
		name = behindTable + o.Table
	}
	for _, name := range []string{name, behindAny + o.Table} {
		if _, ok := r.behind[name]; !ok {
			r.behind[name] = o.ID
		}
	}
}

// waitsFor returns the letter that must be replayed before this one.
func (r *replay) waitsFor(o *openLetter) (id int64, waits bool) {
	names := []string{behindRow + string(o.Key), behindTable + o.Table}
	if o.Op.Barrier() {
		names[0] = behindAny + o.Table
	}
	for _, name := range names {
		if id, waits = r.behind[name]; waits {
			break
		}
	}
	return id, waits
}

// one replays the i-th letter, if it was chosen.
func (r *replay) one(ctx context.Context, i int) (done bool, err error) {
	o := &r.letters[i]
	switch {
	case !r.chosen[o.ID]:
		return false, nil
	case o.err != nil:
		return false, o.err
	}
	if before, waits := r.waitsFor(o); waits && o.stamp != nil {
		return false, errors.Errorf("it comes after dead letter %d, which is still there", before)
	}
	err = r.w.replayOne(ctx, &o.DeadLetter, o.mut)
	switch {
	case err == nil:
		r.w.loop.open.removed(&o.DeadLetter)
	case refused(err):
		if err := r.w.renew(ctx, o.DeadLetter, err); err != nil {
			return false, err
		}
	}
	return err == nil, err
}

// renew stores a letter anew, with its new reason. Its place in the source stays, and with it its order.
func (w *writer) renew(ctx context.Context, letter logical.DeadLetter, reason error) error {
	ids := []int64{letter.ID}
	letter.Reason, letter.Time = reason.Error(), time.Now()
	return w.exactlyOnce(ctx, ids, func(ctx context.Context, tx logical.Tx) error {
		return w.timed(ctx, func(ctx context.Context) error { return tx.SetAside(ctx, []logical.DeadLetter{letter}) })
	})
}

// replayOne applies a letter's mutation.
func (w *writer) replayOne(ctx context.Context, letter *logical.DeadLetter, m logical.Mutation) error {
	err := w.timed(ctx, func(ctx context.Context) error {
		return w.session.Prepare(ctx, []*logical.Relation{m.Relation})
	})
	if err != nil {
		return err
	}
	return w.exactlyOnce(ctx, []int64{letter.ID}, func(ctx context.Context, tx logical.Tx) error {
		return w.timed(ctx, func(ctx context.Context) error { return tx.Apply(ctx, []logical.Mutation{m}) })
	})
}

// exactlyOnce takes letters back in a transaction that does something besides, and tries that for as long as
// it may heal. The letters tell whether a transaction of unknown outcome has happened: they are gone then.
func (w *writer) exactlyOnce(ctx context.Context, ids []int64, do func(context.Context, logical.Tx) error) error {
	for tries := w.loop.newTries(); ; {
		committing, err := w.takeBack(ctx, ids, do)
		class := logical.ClassOf(err)
		if err == nil || refused(err) || class == logical.ClassFenced {
			return err
		}
		if err := tries.wait(ctx, err); err != nil {
			return err
		}
		if !committing || class == logical.ClassConflict {
			continue
		}
		gone, err := w.taken(ctx, ids[0])
		if err != nil || gone {
			return err
		}
	}
}

// takeBack makes one attempt, and reports whether its commit was sent.
func (w *writer) takeBack(ctx context.Context, ids []int64, do func(context.Context, logical.Tx) error) (committing bool, err error) {
	tx, err := w.begin(ctx)
	if err != nil {
		return false, err
	}
	defer w.rollback(tx)
	if err := w.timed(ctx, func(ctx context.Context) error { return tx.TakeBack(ctx, ids) }); err != nil {
		return false, err
	}
	if err := do(ctx, tx); err != nil {
		return false, err
	}
	return true, w.timed(ctx, tx.Commit)
}

// taken finds out whether a letter is gone, and makes sure that no transaction is under way that takes it.
func (w *writer) taken(ctx context.Context, id int64) (bool, error) {
	for tries := w.loop.newTries(); ; {
		err := w.timed(ctx, w.session.Fence)
		if err == nil {
			var list []logical.DeadLetter
			store, _ := as[logical.DeadLetters](w.loop.target) // it was asked for the letters before
			err = w.timed(ctx, func(ctx context.Context) (err error) {
				list, err = store.ListDeadLetters(ctx, w.loop.identity, id-1, 1)
				return err
			})
			if err == nil {
				return len(list) == 0 || list[0].ID != id, nil
			}
		}
		if logical.ClassOf(err) == logical.ClassFenced {
			return false, err
		}
		if err := tries.wait(ctx, err); err != nil {
			return false, err
		}
	}
}

// welcome lets calls from outside use the session of a run, until the returned function is called, which
// waits for them.
func (l *Loop) welcome(w *writer) func() {
	set := func(w *writer) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running = w
	}
	var cancel context.CancelFunc
	w.visits, cancel = context.WithCancel(w.ctx)
	set(w)
	return func() {
		set(nil)
		cancel()
		w.guests.Wait()
	}
}

var errNotRunning = errors.New("the loop has no hold on its target now; try again when it runs")

// visit returns the present run's writer, and a context that ends with the run. The caller leaves when it
// is done.
func (l *Loop) visit(ctx context.Context) (w *writer, inside context.Context, leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == nil {
		return nil, nil, nil, errors.WithMessagef(errNotRunning, "loop %s", l.name)
	}
	w = l.running
	w.guests.Add(1)
	inside, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(w.visits, func() { cancel(errNotRunning) })
	return w, inside, sync.OnceFunc(func() {
		stop()
		cancel(nil)
		w.guests.Done()
	}), nil
}
