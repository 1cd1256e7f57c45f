package deadletter

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"sync"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // the driver "sqlite3"
	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// FileName is the name of the store in a data directory.
const FileName = "deadletters.db"

// Config says where a store is.
type Config struct {
	// Path is the file. It is created if it does not exist; its directory is not.
	Path string
	// BusyTimeout is how long a statement waits while another program holds the file's write lock.
	// Default 5 s.
	BusyTimeout time.Duration
}

// A Store keeps dead letters. Its methods may be called concurrently.
type Store struct {
	cfg Config

	mu     sync.Mutex
	db     *sql.DB // nil until the first use, and after a failure to open
	closed bool
}

var _ logical.DeadLetters = (*Store)(nil)

// Open returns the store. It does not touch the file: whatever is wrong with that is reported by the
// calls that need it, as an error that may heal.
func Open(cfg Config) (*Store, error) {
	if cfg.Path == "" {
		return nil, errors.New("deadletter: no path; name the file of the dead letters")
	}
	if cfg.BusyTimeout <= 0 {
		cfg.BusyTimeout = 5 * time.Second
	}
	return &Store{cfg: cfg}, nil
}

// Close closes the file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.db == nil {
		return nil
	}
	db := s.db
	s.db = nil
	return errors.Wrap(db.Close(), "deadletter: close")
}

// handle returns the open file.
func (s *Store) handle(ctx context.Context) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errors.New("deadletter: the store is closed")
	case s.db != nil:
		return s.db, nil
	}
	db, err := s.open(ctx)
	if err != nil {
		return nil, s.failed(err, "open")
	}
	s.db = db
	return db, nil
}

func (s *Store) open(ctx context.Context) (*sql.DB, error) {
	// The driver would make them for everybody to read.
	for _, suffix := range []string{"", "-wal", "-shm"} {
		file, err := os.OpenFile(s.cfg.Path+suffix, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := file.Close(); err != nil {
			return nil, err
		}
	}
	dsn := url.URL{Scheme: "file", Opaque: (&url.URL{Path: s.cfg.Path}).EscapedPath()}
	dsn.RawQuery = url.Values{
		"_pragma": {
			"busy_timeout(" + milliseconds(s.cfg.BusyTimeout) + ")", "journal_mode(WAL)", "synchronous(FULL)",
			"temp_store(MEMORY)", "cache_size(-512)",
		},
		"_txlock": {"immediate"},
	}.Encode()
	db, err := sql.Open("sqlite3", dsn.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db); err != nil {
		_ = db.Close() // the first error says more
		return nil, err
	}
	return db, nil
}

// failed gives an error its class: everything about the file may heal.
func (s *Store) failed(err error, doing string) error {
	return &logical.Error{
		Err:   errors.Wrapf(err, "deadletter: %s: %s", s.cfg.Path, doing),
		Class: logical.ClassRetry,
		Hint:  "nothing is lost meanwhile: the stream waits; free space on the disk, or make the file writable for the user that Tailrace runs as",
	}
}
