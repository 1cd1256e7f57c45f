package logical

import (
	"context"
	"sync"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

// An attendant looks after a run: it ends it when a lease is lost, steers the mode while the source is
// silent, and tells the source of progress. It lives in the goroutine of the run. What may take long it
// has done by goroutines that end, so that a loop which is idle has none of them, and no timer that ticks.
type attendant struct {
	loop   *Loop
	events *switcher
	jobs   sync.WaitGroup

	acked   chan bool     // tells of the end of an acknowledgement; nil while there is none
	telling logical.Stamp // what the source is told by it
	told    logical.Stamp // what the source was told last
	tries   *tries        // to tell it
	steered chan error    // tells of the end of a steering; nil while there is none
	since   time.Time     // when the last steering ended
}

// attend returns when ctx is done, or with an error of the steering. The leases are watched by whoever
// called it.
func (a *attendant) attend(ctx context.Context, held *holding) error {
	defer a.jobs.Wait()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	a.since = time.Now()
	for {
		changed := a.loop.Changed()
		a.acknowledge(ctx)
		if a.acked != nil || a.told == nil {
			changed = nil // there is time to look when that has ended; or there is nobody to be told
		}
		var tick <-chan time.Time
		if pace := a.events.pace(); pace > 0 && a.steered == nil {
			timer.Reset(time.Until(a.since.Add(pace)))
			tick = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-held.session.Lost():
			held.lose(errLeaseLost)
			return nil
		case <-held.sourceLost():
			held.lose(errSourceLeaseLost)
			return nil
		case <-changed:
		case <-a.events.stirred:
		case <-tick:
			a.steer(ctx)
		case ok := <-a.acked:
			if a.acked = nil; ok {
				a.told, a.tries = a.telling, nil
			}
		case err := <-a.steered:
			if a.steered, a.since = nil, time.Now(); err != nil {
				return err
			}
		}
	}
}

// steer reconsiders the mode.
func (a *attendant) steer(ctx context.Context) {
	steered := make(chan error, 1)
	a.steered = steered
	a.jobs.Go(func() {
		err := a.events.steerBetween(ctx)
		if ctx.Err() != nil {
			err = nil
		}
		steered <- err
	})
}

// acknowledge tells the source of the consistent point if that has advanced, at most every tenth of
// StandbyTimeout. If that fails it is told again, after a delay that grows.
func (a *attendant) acknowledge(ctx context.Context) {
	source, ok := as[logical.Acknowledger](a.loop.dialect)
	if !ok || a.acked != nil {
		return
	}
	point := a.loop.point()
	if a.told != nil && point.Compare(a.told) <= 0 {
		return
	}
	if a.tries == nil {
		a.tries = a.loop.newTries()
	}
	acked, tries := make(chan bool, 1), a.tries
	a.acked, a.telling = acked, point
	a.jobs.Go(func() {
		err := source.Acknowledge(ctx, point)
		switch {
		case err == nil:
			a.loop.sourceDid(telling)
		case ctx.Err() == nil:
			a.loop.sourceFailed(telling, err)
			_ = tries.wait(ctx, err) // or the run has ended
		}
		pause := time.NewTimer(a.loop.config.StandbyTimeout / 10)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		acked <- err == nil
	})
}

// acknowledgeNow tells the source of the consistent point when the loop ends.
func (l *Loop) acknowledgeNow(ctx context.Context) {
	source, ok := as[logical.Acknowledger](l.dialect)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := source.Acknowledge(ctx, l.point()); err != nil {
		l.log.Warn("the source could not be told of the last progress; it sends that again", "error", err.Error())
	}
}
