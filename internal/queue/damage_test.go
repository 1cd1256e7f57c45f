package queue

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// where is a block in a file, as a person with a hex editor would find it: by the
// four letters before it.
type where struct {
	file     string
	off, end int
}

// locate returns where the blocks of a queue are. Payloads must not hold the letters.
func locate(d *simdisk.Disk, t *testing.T) map[Sequence]where {
	t.Helper()
	entries, err := d.List("/q")
	require.NoError(t, err)
	found := map[Sequence]where{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name, ".seg") {
			continue
		}
		d.Damage("/q/"+e.Name, func(b []byte) []byte {
			for off := 1024; off+56 <= len(b); off += 8 {
				if string(b[off:off+4]) == "TBLK" {
					stored := int(binary.LittleEndian.Uint32(b[off+24:]))
					found[Sequence(binary.LittleEndian.Uint64(b[off+8:]))] = where{"/q/" + e.Name, off, off + 56 + (stored+7)/8*8}
				}
			}
			return b
		})
	}
	return found
}

// damaged is a queue of many segments, with gaps between some, of which many blocks
// in a row are damaged.
type damaged struct {
	c      *clocked
	points map[Sequence]int64 // of all blocks
	spoilt map[Sequence]bool  // these are damaged
	header bool               // some of them in the header
	report *Report            // before it was opened
}

func newDamaged(t *testing.T, rng *rand.Rand) *damaged {
	t.Helper()
	c := newClocked(t, Limits{MaxBytes: 512 << 10}) // segments of 64 KiB
	c.cfg.chunk = 1024 << rng.IntN(6)
	x := &damaged{c: c, points: map[Sequence]int64{}, spoilt: map[Sequence]bool{}}
	for range 60 + rng.IntN(40) {
		g := Group{Compression: NoCompression}
		var points []int64
		for range 1 + rng.IntN(3) {
			points = append(points, int64(rng.IntN(50)))
			require.NoError(t, g.Add(KindOpaque, int(points[len(points)-1]), []byte(strings.Repeat("p", rng.IntN(4000)))))
		}
		res, err := c.Reserve(&g)
		require.NoError(t, err)
		first, _, err := c.Append(nilCtx, res, &g)
		require.NoError(t, err)
		for i, n := range points {
			x.points[first+Sequence(i)] = n
		}
		if rng.IntN(10) == 0 {
			require.NoError(t, c.SkipTo(c.Next()+Sequence(rng.IntN(100))))
		}
	}
	require.NoError(t, c.Close())
	blocks := locate(c.disk, t)
	require.Len(t, blocks, len(x.points))
	order := make([]Sequence, 0, len(blocks))
	for s := range blocks {
		order = append(order, s)
	}
	slices.Sort(order)
	for range 1 + rng.IntN(4) {
		from := rng.IntN(len(order))
		kind := rng.IntN(3) // headers, payloads, or either
		for _, s := range order[from:min(len(order), from+1+rng.IntN(12))] {
			at := blocks[s]
			off := at.off + rng.IntN(56)
			if kind == 1 || kind == 2 && rng.IntN(2) == 0 {
				if at.end == at.off+56 {
					continue // no payload
				}
				off = at.off + 56
			} else {
				x.header = true
			}
			if !x.spoilt[s] {
				c.disk.Damage(at.file, func(b []byte) []byte { b[off] ^= 1; return b })
			}
			x.spoilt[s] = true
		}
	}
	for range rng.IntN(3) {
		x.spoilSegment(t, rng, blocks)
	}
	c.lost = nil
	x.report = inspected(t, c)
	c.open(t)
	return x
}

// spoilSegment leaves nothing good of a segment, or not even the file.
func (x *damaged) spoilSegment(t *testing.T, rng *rand.Rand, blocks map[Sequence]where) {
	t.Helper()
	entries, err := x.c.disk.List("/q")
	require.NoError(t, err)
	entries = slices.DeleteFunc(entries, func(e disk.Entry) bool { return !strings.HasSuffix(e.Name, segmentSuffix) })
	name := "/q/" + entries[rng.IntN(len(entries))].Name
	inBlocks, inHeaders, gone := rng.IntN(4) > 0, rng.IntN(2) == 0, rng.IntN(4) == 0
	if gone {
		x.c.disk.Delete(name)
	} else {
		x.c.disk.Damage(name, func(b []byte) []byte {
			if inHeaders {
				b[20], b[headCopyAt+20] = b[20]^1, b[headCopyAt+20]^1
			}
			if inBlocks {
				clear(b[dataStart:])
			}
			return b
		})
	}
	for s, at := range blocks {
		if at.file == name && (gone || inBlocks) {
			x.spoilt[s], x.header = true, true
		}
	}
}

// declared checks that exactly these are declared lost: each once, and the points of
// those whose header is good.
func (x *damaged) declared(t *testing.T, lost map[Sequence]bool) {
	t.Helper()
	seen := map[Sequence]bool{}
	var blocks, most uint64
	var points int64
	exact := true
	for _, l := range x.c.Stats().Losses {
		require.Equal(t, l.Blocks, uint64(l.Last-l.First+1), "%+v", l)
		blocks += l.Blocks
		points += l.Points
		exact = exact && l.Exact
		for s := l.First; s <= l.Last; s++ {
			require.False(t, seen[s], "%d is declared twice", s)
			seen[s] = true
		}
	}
	require.Equal(t, lost, seen)
	for s := range lost {
		most += uint64(x.points[s])
	}
	require.LessOrEqual(t, points, int64(most), "points are counted at least, not at most")
	if exact {
		require.Equal(t, int64(most), points)
	}
	if !x.header {
		require.True(t, exact, "all headers are good")
	}
	var told uint64
	for _, l := range x.c.lost {
		told += l.Blocks
	}
	require.Equal(t, blocks, told, "everyone was told the same")
	var total uint64
	for _, sum := range x.c.Stats().Lost {
		total += sum.Blocks
	}
	require.Equal(t, blocks, total)
}

// sendAll reads and acknowledges everything, while the process is killed now and then.
func (x *damaged) sendAll(t *testing.T, rng *rand.Rand) {
	t.Helper()
	r, err := x.c.NewReader(0)
	require.NoError(t, err)
	for {
		b, err := readNow(r)
		if errors.Is(err, errNothingYet) {
			break
		}
		require.NoError(t, err)
		require.False(t, x.spoilt[b.Sequence])
		if b.Last && rng.IntN(3) > 0 {
			require.NoError(t, x.c.Ack(b.Sequence))
		}
		if rng.IntN(5) == 0 {
			x.c.tend() // and removes what was sent
		}
		if rng.IntN(30) == 0 {
			left := x.c.disk.Crash(rng.Uint64())
			require.NoError(t, r.Close())
			require.NoError(t, x.c.Close())
			x.c.disk, x.c.cfg.FS = left, left
			x.c.lost = inspected(t, x.c).Losses
			x.c.open(t)
			r, err = x.c.NewReader(0)
			require.NoError(t, err)
		}
	}
	require.NoError(t, r.Close())
}

// TestNothingSilentBehindSeveralDamagedBlocks damages runs of blocks, within segments,
// at their ends and across them, and reads, inspects or drops what is there.
func TestNothingSilentBehindSeveralDamagedBlocks(t *testing.T) {
	t.Parallel()
	read := func(t *testing.T, x *damaged, n int) Sequence {
		r, err := x.c.NewReader(0)
		require.NoError(t, err)
		defer r.Close()
		last := Sequence(0)
		for range n {
			b, err := readNow(r)
			if err != nil {
				require.ErrorIs(t, err, errNothingYet)
				break
			}
			require.False(t, x.spoilt[b.Sequence])
			require.Equal(t, x.points[b.Sequence], int64(b.Points))
			last = b.Sequence
		}
		return last
	}
	for name, use := range map[string]func(*testing.T, *damaged, *rand.Rand){
		"read": func(t *testing.T, x *damaged, _ *rand.Rand) {
			require.Equal(t, len(x.spoilt), int(x.report.Missing), "%+v", x.report.Problems)
			for range 2 { // the second one finds nothing new
				read(t, x, 1<<20)
				x.declared(t, x.spoilt)
			}
			require.Zero(t, inspected(t, x.c).Missing, "all of it is declared")
		},
		"acknowledge": func(t *testing.T, x *damaged, rng *rand.Rand) {
			x.sendAll(t, rng)
			x.declared(t, x.spoilt)
		},
		"drop": func(t *testing.T, x *damaged, rng *rand.Rand) {
			read(t, x, rng.IntN(len(x.points))) // some of it is declared already
			_, err := x.c.Purge()
			require.NoError(t, err)
			read(t, x, 1<<20)
			all := map[Sequence]bool{}
			for s := range x.points {
				all[s] = true
			}
			x.declared(t, all)
		},
		"make room": func(t *testing.T, x *damaged, rng *rand.Rand) {
			read(t, x, rng.IntN(len(x.points)))
			_, err := x.c.makeRoom(int64(rng.IntN(300_000)))
			require.NoError(t, err)
			read(t, x, 1<<20)
			lost := map[Sequence]bool{}
			for s := range x.points {
				if s <= x.c.Stats().Floor || x.spoilt[s] {
					lost[s] = true
				}
			}
			x.declared(t, lost)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seeds(t, count(60, 3000), func(t *testing.T, seed uint64) bool {
				rng := rand.New(rand.NewPCG(seed, 20))
				x := newDamaged(t, rng)
				use(t, x, rng)
				require.NoError(t, x.c.Close())
				return true
			})
		})
	}
}

// inspected looks at a copy.
func inspected(t *testing.T, c *clocked) *Report {
	t.Helper()
	copied := c.disk.Clone()
	rep, err := Inspect(Config{Dir: "/q", FS: copied}, true)
	require.NoError(t, err)
	return rep
}

// TestNothingSilentWhenASegmentIsCut cuts a segment of a closed queue at every block,
// and in the middle of each. What is missing is declared, exactly, and nothing else.
func TestNothingSilentWhenASegmentIsCut(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"first", "newest", "only"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			c := newClocked(t, Limits{MaxBytes: 512 << 10})
			for range map[string]int{"first": 25, "newest": 25, "only": 10}[which] {
				_, err := c.tryPut(5000)
				require.NoError(t, err)
			}
			require.NoError(t, c.Close())
			blocks := locate(c.disk, t)
			whole := c.disk
			victim := blocks[1].file
			if which == "newest" {
				victim = blocks[Sequence(len(blocks))].file
			}
			cuts := []int{0, 100, 1024}
			for _, at := range blocks {
				if at.file == victim {
					cuts = append(cuts, at.off, at.off+30, at.off+2000)
				}
			}
			for _, cut := range cuts {
				c.disk = whole.Clone()
				c.cfg.FS = c.disk
				c.disk.Damage(victim, func(b []byte) []byte { return b[:cut] })
				missing := map[Sequence]bool{}
				for s, at := range blocks {
					if at.file == victim && at.end > cut {
						missing[s] = true
					}
				}
				what := fmt.Sprintf("%s cut at %d", victim, cut)
				rep := inspected(t, c)
				require.Equal(t, len(missing), int(rep.Missing), "%s: %+v", what, rep.Problems)
				c.open(t)
				got := drain(t, c.Queue)
				last, err := c.tryPut(10)
				require.NoError(t, err)
				require.Equal(t, last, drain(t, c.Queue)[len(got)].Sequence)
				require.Len(t, got, len(blocks)-len(missing), what)
				seen := map[Sequence]bool{}
				for _, l := range c.Stats().Losses {
					require.Equal(t, LostCorrupt, l.Reason, what)
					require.Equal(t, l.Blocks, uint64(l.Last-l.First+1), what)
					require.LessOrEqual(t, l.Bytes, int64(5200), "%s: no more than the rest of one block can be looked at", what)
					for s := l.First; s <= l.Last; s++ {
						seen[s] = true
					}
				}
				require.Equal(t, missing, seen, what)
				require.NoError(t, c.Close())
			}
		})
	}
}
