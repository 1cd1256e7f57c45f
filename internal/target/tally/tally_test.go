package tally

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestRegistryHasOneTally: several targets of one process count together.
func TestRegistryHasOneTally(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	first, err := Register(reg)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Register(reg)
	if err != nil || second != first {
		t.Errorf("another tally was made, error %v", err)
	}
	first.Overflowed.Add(3)
	if n := testutil.CollectAndCount(reg, "target_overflowed_values_total", "target_ignored_values_total", "target_collisions_total"); n != 3 {
		t.Errorf("%d metrics are shown, want 3", n)
	}
	if none, err := Register(nil); err != nil || none == nil || none == first {
		t.Errorf("got %v, %v", none, err)
	}
}
