// Package deadletter keeps the dead letters of loops whose target has no place for them, such as a remote
// InfluxDB, in a SQLite file. Its driver needs no cgo. Targets that are databases keep their dead letters
// themselves, and need no such store.
//
//	letters, err := deadletter.Open(deadletter.Config{Path: "letters.db"})
//	target, err := influx.Open(influx.Config{URL: "https://host:8086", …, DeadLetters: letters})
//	…
//	target.Close()
//	letters.Close()
package deadletter

import (
	"context"
	"time"

	"github.com/tailrace-cdc/tailrace/internal/deadletter"
	"github.com/tailrace-cdc/tailrace/logical"
)

// Config says where the file is.
type Config struct {
	// Path is the file. It is created if it does not exist, for its owner alone; its directory is not.
	Path string
	// BusyTimeout is how long a call waits for another program that writes to the file. Default 5 s.
	BusyTimeout time.Duration
}

// A Store keeps letters in its file. Any number of loops and targets may share it; its methods may be called
// concurrently.
type Store struct{ inner *deadletter.Store }

var _ logical.DeadLetters = (*Store)(nil)

// Open returns the store. It does not touch the file: whatever is wrong with that is told by the calls that
// need it, with [logical.ClassRetry], and may heal. An error says which setting cannot work.
func Open(config Config) (*Store, error) {
	inner, err := deadletter.Open(config.inner())
	if err != nil {
		return nil, err
	}
	return &Store{inner}, nil
}

func (c Config) inner() deadletter.Config {
	return deadletter.Config{Path: c.Path, BusyTimeout: c.BusyTimeout}
}

// Exchange removes letters of a loop by their IDs, and then stores others, all or nothing, durably when it
// returns. A letter that its loop has already (see [logical.DeadLetter.Fingerprint]) is left as it is; one that
// is removed may be stored again, with another reason.
func (s *Store) Exchange(ctx context.Context, loop string, remove []int64, letters []logical.DeadLetter) error {
	return s.inner.Exchange(ctx, loop, remove, letters)
}

// ListDeadLetters implements [logical.DeadLetters].
func (s *Store) ListDeadLetters(ctx context.Context, loop string, after int64, limit int) ([]logical.DeadLetter, error) {
	return s.inner.ListDeadLetters(ctx, loop, after, limit)
}

// CountDeadLetters implements [logical.DeadLetters].
func (s *Store) CountDeadLetters(ctx context.Context, loop string) (n, bytes int64, err error) {
	return s.inner.CountDeadLetters(ctx, loop)
}

// DiscardDeadLetters implements [logical.DeadLetters].
func (s *Store) DiscardDeadLetters(ctx context.Context, loop string, ids []int64) error {
	return s.inner.DiscardDeadLetters(ctx, loop, ids)
}

// Close closes the file. Targets that use the store must have been closed.
func (s *Store) Close() error { return s.inner.Close() }
