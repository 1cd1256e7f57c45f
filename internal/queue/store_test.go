package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// TestFirstWriteOfAStoreSurvivesPowerLoss cuts the power right after the first answer of a server that was
// started where there was nothing.
func TestFirstWriteOfAStoreSurvivesPowerLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		d := simdisk.New(seed)
		s, err := OpenStore(StoreConfig{Dir: "/var/data/queues", FS: d})
		require.NoError(t, err)
		q, err := s.Open("one", Config{manual: true})
		require.NoError(t, err)
		put(t, q, "first")
		after := d.Crash(seed)
		require.NoError(t, s.Close())

		s, err = OpenStore(StoreConfig{Dir: "/var/data/queues", FS: after})
		require.NoError(t, err)
		again, err := s.Open("one", Config{manual: true})
		require.NoError(t, err)
		require.Equal(t, q.ID(), again.ID(), "seed %d", seed)
		require.Equal(t, Sequence(1), again.Newest(), "seed %d", seed)
		require.NoError(t, s.Close())
	}
}
