package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailrace-cdc/tailrace/logical"
)

func keep(renew func(context.Context) error) *Keeper {
	k := New(Config{Loop: "l", TTL: 30 * time.Second, Written: time.Now(), Renew: renew, Logger: slog.New(slog.DiscardHandler)})
	k.Start()
	return k
}

func TestLeaseIsRenewedThriceInItsLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		k := keep(func(context.Context) error { n.Add(1); return nil })
		time.Sleep(65 * time.Second) // of the test's own time
		if !k.Held() || n.Load() != 6 {
			t.Errorf("held %v after %d renewals in 65 s", k.Held(), n.Load())
		}
		k.Stop()
		k.Stop()
		if !k.Held() {
			t.Error("stopping lost the lease")
		}
	})
}

func TestLeaseIsLostWhenItRanOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		k := keep(func(context.Context) error { return errors.New("no connection") })
		<-k.Lost()
		if d := time.Since(start); d < 30*time.Second || d > 35*time.Second {
			t.Errorf("a lease of 30 s was lost after %s", d)
		}
		k.Stop()
	})
}

func TestLeaseIsLostAtOnceToAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		k := keep(func(context.Context) error {
			return &logical.Error{Err: errors.New("not yours"), Class: logical.ClassFenced}
		})
		<-k.Lost()
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("lost after %s", d)
		}
		k.Stop()
	})
}

func TestLeaseSurvivesAnOutageShorterThanItsLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		k := keep(func(context.Context) error {
			if time.Since(start) < 29*time.Second {
				return errors.New("no connection")
			}
			return nil
		})
		time.Sleep(2 * time.Minute) // of the test's own time
		if !k.Held() {
			t.Error("the lease was lost")
		}
		k.Stop()
	})
}
