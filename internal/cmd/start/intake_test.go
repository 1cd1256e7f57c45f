package start

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestTroubleOfOneBucketKeepsTheServerReady is ISOLATED: a load balancer must not take the intake from all.
func TestTroubleOfOneBucketKeepsTheServerReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		both := map[string]bool{"a": true, "b": true}
		in := newTrouble()
		in.set("a", broken)
		if err := in.get(both); err != nil {
			t.Errorf("one of two buckets fails: %v", err)
		}
		in.set("b", broken)
		if err := in.get(both); !errors.Is(err, broken) {
			t.Errorf("both fail: %v", err)
		}
		in.set("b", nil)
		if err := in.get(both); err != nil {
			t.Errorf("one is well again: %v", err)
		}
		if err := in.get(map[string]bool{"a": true}); !errors.Is(err, broken) {
			t.Errorf("the only bucket fails: %v", err)
		}
		time.Sleep(troubleLasts + time.Second)
		if err := in.get(map[string]bool{"a": true}); err != nil {
			t.Errorf("that is no news any more: %v", err)
		}
		in.set("a", broken)
		if err := in.get(nil); err != nil {
			t.Errorf("there are no buckets: %v", err)
		}
	})
}
