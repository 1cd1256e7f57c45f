package queue

import (
	"github.com/pkg/errors"
)

// maxSkip is the greatest sequence that can be skipped to. Behind it there is room for more blocks than
// anyone will ever append, and everything that keeps sequences as signed numbers can hold it.
const maxSkip Sequence = 1 << 62

// SkipTo makes every block that is appended from now on get a sequence greater than seq, durably before it
// returns. It is for a queue that was restored from a backup, and whose consumer has seen sequences that
// the backup does not know: they must not stand for something else. Where the queue is ahead of seq already
// it changes nothing. Numbers that are skipped are no loss. It may be called while others append.
func (q *Queue) SkipTo(seq Sequence) error {
	return q.skipTo(seq, func(Sequence) error { return nil })
}

// skipTo is SkipTo that has something done before it skips, while nobody is given a sequence: next is the one
// that would be given.
func (q *Queue) skipTo(seq Sequence, before func(next Sequence) error) error {
	if err := skippable(q.name, seq); err != nil {
		return err
	}
	w := &q.writer
	w.mu.Lock() // so that nobody is given sequences meanwhile
	defer w.mu.Unlock()
	q.mu.Lock()
	closing, next := q.closing, q.next
	q.mu.Unlock()
	if closing {
		return ErrClosed
	}
	if err := before(next); err != nil {
		return err
	}
	ahead := next > seq
	if !ahead {
		// Within a segment sequences have no gap, so what follows goes into a new one.
		if err := w.finish(); err != nil {
			return err
		}
		w.reason = gapOpened
		q.mu.Lock()
		q.next = seq + 1
		q.mu.Unlock()
	}
	// What comes next may be known to the memory alone even if it is greater.
	q.head.mu.Lock()
	defer q.head.mu.Unlock()
	q.head.stale = true
	return q.saveCursor(false)
}

func skippable(name string, seq Sequence) error {
	if seq > maxSkip {
		return errors.Errorf("queue %s: sequence %d is too great to skip to, the limit is %d", name, seq, maxSkip)
	}
	return nil
}
