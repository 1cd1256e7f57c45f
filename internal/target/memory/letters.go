package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// ListDeadLetters implements logical.DeadLetters.
func (t *Target) ListDeadLetters(_ context.Context, name string, after int64, limit int) ([]logical.DeadLetter, error) {
	if limit < 0 {
		return nil, errors.Errorf("memory: limit %d is negative", limit)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []logical.DeadLetter
	for _, l := range t.letters {
		if l.Loop == name && l.ID > after && len(found) < limit {
			found = append(found, l)
		}
	}
	return found, nil
}

// CountDeadLetters implements logical.DeadLetters.
func (t *Target) CountDeadLetters(_ context.Context, name string) (n, bytes int64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.letters {
		if l.Loop == name {
			n++
			bytes += int64(len(l.Payload) + len(l.Key) + len(l.Reason))
		}
	}
	return n, bytes, nil
}

// DiscardDeadLetters implements logical.DeadLetters.
func (t *Target) DiscardDeadLetters(_ context.Context, name string, ids []int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.discard(name, ids)
	return nil
}

// keep stores a letter of a loop unless it is there. Callers hold mu.
func (t *Target) keep(loop string, l logical.DeadLetter) {
	l.Loop = loop
	if l.Time.IsZero() {
		l.Time = t.cfg.Now()
	}
	if slices.ContainsFunc(t.letters, func(other logical.DeadLetter) bool {
		return other.Loop == loop && other.Position == l.Position && other.Table == l.Table && bytes.Equal(other.Stamp, l.Stamp) &&
			bytes.Equal(other.Key, l.Key) && bytes.Equal(other.Payload, l.Payload)
	}) {
		return
	}
	t.lastID++
	l.ID = t.lastID
	t.letters = append(t.letters, l)
}

// discard removes letters of a loop. Callers hold mu.
func (t *Target) discard(loop string, ids []int64) {
	t.letters = slices.DeleteFunc(t.letters, func(l logical.DeadLetter) bool {
		return l.Loop == loop && slices.Contains(ids, l.ID)
	})
}
