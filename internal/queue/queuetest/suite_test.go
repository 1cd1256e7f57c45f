package queuetest_test

import (
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/tailrace-cdc/tailrace/internal/queue"
	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
	"github.com/tailrace-cdc/tailrace/internal/queue/queuetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestQueueOnDisk(t *testing.T) {
	t.Parallel()
	queuetest.Run(t, func(_ *testing.T, dir string, l queue.Limits) (queue.Log, error) {
		return opened(queue.Open(queue.Config{Dir: dir, Limits: l}))
	})
}

func TestQueueOnSimulatedDisk(t *testing.T) {
	t.Parallel()
	d := simdisk.New(1)
	queuetest.Run(t, func(_ *testing.T, dir string, l queue.Limits) (queue.Log, error) {
		return opened(queue.Open(queue.Config{Dir: dir, Limits: l, FS: d, Sync: queue.SyncInterval}))
	})
}

// opened keeps a nil queue from becoming a log that is not nil.
func opened(q *queue.Queue, err error) (queue.Log, error) {
	if err != nil {
		return nil, err
	}
	return q, nil
}

func TestMemory(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	logs := map[string]*queuetest.Memory{}
	queuetest.Run(t, func(_ *testing.T, dir string, l queue.Limits) (queue.Log, error) {
		mu.Lock()
		defer mu.Unlock()
		if log := logs[dir]; log != nil {
			log.Reopen(l)
			return log, nil
		}
		logs[dir] = queuetest.NewMemory(l)
		return logs[dir], nil
	})
}
