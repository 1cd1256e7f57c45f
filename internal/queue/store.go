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
	queues map[string]*Queue // nil while the name is taken by an Open or Delete that runs
	closed bool

	busy sync.WaitGroup // Open and Delete that run; nothing is added once closed is set
	gone chan struct{}  // Close has returned
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
	return &Store{
		dir: cfg.Dir, fs: cfg.FS, lock: lock, rings: newRings(), limits: cfg.Limits,
		queues: make(map[string]*Queue), gone: make(chan struct{}),
	}, nil
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
	open := 0
	for _, q := range s.queues {
		if q != nil {
			open++
		}
	}
	free, err := s.fs.Free(s.dir)
	return StoreStats{
		UnsentBytes: sum, MaxBytes: s.limits.MaxBytes, FreeBytes: free, KeepFree: s.limits.KeepFree, Queues: open,
	}, errors.Wrap(err, "queue: free space")
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
