package queue

import (
	"io"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
)

// StoreLimits bound all queues of a store together. They can be changed while it
// runs, see [Store.SetLimits].
type StoreLimits struct {
	// MaxBytes is the most that the unsent groups of all queues may take. Zero: no
	// limit but those of the queues. Default: 0.
	MaxBytes int64
	// KeepFree is how many bytes of the device are to stay free. Zero: none.
	// Default: 0.
	KeepFree int64
}

// StoreConfig says how to open a store. Only Dir is required.
type StoreConfig struct {
	// Dir holds a directory for each queue, and the lock. It is made if it does
	// not exist.
	Dir string
	// Limits bound all queues together.
	Limits StoreLimits
	// FS is the file system. Default: the real one.
	FS disk.FS
}

// Store keeps the queues of one data directory: it holds one lock for all of
// them, and limits them together.
//
// Where space runs out, whoever has the largest backlog is stopped first, not
// whoever happens to write next: within the last eighth of MaxBytes, or the whole
// of KeepFree, a queue may go on as long as its share of the largest backlog is
// smaller than the share of that zone that is still free. So the one with the
// dead remote stops at the beginning of the zone, and those that are nearly empty
// go on until almost nothing is left. What stopping means is each queue's policy.
type Store struct {
	dir  string
	fs   disk.FS
	lock io.Closer
	// rings are what the readers of all queues may take to read ahead.
	rings *rings

	mu     sync.Mutex
	limits StoreLimits
	queues map[string]*Queue
	closed bool
}

// OpenStore opens a data directory, but none of its queues.
func OpenStore(cfg StoreConfig) (*Store, error) {
	if cfg.FS == nil {
		cfg.FS = disk.OS()
	}
	if err := disk.MkdirAll(cfg.FS, cfg.Dir); err != nil {
		return nil, errors.Wrap(err, "queue: make data directory")
	}
	lock, err := lockFile(cfg.FS, filepath.Join(cfg.Dir, lockName), false)
	if err != nil {
		return nil, err
	}
	return &Store{dir: cfg.Dir, fs: cfg.FS, lock: lock, rings: newRings(), limits: cfg.Limits, queues: make(map[string]*Queue)}, nil
}

// Open opens the queue in the directory of that name, or makes one. Dir and FS of
// the configuration are set by the store; Name is the directory's if it is empty.
// That one queue cannot be opened is its own error, and disturbs no other.
func (s *Store) Open(name string, cfg Config) (*Queue, error) {
	if name == "" || name != filepath.Base(name) || name == lockName || name[0] == '.' {
		return nil, errors.Errorf("queue: %q cannot be the name of a queue's directory", name)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	if _, ok := s.queues[name]; ok {
		s.mu.Unlock()
		return nil, errors.Errorf("queue: %s is open already", name)
	}
	s.queues[name] = nil // taken, while it opens
	s.mu.Unlock()

	cfg.Dir, cfg.FS, cfg.guard = filepath.Join(s.dir, name), s.fs, s
	if cfg.Name == "" {
		cfg.Name = name
	}
	q, err := Open(cfg)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.queues, name)
		return nil, err
	}
	s.queues[name] = q
	return q, nil
}

// List returns the names of the queues in the directory, open or not.
func (s *Store) List() ([]string, error) {
	entries, err := s.fs.List(s.dir)
	if err != nil {
		return nil, errors.Wrap(err, "queue: list data directory")
	}
	var names []string
	for _, e := range entries {
		if e.Mode.IsDir() {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// Delete removes a queue that is not open, with all that is in it.
func (s *Store) Delete(name string) error {
	s.mu.Lock()
	_, open := s.queues[name]
	s.mu.Unlock()
	if open {
		return errors.Errorf("queue: %s is open, close it before it is deleted", name)
	}
	dir := filepath.Join(s.dir, filepath.Base(name))
	for _, d := range []string{filepath.Join(dir, asideName), dir} {
		entries, err := s.fs.List(d)
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return errors.Wrapf(err, "queue: delete %s", name)
		}
		for _, e := range entries {
			if err := s.fs.Remove(filepath.Join(d, e.Name)); err != nil && !isNotExist(err) {
				return errors.Wrapf(err, "queue: delete %s", name)
			}
		}
		if err := s.fs.Remove(d); err != nil && !isNotExist(err) {
			return errors.Wrapf(err, "queue: delete %s", name)
		}
	}
	return errors.Wrapf(s.fs.SyncDir(s.dir), "queue: delete %s", name)
}

// SetLimits changes the limits at once.
func (s *Store) SetLimits(l StoreLimits) {
	s.mu.Lock()
	s.limits = l
	s.mu.Unlock()
}

// StoreStats is the state of all queues together.
type StoreStats struct {
	UnsentBytes int64 `json:"unsentBytes"` // reserved ones included
	MaxBytes    int64 `json:"maxBytes"`    // 0: no limit
	FreeBytes   int64 `json:"freeBytes"`
	KeepFree    int64 `json:"keepFree"`
	Queues      int   `json:"queues"`
}

// Stats returns the state.
func (s *Store) Stats() (StoreStats, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, _ := s.weighLocked()
	free, err := s.fs.Free(s.dir)
	return StoreStats{
		UnsentBytes: sum, MaxBytes: s.limits.MaxBytes, FreeBytes: free, KeepFree: s.limits.KeepFree, Queues: len(s.queues),
	}, errors.Wrap(err, "queue: free space")
}

// Close closes all queues, and waits for them.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	var open []*Queue
	for _, q := range s.queues {
		if q != nil {
			open = append(open, q)
		}
	}
	s.mu.Unlock()
	var first error
	for _, q := range open {
		if err := q.Close(); first == nil {
			first = err
		}
	}
	if err := s.lock.Close(); first == nil {
		first = err
	}
	return first
}

// forget is called by a queue that was closed.
func (s *Store) forget(q *Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name := filepath.Base(q.dir); s.queues[name] == q {
		delete(s.queues, name)
	}
}

// weighLocked returns what all queues hold together, and what the largest does.
func (s *Store) weighLocked() (sum, largest int64) {
	for _, q := range s.queues {
		if q != nil {
			w := q.weight.Load()
			sum += w
			largest = max(largest, w)
		}
	}
	return sum, largest
}

// admit reserves n bytes for q, or returns what is full.
func (s *Store) admit(q *Queue, n int64) (*FullError, error) {
	// One at a time, so that two queues do not both take what is left.
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, largest := s.weighLocked()
	mine := q.weight.Load()
	if l := s.limits.MaxBytes; l > 0 && stopped(l-sum-n, l/8, mine, largest) {
		return &FullError{
			Queue: q.name, ID: q.id, Need: n, Unsent: sum, Limit: l, Scope: "store", Never: n > l, final: l-sum-n <= l/8/16,
		}, nil
	}
	if keep := s.limits.KeepFree; keep > 0 {
		free, err := s.fs.Free(s.dir)
		if err != nil {
			return nil, errors.Wrapf(err, "queue %s: free space", q.name)
		}
		// What is reserved, by whomever, is as good as written.
		left := free - n - s.reservedLocked()
		if stopped(left, keep, mine, largest) {
			return &FullError{
				Queue: q.name, ID: q.id, Need: n, Unsent: free, Limit: keep, Scope: "disk", final: left <= keep/16,
			}, nil
		}
	}
	return q.admit(n)
}

func (s *Store) reservedLocked() (sum int64) {
	for _, q := range s.queues {
		if q != nil {
			q.mu.Lock()
			sum += q.reserved
			q.mu.Unlock()
		}
	}
	return sum
}

// stopped reports whether a queue that holds mine may take no more, when left
// bytes are free and the last zone bytes are to be shared out with care.
func stopped(left, zone, mine, largest int64) bool {
	switch {
	case left >= zone:
		return false
	case left <= zone/16:
		return true // the last bit is for everything else on the device
	}
	return float64(mine) > float64(largest)*float64(left)/float64(zone)
}
