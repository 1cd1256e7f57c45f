package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// verify opens a copy of what is on a disk, and checks every promise.
func (w *world) verify(d disk.FS) {
	cfg := w.cfg
	cfg.FS, cfg.Limits.MaxAge = d, 0
	q, err := Open(cfg)
	require.NoError(w.t, err, "it does not open")
	defer func() {
		if w.t.Failed() {
			w.t.Logf("durable %d greatest %d\n%s", w.durable, w.greatest, describe(d, q))
		}
	}()
	v := *w // what is seen in an image that never became real is not seen
	v.q, v.before, v.seen, v.position = q, w.seen, map[Sequence]string{}, 0
	v.r, err = q.NewReader(0)
	require.NoError(w.t, err)
	v.position = q.settled()
	require.LessOrEqual(w.t, q.Cursor(), w.cursor, "the cursor is ahead of what was acknowledged")
	require.GreaterOrEqual(w.t, q.Cursor(), w.saved, "the cursor is behind what was durable")
	found := map[*sent]bool{}
	for {
		before := v.position
		b, err := readNow(v.r)
		if errors.Is(err, errNothingYet) {
			break
		}
		require.NoError(w.t, err)
		v.check(b)
		s := v.byText[string(b.Payload)]
		if !found[s] {
			require.True(w.t, s.payloads[0] == string(b.Payload), "a group without its beginning, after %d: %.20q", before, b.Payload)
			found[s] = true
		}
		if (s.payloads[len(s.payloads)-1] == string(b.Payload)) != b.Last {
			require.Fail(w.t, "the end of a group is wrong", "sequence %d", b.Sequence)
		}
	}
	w.present(q, found)
	var g Group
	require.NoError(w.t, g.Add(KindOpaque, 0, []byte("one more")))
	q.SetLimits(Limits{})
	res, err := q.Reserve(&g)
	require.NoError(w.t, err)
	first, _, err := q.Append(context.Background(), res, &g)
	require.NoError(w.t, err)
	require.Greater(w.t, first, w.greatest, "a sequence would be used again")
	b, err := readNow(v.r)
	require.NoError(w.t, err)
	require.Equal(w.t, first, b.Sequence)
	require.NoError(w.t, v.r.Close())
	require.NoError(w.t, q.Close())
}

// present checks that what was acknowledged to the writers is there, or was
// dropped on purpose and is declared.
func (w *world) present(q *Queue, found map[*sent]bool) {
	stats := q.Stats()
	declared := func(s *sent) bool {
		for _, x := range stats.Losses {
			onPurpose := x.Reason == LostOldest || x.Reason == LostAge || x.Reason == LostPurge
			if onPurpose && x.First <= s.first && s.last <= x.Last {
				return true
			}
		}
		return s.last <= stats.Floor
	}
	for _, s := range w.groups {
		// In the modes that do not sync, only what was synced is promised.
		if !s.acked || s.last <= w.cursor || found[s] || s.gone || w.lossy && s.last > w.durable {
			continue
		}
		require.True(w.t, w.drops && declared(s), "group %d-%d was acknowledged and is lost; losses %+v", s.first, s.last, stats.Losses)
	}
	for _, x := range stats.Losses {
		for _, s := range w.groups {
			if x.Reason == LostCorrupt && s.acked && !w.lossy && x.First <= s.last && s.first <= x.Last && !s.gone {
				require.Fail(w.t, "declared corrupt without damage", "%+v covers %d-%d", x, s.first, s.last)
			}
		}
	}
}

// crashed goes on with what a power cut left.
func (w *world) crashed(d *simdisk.Disk) {
	w.disk = d
	require.NoError(w.t, w.open())
	// What is not there now must not come back later.
	r, err := w.q.NewReader(0)
	require.NoError(w.t, err)
	here := map[string]bool{}
	for {
		b, err := readNow(r)
		if err != nil {
			break
		}
		here[string(b.Payload)] = true
	}
	require.NoError(w.t, r.Close())
	for _, s := range w.groups {
		if !here[s.payloads[0]] && (s.last > w.q.settled() || !s.acked) {
			s.gone = true
		}
	}
	w.cursor, w.saved = w.q.Cursor(), w.q.Cursor()
}

// describe tells what lies in a segment, for when a test fails.
func describe(fsys disk.FS, q *Queue) string {
	var b strings.Builder
	entries, _ := fsys.List(q.dir)
	fmt.Fprintf(&b, "cursor %d floor %d newest %d next %d head %+v\n", q.Cursor(), q.floor.Load(), q.newest, q.next, q.head.at)
	for _, e := range entries {
		fmt.Fprintf(&b, "  %s %d\n", e.Name, e.Size)
	}
	for _, s := range segmentsOf(entries, q.id) {
		f, err := fsys.Open(q.path(s.name))
		if err != nil {
			continue
		}
		h, state, _, _ := readSegmentHead(f)
		fmt.Fprintf(&b, "%s state %d prev %d reason %d\n", s.name, state, h.Prev, h.Reason)
		sc := scanner{window: window{file: f, chunk: readChunk}, seed: s.seed, off: dataStart, limit: s.end}
		for {
			x, err := sc.next()
			if !x.bad.empty() {
				fmt.Fprintf(&b, "    bad %d-%d\n", x.bad.from, x.bad.to)
			}
			if err != nil {
				break
			}
			fmt.Fprintf(&b, "    %d at %d index %d last %v synced %d\n", x.Sequence, x.off, x.Index, x.last(), x.Synced)
		}
		_ = f.Close()
	}
	for _, x := range q.books.ledger.Losses {
		fmt.Fprintf(&b, "  %+v\n", x)
	}
	return b.String()
}
