package lease

import (
	"maps"
	"slices"
	"sync"
)

// Keepers are those of a target's sessions, the newest of each loop. The zero value is ready; its methods
// may be called concurrently.
type Keepers struct {
	mu     sync.Mutex
	byLoop map[string]*Keeper
}

// Start sets the keeper of a new session to work, and ends the one that it takes over from. Of two sessions that were
// taken at once the later one may come first, and stays.
func (s *Keepers) Start(k *Keeper) {
	k.Start()
	s.mu.Lock()
	if s.byLoop == nil {
		s.byLoop = map[string]*Keeper{}
	}
	old := s.byLoop[k.cfg.Loop]
	if old != nil && old.cfg.Epoch > k.cfg.Epoch && old.Held() {
		old = k
	} else {
		s.byLoop[k.cfg.Loop] = k
	}
	s.mu.Unlock()
	if old != nil {
		old.Abandon()
	}
}

// Release ends a session. If it still holds its lease, give gives that back at the target.
func (s *Keepers) Release(k *Keeper, give func() error) error {
	k.Stop()
	s.mu.Lock()
	if s.byLoop[k.cfg.Loop] == k {
		delete(s.byLoop, k.cfg.Loop)
	}
	s.mu.Unlock()
	if !k.Held() {
		return nil
	}
	defer k.Lose()
	return give()
}

// Close ends all sessions that were not released. Their leases run out.
func (s *Keepers) Close() {
	s.mu.Lock()
	held := slices.Collect(maps.Values(s.byLoop))
	s.mu.Unlock()
	for _, k := range held {
		k.Stop()
		k.Lose()
	}
}
