package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// clocked is a queue in memory with a clock that only the test moves.
type clocked struct {
	*Queue
	disk *simdisk.Disk
	now  time.Time
	cfg  Config
	lost []Loss
}

func newClocked(t *testing.T, l Limits) *clocked {
	t.Helper()
	c := &clocked{disk: simdisk.New(1), now: time.Unix(1_700_000_000, 0)}
	c.cfg = Config{
		Dir: "/q", Name: "stream 7", FS: c.disk, Limits: l, manual: true, Now: func() time.Time { return c.now },
		Events: Events{Lost: func(x Loss) { c.lost = append(c.lost, x) }},
	}
	c.open(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (c *clocked) open(t *testing.T) {
	t.Helper()
	q, err := Open(c.cfg)
	require.NoError(t, err)
	c.Queue = q
}

// tryPut appends a group of one block of so many bytes that cannot be compressed.
func (c *clocked) tryPut(size int) (Sequence, error) {
	g := Group{Compression: NoCompression}
	if err := g.Add(KindOpaque, 3, noiseOf(size)); err != nil {
		return 0, err
	}
	res, err := c.Reserve(&g)
	if err != nil {
		return 0, err
	}
	_, last, err := c.Append(nilCtx, res, &g)
	return last, err
}
