package queue

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSteadyStateAllocatesNothing reads and appends many blocks. It does not run
// in parallel, since it counts the allocations of the process.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, c := range []Compression{S2, Zstd, NoCompression} {
		q, err := Open(Config{Dir: t.TempDir(), Sync: SyncNever, manual: true})
		require.NoError(t, err)
		g := Group{Compression: c}
		payload := line1K()
		for len(payload) < 6000 {
			payload = append(payload, payload...)
		}
		appendOne := func() {
			g.Reset()
			if err := g.Add(KindLineProtocol, 10, payload); err != nil {
				t.Fatal(err)
			}
			res, err := q.Reserve(&g)
			if err == nil {
				_, _, err = q.Append(nilCtx, res, &g)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 2000 {
			appendOne()
		}
		if !raceEnabled {
			require.LessOrEqual(t, testing.AllocsPerRun(500, appendOne), 0.1, "append, compression %d", c)
		}
		r, err := q.NewReader(0)
		require.NoError(t, err)
		next := func() {
			b, err := r.Next(nilCtx)
			if err == nil {
				err = q.Ack(b.Sequence)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 1000 {
			next()
		}
		if !raceEnabled {
			require.LessOrEqual(t, testing.AllocsPerRun(500, next), 0.1, "read and acknowledge, compression %d", c)
		}
		dst := make([]byte, 0, MaxPayload)
		into := func() {
			if _, err := r.NextInto(nilCtx, dst); err != nil {
				t.Fatal(err)
			}
		}
		if !raceEnabled {
			require.LessOrEqual(t, testing.AllocsPerRun(500, into), 0.1, "read into own memory, compression %d", c)
		}
		require.NoError(t, r.Close())
		require.NoError(t, q.Close())
	}
}

// TestReadingAheadAllocatesNothing reads a backlog through a ring, alone and with a helper.
// It does not run in parallel, since it counts the allocations of the process.
func TestReadingAheadAllocatesNothing(t *testing.T) {
	for _, alone := range []bool{true, false} {
		rng := rand.New(rand.NewPCG(4, 13))
		q, all := backlog(t, Config{Dir: t.TempDir(), chunk: 16 << 10, CursorEvery: time.Hour, manual: alone}, rng, 6<<20, 3000)
		r, err := q.NewReader(0)
		require.NoError(t, err)
		next := func() {
			if _, err := r.Next(nilCtx); err != nil {
				t.Fatal(err)
			}
		}
		for range len(all) / 4 {
			next()
		}
		// On a busy machine the helper may come too late, and then the ring is given back.
		require.True(t, !alone || r.(*reader).scan.ring != nil)
		// Going from one segment to the next is not free, but there are few.
		if got := testing.AllocsPerRun(len(all)/2, next); !raceEnabled {
			require.LessOrEqual(t, got, 0.1)
		}
		require.NoError(t, r.Close())
	}
}
