package influx

import (
	"sync"
	"time"
)

// A sizer chooses how large a request may be. It goes down where the remote refuses requests as too large or
// does not answer them in time, and up again with success.
type sizer struct {
	mu      sync.Mutex
	most    int // what the configuration allows
	ceiling int // what the remote has not refused
	limit   int // what the link carries in good time
	full    int // requests of about the limit since it was changed
}

const (
	// leastInTime is the request that is not made smaller because it took too long.
	leastInTime = 4 << 10
	// goodTime is within what a request is answered that may be larger.
	goodTime = 2 * time.Second
	// forgiveAfter is after how many requests at the ceiling a larger one is tried.
	forgiveAfter = 1024
)

func newSizer(most int) sizer { return sizer{most: most, ceiling: most, limit: most} }

// bytes returns how large the next request may be.
func (s *sizer) bytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.limit, s.ceiling)
}

// tooLarge notes that a request was refused for its size; said is what the remote takes, or 0.
func (s *sizer) tooLarge(size, said int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := max(1, size/2)
	if said > 0 && said < size {
		next = max(said, 1)
	}
	s.ceiling = min(s.ceiling, next)
	s.limit = min(s.limit, s.ceiling)
	s.full = 0
}

// tooSlow notes that a request was not answered in time.
func (s *sizer) tooSlow(size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = min(s.limit, max(leastInTime, size/2))
	s.full = 0
}

// stored notes that a request was answered well.
func (s *sizer) stored(size int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := min(s.limit, s.ceiling)
	if size < limit/2 || took > goodTime {
		return
	}
	s.full++
	switch {
	case limit < s.ceiling && s.full >= 4:
		s.limit = min(2*limit, s.ceiling)
		s.full = 0
	case limit >= s.ceiling && s.ceiling < s.most && s.full >= forgiveAfter:
		s.ceiling = min(2*s.ceiling, s.most)
		s.limit, s.full = s.ceiling, 0
	}
}
