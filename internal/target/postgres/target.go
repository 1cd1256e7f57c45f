package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/target/lease"
	"github.com/tailrace-cdc/tailrace/internal/util/ident"
	"github.com/tailrace-cdc/tailrace/logical"
)

// A Target is a database that loops write to. Its methods may be called concurrently.
type Target struct {
	cfg     Config
	staging string // the quoted staging schema with a dot behind it
	data    *pgxpool.Pool
	control *pgxpool.Pool
	epochs  *slot // to raise an epoch
	ddl     *slot // to make and alter tables; the same one if there are few connections
	catalog *catalog
	sqls    *sqls
	works   sync.Pool   // of *work
	noTemp  atomic.Bool // the user may not make temporary tables
	staged  atomic.Bool // the staging tables are known to be there
	crdb    atomic.Bool // the server is CockroachDB

	closed  chan struct{}
	once    sync.Once
	keepers lease.Keepers
}

var (
	_ logical.Target      = (*Target)(nil)
	_ logical.DeadLetters = (*Target)(nil)
)

// Open returns the target. It does not connect: a server that is down is reported by the calls that
// need it, as an error that may heal.
func Open(_ context.Context, cfg Config) (*Target, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Target{
		cfg:     cfg,
		staging: ident.Quote(cfg.StagingSchema) + ".",
		catalog: newCatalog(),
		sqls:    newSQLs(),
		closed:  make(chan struct{}),
		epochs:  newSlot(),
	}
	t.works.New = func() any { return newWork() }
	t.ddl = t.epochs
	if cfg.controlConns() > fewControlConns {
		t.ddl = newSlot()
	}
	var err error
	if t.control, err = t.newPool(cfg.controlConns()); err != nil {
		return nil, err
	}
	if t.data, err = t.newPool(cfg.Conns - cfg.controlConns()); err != nil {
		t.control.Close()
		return nil, err
	}
	return t, nil
}

// Traits says that transactions are atomic and carry the memo, and how many gain from running at
// once.
func (t *Target) Traits() logical.Traits {
	return logical.Traits{Transactional: true, MaxParallel: t.cfg.Conns - t.cfg.controlConns()}
}

// Close waits for the transactions that are open and closes the connections. Sessions that were not
// released lose their leases, which then run out.
func (t *Target) Close() error {
	var err error
	t.once.Do(func() {
		close(t.closed)
		t.keepers.Close()
		done := make(chan struct{})
		go func() {
			t.data.Close()
			t.control.Close()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(closePatience):
			err = errors.New("postgres: the target is closed, and a transaction is still open")
		}
	})
	return err
}

// closePatience is how long Close waits for transactions, whose owners have to end them.
const closePatience = 10 * time.Second

func (t *Target) open() error {
	select {
	case <-t.closed:
		return errClosed()
	default:
		return nil
	}
}

func errClosed() error { return errors.New("postgres: the target is closed") }
