package fan

import (
	"context"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

const (
	// hastyConflicts is how often a batch that lost against another transaction is tried again
	// without a delay.
	hastyConflicts = 3
	// rollbackTime bounds a rollback, which must be tried even when everything else has ended.
	rollbackTime = 5 * time.Second
	// keptRelations bounds how many relations a workspace remembers to have prepared.
	keptRelations = 4096
)

// try applies items in one transaction, again and again for as long as that may heal. It returns nil
// when they have landed, an error of class reject or constraint if trying again does not help, and
// errStopped if the worker must end.
func (w *worker) try(items []item, merge bool) error {
	if w.fan.cfg.Memo != nil && items[0].alone {
		if w.fan.lockMemo(w.waits) != nil {
			return errStopped
		}
		defer w.fan.unlockMemo()
		if w.fan.strayed.Load() {
			if err := w.fence(); err != nil {
				return err
			}
			w.fan.strayed.Store(false)
		}
	}
	for n := 1; ; n++ {
		if w.waits.Err() != nil {
			return errStopped
		}
		start := w.fan.cfg.Now()
		err := w.attempt(items, merge)
		if err == nil {
			w.success(items, w.fan.cfg.Now().Sub(start))
			return nil
		}
		if w.ctx.Err() != nil {
			return errStopped
		}
		if err := w.failure(items, err, n); err != nil {
			return err
		}
	}
}

// success counts out what has landed.
func (w *worker) success(items []item, took time.Duration) {
	w.retry.Reset()
	if w.shard >= 0 {
		w.fan.tune.observe(len(items), took, w.fan.cfg.MaxRows)
	}
	for _, s := range w.settled {
		var letter *logical.DeadLetter
		if s.v == SetAside {
			letter = &w.letters[s.letter]
		}
		w.settle(s.r, s.v, letter)
	}
	// What is counted out no longer takes memory.
	applied := len(w.muts)
	clear(w.muts)
	w.merger.Reset()
	bytes := w.fan.landed(items)
	clear(items)
	if w.fan.cfg.OnLanded != nil {
		w.fan.cfg.OnLanded(Landed{
			Shard: w.shard, Mutations: len(items) - len(w.settled), Applied: applied, Bytes: bytes, Took: took,
		})
	}
}

// failure does what the class of the n-th failure in a row asks for before the next try. An error
// that it returns ends the tries.
func (w *worker) failure(items []item, err error, n int) error {
	class := logical.ClassOf(err)
	if w.committed && class == logical.ClassRetry {
		class = logical.ClassUnknownCommit
	}
	if w.fan.cfg.OnFailure != nil {
		w.fan.cfg.OnFailure(Failure{Shard: w.shard, Class: class, Err: err, Mutations: len(items)})
	}
	switch class {
	case logical.ClassFenced:
		w.fan.fail(err)
		return errStopped
	case logical.ClassReject:
		return err
	case logical.ClassConstraint:
		if w.shard < 0 || n >= w.fan.cfg.ConstraintTries {
			return err
		}
		return w.waitForOthers(err)
	case logical.ClassConflict:
		if n <= hastyConflicts {
			return nil
		}
	case logical.ClassUnknownCommit:
		if err := w.fence(); err != nil || n == 1 {
			return err
		}
	}
	if w.retry.Wait(w.waits, err) != nil {
		return errStopped
	}
	return nil
}

// waitForOthers waits for a while, or until no other shard is at work. It returns the error it was
// given if none was to begin with.
func (w *worker) waitForOthers(err error) error {
	ctx, cancel := context.WithTimeout(w.waits, w.retry.Next(err))
	defer cancel()
	f := w.fan
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.workers <= 1 {
		return err
	}
	for f.workers > 1 && f.wait(ctx) == nil {
	}
	if w.waits.Err() != nil {
		return errStopped
	}
	return nil
}

// fence makes sure that every transaction that was begun has ended (FENCED).
func (w *worker) fence() error {
	for {
		err := w.fan.fence(w.ctx)
		switch {
		case err == nil:
			return nil
		case w.ctx.Err() != nil:
			return errStopped
		case logical.ClassOf(err) == logical.ClassFenced:
			w.fan.fail(err)
			return errStopped
		}
		if w.fan.cfg.OnFailure != nil {
			w.fan.cfg.OnFailure(Failure{Shard: w.shard, Class: logical.ClassOf(err), Err: err})
		}
		if w.retry.Wait(w.waits, err) != nil {
			return errStopped
		}
	}
}
