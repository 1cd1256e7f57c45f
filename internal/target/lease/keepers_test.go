package lease

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestFencedAreTheOlderOfTwoThatTookALoopAtOnce, in whatever order they are registered.
func TestFencedAreTheOlderOfTwoThatTookALoopAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keeper := func(epoch int64) *Keeper {
			return New(Config{Loop: "l", Epoch: epoch, TTL: time.Minute, Written: time.Now(), Logger: slog.New(slog.DiscardHandler), Renew: func(context.Context) error { return nil }})
		}
		var keepers Keepers
		younger, older := keeper(6), keeper(5)
		keepers.Start(younger)
		keepers.Start(older)
		if !younger.Held() || older.Held() {
			t.Errorf("the younger is held: %v, the older: %v", younger.Held(), older.Held())
		}
		youngest := keeper(7)
		keepers.Start(youngest)
		if younger.Held() || !youngest.Held() {
			t.Errorf("after a takeover the younger is held: %v, the youngest: %v", younger.Held(), youngest.Held())
		}
		// A database that was restored counts on from before. Whoever lost his lease is in nobody's way.
		youngest.Lose()
		restored := keeper(2)
		keepers.Start(restored)
		if !restored.Held() {
			t.Error("a lease that was lost stands in the way")
		}
		for _, k := range []*Keeper{younger, older, youngest, restored} {
			if err := keepers.Release(k, func() error { return nil }); err != nil {
				t.Error(err)
			}
		}
	})
}
