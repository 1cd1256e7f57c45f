package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// original is a small queue and what is in it.
type original struct {
	disk   *simdisk.Disk
	blocks []Block // all of them
	place  map[Sequence][3]any
	acked  Sequence
}

// newOriginal makes a queue of three segments, of which the first blocks are
// acknowledged. Without clean its last process died.
func newOriginal(t *testing.T, clean bool) *original {
	t.Helper()
	o := &original{disk: simdisk.New(1)}
	cfg := rotConfig(o.disk)
	for life := range 3 {
		q, err := Open(cfg)
		require.NoError(t, err)
		for i := range 4 {
			var texts []string
			for j := range 1 + (life+i)%3 {
				texts = append(texts, fmt.Sprintf("m,life=%d i=%di,j=%di %s", life, i, j, strings.Repeat("v", 7*i)))
			}
			put(t, q, texts...)
		}
		if life == 2 {
			require.NoError(t, q.Ack(3))
			q.tend()
			o.blocks = drain(t, q)
			o.acked = q.Cursor()
			if !clean {
				o.disk = o.disk.Clone()
			}
		}
		require.NoError(t, q.Close())
	}
	o.place = map[Sequence][3]any{}
	for _, b := range o.blocks {
		o.place[b.Sequence] = [3]any{}
	}
	return o
}

func rotConfig(d *simdisk.Disk) Config {
	now := time.Unix(1_700_000_000, 0)
	return Config{Dir: "/q", Name: "rot", manual: true, FS: d, chunk: 256, Now: func() time.Time { return now }}
}

// drain reads everything that is there.
func drain(t testing.TB, q *Queue) []Block {
	t.Helper()
	r, err := q.NewReader(0)
	require.NoError(t, err)
	defer r.Close()
	var all []Block
	for range 10_000 {
		b, err := readNow(r)
		if errors.Is(err, errNothingYet) {
			return all
		}
		require.NoError(t, err)
		b.Payload = slices.Clone(b.Payload)
		all = append(all, b)
	}
	require.Fail(t, "the reader does not come to an end")
	return nil
}

// TestEveryFlippedByte flips every byte of every file of a small queue, one at a
// time.
func TestEveryFlippedByte(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean=%v", clean), func(t *testing.T) {
			t.Parallel()
			o := newOriginal(t, clean)
			require.Len(t, o.blocks, 21)
			entries, err := o.disk.List("/q")
			require.NoError(t, err)
			rng := rand.New(rand.NewPCG(1, 2))
			flips := 0
			for _, e := range entries {
				for off := range e.Size {
					mask := byte(1) << rng.IntN(8)
					if rng.IntN(4) == 0 {
						mask = 0xff
					}
					d := o.disk.Clone()
					d.Damage("/q/"+e.Name, func(b []byte) []byte { b[off] ^= mask; return b })
					if !o.examine(t, d, fmt.Sprintf("%s byte %d xor %02x", e.Name, off, mask)) {
						return
					}
					flips++
				}
			}
			t.Logf("%d bytes flipped", flips)
		})
	}
}

// examine opens a damaged copy and checks what must hold whatever the damage:
// nothing wrong is delivered, the good blocks are, and what is missing is counted.
func (o *original) examine(t *testing.T, d *simdisk.Disk, what string) bool {
	q, err := Open(rotConfig(d))
	if !check(t, err == nil, "%s: it does not open: %v", what, err) {
		return false
	}
	defer q.Close()
	// A block that is appended later makes every loss countable.
	put(t, q, "the last")
	got := drain(t, q)
	n := len(got) - 1
	if !check(t, n >= 0 && string(got[n].Payload) == "the last", "%s: the block after the damage is not delivered: %d blocks", what, len(got)) {
		return false
	}
	got = got[:n]
	missing := map[Sequence]bool{}
	for _, b := range o.blocks {
		missing[b.Sequence] = true
	}
	at := Sequence(0)
	for i, b := range got {
		j := slices.IndexFunc(o.blocks, func(x Block) bool { return x.Sequence == b.Sequence })
		good := check(t, b.Sequence > at, "%s: %d comes after %d", what, b.Sequence, at) &&
			(b.Sequence <= o.acked || check(t, j >= 0, "%s: sequence %d is new", what, b.Sequence))
		if !good {
			return false
		}
		at = b.Sequence
		delete(missing, b.Sequence)
		if j < 0 {
			continue // acknowledged already, sent again because the cursor is lost
		}
		want := o.blocks[j]
		// The next one begins a group, or this one ends it.
		want.Last = b.Last
		if !check(t, string(want.Payload) == string(b.Payload) && want.Time == b.Time && want.Points == b.Points, "%s: block %d is wrong", what, b.Sequence) {
			return false
		}
		if i+1 < len(got) && o.sameGroup(b.Sequence, got[i+1].Sequence) && !check(t, !b.Last, "%s: block %d ends the group too early", what, b.Sequence) {
			return false
		}
		if (i+1 == len(got) || !o.sameGroup(b.Sequence, got[i+1].Sequence)) && !check(t, b.Last, "%s: the group of block %d has no end", what, b.Sequence) {
			return false
		}
	}
	return o.counted(t, q, missing, what)
}

// sameGroup reports whether two blocks are of one group.
func (o *original) sameGroup(a, b Sequence) bool {
	for _, x := range o.blocks {
		if x.Sequence >= a && x.Sequence < b && x.Last {
			return false
		}
	}
	return a > o.acked
}

// counted checks that exactly the missing blocks are declared lost.
func (o *original) counted(t *testing.T, q *Queue, missing map[Sequence]bool, what string) bool {
	declared := map[Sequence]bool{}
	blocks := uint64(0)
	unknown := false
	for _, x := range q.Stats().Losses {
		blocks += x.Blocks
		unknown = unknown || x.Reason == LostTorn && x.Blocks == 0
		for s := x.First; s <= x.Last && x.Last-x.First < 1000; s++ {
			declared[s] = true
		}
	}
	for s := range missing {
		if !check(t, declared[s] || unknown, "%s: block %d is missing and not declared: %+v", what, s, q.Stats().Losses) {
			return false
		}
	}
	return check(t, blocks == uint64(len(missing)) || unknown, "%s: %d blocks are missing and %d declared: %+v", what, len(missing), blocks, q.Stats().Losses)
}

func check(t *testing.T, ok bool, format string, args ...any) bool {
	if !ok {
		t.Helper()
		t.Errorf(format, args...)
	}
	return ok
}

// TestRandomDamage overwrites, cuts, repeats and removes pieces of any length.
func TestRandomDamage(t *testing.T) {
	t.Parallel()
	o := newOriginal(t, true)
	entries, err := o.disk.List("/q")
	require.NoError(t, err)
	seeds(t, count(2_000, 100_000), func(t *testing.T, seed uint64) bool {
		rng := rand.New(rand.NewPCG(seed, 3))
		d := o.disk.Clone()
		what := ""
		for range 1 + rng.IntN(3) {
			e := entries[rng.IntN(len(entries))]
			what += " " + e.Name + damageSomehow(d, "/q/"+e.Name, rng)
		}
		q, err := Open(rotConfig(d))
		if !check(t, err == nil, "%s: it does not open: %v", what, err) {
			return false
		}
		defer q.Close()
		put(t, q, "the last")
		got := drain(t, q)
		at := Sequence(0)
		for _, b := range got[:len(got)-1] {
			j := slices.IndexFunc(o.blocks, func(x Block) bool { return x.Sequence == b.Sequence })
			if !check(t, b.Sequence > at, "%s: order", what) {
				return false
			}
			at = b.Sequence
			if j >= 0 && !check(t, string(o.blocks[j].Payload) == string(b.Payload), "%s: block %d is wrong", what, b.Sequence) {
				return false
			}
			if j < 0 && !check(t, b.Sequence <= o.acked, "%s: block %d was never appended", what, b.Sequence) {
				return false
			}
		}
		return check(t, string(got[len(got)-1].Payload) == "the last", "%s: no end", what)
	})
}

func damageSomehow(d *simdisk.Disk, name string, rng *rand.Rand) string {
	kind := rng.IntN(6)
	if kind == 5 {
		d.Delete(name)
		return " deleted"
	}
	d.Damage(name, func(b []byte) []byte {
		if len(b) == 0 {
			return b
		}
		from := rng.IntN(len(b))
		to := min(len(b), from+1+rng.IntN(1+len(b)/2))
		switch kind {
		case 0:
			for i := from; i < to; i++ {
				b[i] = byte(rng.Uint32())
			}
		case 1:
			clear(b[from:to])
		case 2:
			return b[:from]
		case 3: // a piece is repeated: blocks in the wrong place
			return slices.Insert(b, to, b[from:to]...)
		case 4:
			return slices.Delete(b, from, to)
		}
		return b
	})
	return fmt.Sprintf(" damage %d", kind)
}

// TestCopyOfAQueueInAPayload: blocks that lie in the wrong place are none, though
// their own sums are right. Here a payload holds a copy of the queue's own file,
// and the header of the block around it is lost.
func TestCopyOfAQueueInAPayload(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	_, err := c.tryPut(200)
	require.NoError(t, err)
	var file []byte
	name := "/q/" + segmentName(1, 0)
	c.disk.Damage(name, func(b []byte) []byte { file = slices.Clone(b); return b })
	// One copy that still says sequence 1, and one that says what could come next.
	head := segmentHead{ID: c.id, First: 1}
	fake := slices.Clone(file[dataStart:])
	h := blockHead{}
	require.True(t, h.decode(fake, head.seed(), dataStart))
	h.Sequence = 3
	h.encode(fake, head.seed(), dataStart)
	g := Group{Compression: NoCompression}
	require.NoError(t, g.Add(KindOpaque, 1, append(slices.Clone(file), fake...)))
	res, err := c.Reserve(&g)
	require.NoError(t, err)
	_, _, err = c.Append(nilCtx, res, &g)
	require.NoError(t, err)
	_, err = c.tryPut(100)
	require.NoError(t, err)
	c.disk.Damage(name, func(b []byte) []byte { b[len(file)+8] ^= 1; return b })
	blocks := drain(t, c.Queue)
	require.Len(t, blocks, 2)
	require.Equal(t, Sequence(3), blocks[1].Sequence)
	require.Len(t, blocks[1].Payload, 100, "the true one")
	require.Equal(t, uint64(1), c.Stats().Lost[LostCorrupt].Blocks)
}

// TestGroupEndsThoughItsEndIsLost: nothing follows that could tell, and the reader
// must not hold the group back for it.
func TestGroupEndsThoughItsEndIsLost(t *testing.T) {
	t.Parallel()
	c := newClocked(t, Limits{})
	put(t, c.Queue, "a", "b", "c")
	require.NoError(t, c.Close())
	c.disk.Damage("/q/"+segmentName(1, 0), func(b []byte) []byte { b[len(b)-8] ^= 1; return b })
	c.open(t)
	blocks := drain(t, c.Queue)
	require.Len(t, blocks, 2)
	require.False(t, blocks[0].Last)
	require.True(t, blocks[1].Last)
	require.Equal(t, uint64(1), c.Stats().Lost[LostCorrupt].Blocks, "the cursor's mark tells how many there were")
}
