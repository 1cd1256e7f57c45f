package influxlogical

import (
	"errors"
	"sync"
	"testing"
)

// TestRemovedStreamStaysAway has somebody hold a stream in hand while it is removed, and use it during that and
// afterwards: its queue is not made anew, and no target is opened that nobody gives back.
func TestRemovedStreamStaysAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, t.TempDir())
	s := r.stream
	config := *s.config.Load()
	use := func() (resumed, updated error) {
		resumed = s.Resume(t.Context())
		updated = r.streams.Update(t.Context(), config)
		_, _ = s.writable()
		_, _, _ = s.Letters(t.Context())
		_, _ = s.CountLetters(t.Context())
		s.Pause(t.Context())
		return resumed, updated
	}
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() { use() })
	}
	if _, err := r.streams.Remove(t.Context(), "one", 0); err != nil {
		t.Fatal(err)
	}
	users.Wait()
	if resumed, updated := use(); !errors.Is(resumed, ErrRemoved) || updated == nil {
		t.Errorf("a removed stream was resumed (%v) and updated (%v)", resumed, updated)
	}
	if names, err := r.store.List(); err != nil || len(names) > 0 {
		t.Errorf("the removed stream's queue is there again: %v, %v", names, err)
	}
	if s.queue.Load() != nil || s.held.Load() != nil || s.loop.Load() != nil {
		t.Error("the removed stream has something open")
	}
	r.close()
}
