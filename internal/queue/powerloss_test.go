package queue

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// TestAckedSurvivesPowerLoss cuts the power before every single operation that
// changes the disk, in long random runs of several lives, and opens what is left.
func TestAckedSurvivesPowerLoss(t *testing.T) {
	t.Parallel()
	var points atomic.Int64
	t.Run("kinds", func(t *testing.T) {
		for _, kind := range []struct {
			name   string
			mode   SyncMode
			drops  bool
			faults bool
		}{
			{"Always", SyncAlways, false, false},
			{"AlwaysWithFaults", SyncAlways, false, true},
			{"AlwaysWithDrops", SyncAlways, true, true},
			{"Interval", SyncInterval, false, false},
			{"IntervalWithFaults", SyncInterval, true, true},
			{"Never", SyncNever, true, true},
		} {
			t.Run(kind.name, func(t *testing.T) {
				t.Parallel()
				enough := int64(count(1_700, 80_000))
				seeds(t, -1, func(t *testing.T, seed uint64) bool {
					n := int64(powerLossRun(t, seed, kind.mode, kind.drops, kind.faults))
					points.Add(n)
					enough -= n
					return enough > 0
				})
			})
		}
	})
	t.Logf("%d crash points", points.Load())
	if !replaying() && !t.Failed() {
		require.GreaterOrEqual(t, points.Load(), int64(10_000))
	}
}

func powerLossRun(t *testing.T, seed uint64, mode SyncMode, drops, faults bool) int {
	w := newWorld(t, seed)
	w.cfg.Sync, w.drops, w.lossy = mode, drops, mode != SyncAlways
	w.cfg.Dir = "/data/queues/q" // none of it is there at first
	points := 0
	crashSeed := seed << 16
	hook := func(simdisk.Op) {
		points++
		crashSeed++
		image := w.disk.Crash(crashSeed)
		if points%8 == 0 {
			points += w.verifyNested(image, crashSeed)
			return
		}
		w.verify(image)
	}
	arm := func() {
		w.disk.OnChange = hook
		if faults {
			w.disk.OnFault = w.randomFault
		}
	}
	w.disk.OnChange = hook // the first start too
	require.NoError(t, w.open())
	arm()
	for life := range 3 {
		for range 40 {
			w.step()
		}
		if life == 2 {
			break
		}
		crashSeed++
		after := w.disk.Crash(crashSeed)
		_ = w.r.Close()
		w.disk.OnChange, w.disk.OnFault = nil, nil
		_ = w.q.Close() // of the old disk; nobody looks at it any more
		w.crashed(after)
		arm()
	}
	_ = w.r.Close()
	w.disk.OnChange, w.disk.OnFault = nil, nil
	_ = w.q.Close()
	return points
}

// verifyNested cuts the power a second time, in the middle of the recovery. It
// returns the number of such cuts.
func (w *world) verifyNested(image *simdisk.Disk, seed uint64) int {
	var images []*simdisk.Disk
	image.OnChange = func(simdisk.Op) {
		if len(images) < 12 {
			seed++
			images = append(images, image.Crash(seed*31))
		}
	}
	cfg := w.cfg
	cfg.FS = image
	q, err := Open(cfg)
	require.NoError(w.t, err)
	require.NoError(w.t, q.Close())
	image.OnChange = nil
	for _, i := range images {
		w.verify(i)
	}
	w.verify(image)
	return len(images)
}

// randomFault makes one operation in about thirty fail, before or after it took
// effect.
func (w *world) randomFault(op simdisk.Op) *simdisk.Fault {
	switch op.Kind {
	case "list", "lock", "mkdir", "free", "size":
		return nil
	}
	if w.rng.IntN(30) != 0 {
		return nil
	}
	if op.Kind == "read" {
		// A page that fails for ever would be damage, which this test has none of.
		page := fmt.Sprint(op.Path, op.Off/pageSize)
		if w.readFaults[page]++; w.readFaults[page] >= maxReadFailures {
			return nil
		}
	}
	f := &simdisk.Fault{Err: syscall.EIO, After: w.rng.IntN(3) == 0}
	if op.Kind == "write" {
		f.Part, f.Err = w.rng.IntN(op.Len+1), syscall.ENOSPC
	}
	return f
}
