package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/lease"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A Target is one database file that loops write to. Its methods may be called concurrently.
type Target struct {
	cfg Config
	now func() time.Time

	// slot holds the one writer while nobody uses it; receiving from it is taking the right to
	// write. The writer's connection is opened by the first who needs it.
	slot   chan *writer
	closed chan struct{}
	once   sync.Once

	keepers lease.Keepers
}

var (
	_ logical.Target      = (*Target)(nil)
	_ logical.DeadLetters = (*Target)(nil)
)

// Open returns the target. It does not touch the file: whatever is wrong with that is reported by
// the calls that need it, as an error that may heal.
func Open(_ context.Context, cfg Config) (*Target, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Target{
		cfg:    cfg.withDefaults(),
		now:    time.Now,
		slot:   make(chan *writer, 1),
		closed: make(chan struct{}),
	}
	t.slot <- newWriter(t.cfg)
	return t, nil
}

// Traits says that transactions are atomic and carry the memo, and that one writes at a time.
func (t *Target) Traits() logical.Traits {
	return logical.Traits{Transactional: true, MaxParallel: 1}
}

// Close waits for the transaction that is open, if any, and closes the file. Sessions that were not
// released lose their leases, which then run out.
func (t *Target) Close() error {
	var err error
	t.once.Do(func() {
		close(t.closed)
		t.keepers.Close()
		select {
		case w := <-t.slot:
			err = w.close()
		case <-time.After(closePatience):
			err = errors.New("sqlite: the target is closed, and a transaction is still open")
		}
	})
	return err
}

// closePatience is how long Close waits for the transaction, whose owner has to end it.
const closePatience = 10 * time.Second

// acquire takes the right to write, and makes sure that the connection is there.
func (t *Target) acquire(ctx context.Context) (*writer, error) {
	select {
	case <-t.closed:
		return nil, errClosed()
	default:
	}
	select {
	case w := <-t.slot:
		if err := w.ready(ctx); err != nil {
			t.release(w)
			return nil, err
		}
		return w, nil
	case <-ctx.Done():
		return nil, errors.Wrap(ctx.Err(), "sqlite: waiting for the writer")
	case <-t.closed:
		return nil, errClosed()
	}
}

// release gives the right to write back.
func (t *Target) release(w *writer) {
	if w.broken {
		if err := w.close(); err != nil {
			t.cfg.Logger.Warn("sqlite: closing the file", "path", t.cfg.Path, "error", err)
		}
	}
	t.slot <- w
}

// write runs fn in a transaction of its own.
func (t *Target) write(ctx context.Context, fn func(w *writer) error) error {
	w, err := t.acquire(ctx)
	if err != nil {
		return err
	}
	defer t.release(w)
	return w.transaction(ctx, fn)
}

func errClosed() error { return errors.New("sqlite: the target is closed") }
