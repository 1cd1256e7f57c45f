package logical

import (
	"context"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// lettersPage is how many dead letters are read at once.
const lettersPage = 1000

// letterBytes returns the size of the dead letters that are kept.
func (l *Loop) letterBytes() int64 {
	_, bytes := l.open.kept()
	return bytes
}

// loadLetters learns which dead letters the target keeps, when the loop is taken over. Where there are
// none, that is one question.
func (l *Loop) loadLetters(ctx context.Context, w *writer) error {
	store, ok := as[logical.DeadLetters](l.target)
	if !ok {
		return nil
	}
	var n, bytes int64
	err := w.timed(ctx, func(ctx context.Context) (err error) {
		n, bytes, err = store.CountDeadLetters(ctx, l.identity)
		return err
	})
	if err != nil {
		return err
	}
	l.open.reset(n, bytes)
	if n == 0 || l.config.OnReject != logical.RejectDeadLetter {
		return nil
	}
	return l.eachLetter(ctx, w, func(letter *logical.DeadLetter) error {
		if l.ofPoint(letter) {
			return nil
		}
		stamp, err := l.dialect.DecodeStamp(letter.Stamp)
		if err != nil {
			return errors.WithMessagef(err, "dead letter %d", letter.ID)
		}
		l.open.load(letter, stamp)
		return nil
	})
}

// ofPoint reports whether a letter is that of a point, as far as the dialect knows. Others are taken for
// rows, whose later mutations wait for them.
func (l *Loop) ofPoint(letter *logical.DeadLetter) bool {
	replayer, ok := as[logical.Replayer](l.dialect)
	if !ok {
		return false
	}
	m, err := replayer.Replay(*letter)
	return err == nil && m.Relation.Points
}

// eachLetter calls f with all letters of the loop, by ID.
func (l *Loop) eachLetter(ctx context.Context, w *writer, f func(*logical.DeadLetter) error) error {
	store, ok := as[logical.DeadLetters](l.target)
	if !ok {
		return errors.Errorf("loop %s: its target keeps no dead letters", l.name)
	}
	for after := int64(0); ; {
		var page []logical.DeadLetter
		err := w.timed(ctx, func(ctx context.Context) (err error) {
			page, err = store.ListDeadLetters(ctx, l.identity, after, lettersPage)
			return err
		})
		if err != nil {
			return err
		}
		for i := range page {
			if err := f(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < lettersPage {
			return nil
		}
		after = page[len(page)-1].ID
	}
}

// Discard removes dead letters, by their IDs, and forgets the mutations in them: they are lost, and logged
// as such. Later mutations of their rows are applied again. Letters that are not there are passed
// over. It can be called while the loop waits for its target.
func (l *Loop) Discard(ctx context.Context, ids []int64) error {
	w := &writer{ctx: ctx, loop: l, config: l.config}
	chosen := map[int64]bool{}
	for _, id := range ids {
		chosen[id] = true
	}
	var gone []logical.DeadLetter
	err := l.eachLetter(ctx, w, func(letter *logical.DeadLetter) error {
		if chosen[letter.ID] {
			gone = append(gone, *letter)
		}
		return nil
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	store, _ := as[logical.DeadLetters](l.target) // eachLetter has seen to it
	err = w.timed(ctx, func(ctx context.Context) error { return store.DiscardDeadLetters(ctx, l.identity, ids) })
	if err != nil {
		return err
	}
	for i := range gone {
		l.open.removed(&gone[i])
	}
	l.log.Warn("dead letters were discarded", "count", len(gone), "first", gone[0].ID, "table", gone[0].Table)
	l.reconsidered()
	return nil
}

// reconsidered says that an operator has looked at the dead letters: a stream that has stopped for them
// tries again.
func (l *Loop) reconsidered() {
	l.rejectRun.Store(0)
	l.Kick()
}
