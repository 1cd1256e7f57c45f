package queue

import (
	"math"
	"time"
)

// This file has the limit of age. What a block's time is taken for is in clock.go.

// futureChecks is how many times within the greatest age it is looked behind blocks from the future.
const futureChecks = 16

// dropOld drops the groups that are older than the limit.
func (q *Queue) dropOld() error {
	maxAge := q.Limits().MaxAge
	if maxAge <= 0 {
		return nil
	}
	q.head.mu.Lock()
	defer q.head.mu.Unlock()
	if err := q.resolve(); err != nil {
		return err
	}
	now := q.cfg.Now()
	cutoff := now.Add(-maxAge).UnixNano()
	q.mu.Lock()
	empty := q.head.at.seq == 0
	var oldest int64
	sane := true
	if !empty {
		oldest, sane = q.headTimeLocked(now.UnixNano())
	}
	future := q.head.noticed
	q.mu.Unlock()
	if empty || oldest >= cutoff && (sane || !q.lookBehind(now.UnixNano(), maxAge)) {
		return nil
	}
	_, err := q.dropWhile(LostAge, func(g droppable) verdictOnGroup {
		t, known := enqueued(g.time, g.since, now.UnixNano())
		switch {
		case !known && future.at < cutoff && g.first <= future.upTo:
			return dropIt // it has been from the future for too long
		case !known:
			return dropWithNext
		case t < cutoff:
			return dropIt
		}
		return keepIt
	})
	return err
}

// lookBehind reports whether it is time to look for old blocks behind those that are from the future. Called
// with head.mu held.
func (q *Queue) lookBehind(now int64, maxAge time.Duration) bool {
	if since := now - q.head.looked; q.head.looked != 0 && since >= 0 && since < int64(maxAge/futureChecks) {
		return false
	}
	q.head.looked = now
	return true
}

// untilTooOld returns how long until the oldest unsent block is too old, or a very
// long time.
func (q *Queue) untilTooOld() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.limits.MaxAge <= 0 || q.head.at.seq == 0 {
		return math.MaxInt64
	}
	now := q.cfg.Now()
	oldest, sane := q.headTimeLocked(now.UnixNano())
	due := max(time.Unix(0, oldest).Add(q.limits.MaxAge).Sub(now), 0)
	if !sane {
		due = min(due, q.limits.MaxAge/futureChecks)
	}
	return min(due, clockCheck)
}
