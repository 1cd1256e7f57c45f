package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// sent is a group that someone tried to append.
type sent struct {
	payloads    []string
	first, last Sequence // zero until Append has returned
	acked       bool     // Append returned nil
	gone        bool     // it was not there after a crash, so it must never come
}

// world is a queue and everything that its users know about it.
type world struct {
	t    testing.TB
	rng  *rand.Rand
	disk *simdisk.Disk
	cfg  Config
	q    *Queue
	r    Reader
	now  time.Time

	groups   []*sent
	byText   map[string]*sent
	seen     map[Sequence]string // what was delivered under a sequence, ever
	before   map[Sequence]string // the same, of the world that this is an image of
	greatest Sequence            // that anyone has seen
	cursor   Sequence            // what was acknowledged by the consumer
	saved    Sequence            // what is acknowledged durably for sure
	durable  Sequence            // what is durable for sure in the modes interval and never
	drops    bool                // something may have been dropped on purpose
	lossy    bool                // mode is not always
	unread   []Sequence          // ends of groups delivered, but not acknowledged
	position Sequence            // of the reader

	readFaults map[string]int // by page
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), disk: simdisk.New(seed),
		byText: map[string]*sent{}, seen: map[Sequence]string{}, readFaults: map[string]int{}, now: time.Unix(1_700_000_000, 0),
	}
	w.cfg = Config{
		Dir: "/q", Name: "test", manual: true, Limits: Limits{MaxBytes: 512 << 10},
		Now: func() time.Time { return w.now },
	}
	w.cfg.chunk = []int{64, 500, 4096, readChunk}[w.rng.IntN(4)]
	return w
}

func (w *world) open() error {
	w.cfg.FS = w.disk
	q, err := Open(w.cfg)
	if err != nil {
		return err
	}
	w.q, w.position, w.unread = q, q.settled(), nil
	w.reader()
	return nil
}

func (w *world) reader() {
	r, err := w.q.NewReader(0)
	require.NoError(w.t, err)
	w.r, w.position, w.unread = r, w.q.settled(), nil
}

// append appends a random group.
func (w *world) append() {
	s := &sent{}
	var g Group
	g.Compression = Compression(w.rng.IntN(3))
	for range 1 + w.rng.IntN(4) {
		size := []int{0, 10, 100, 1000, 3000}[w.rng.IntN(5)]
		if w.rng.IntN(40) == 0 {
			size = 80_000 // larger than what is copied, and than a segment
		}
		text := fmt.Sprintf("%d:%s", len(w.byText), strings.Repeat("x", size))
		if g.Compression == S2 && size > 10 {
			b := []byte(text)
			for i := 8; i < len(b); i++ {
				b[i] = 'a' + byte(w.rng.IntN(26))
			}
			text = string(b)
		}
		s.payloads = append(s.payloads, text)
		w.byText[text] = s
		require.NoError(w.t, g.Add(KindLineProtocol, 1, []byte(text)))
	}
	res, err := w.q.Reserve(&g)
	if err != nil {
		for _, p := range s.payloads {
			w.byText[p].gone = true
		}
		return
	}
	w.groups = append(w.groups, s)
	first, last, err := w.q.Append(context.Background(), res, &g)
	if err != nil {
		return // nobody knows whether it will be found
	}
	require.Equal(w.t, Sequence(len(s.payloads)), last-first+1)
	require.Greater(w.t, first, w.greatest, "a sequence was used again")
	s.first, s.last, s.acked = first, last, true
	w.saw(last)
}

func (w *world) saw(seq Sequence) {
	w.greatest = max(w.greatest, seq)
	if !w.lossy {
		w.durable = w.greatest
	}
}

// readNow returns the next block if there is one.
func readNow(r Reader) (Block, error) {
	rd := r.(*reader)
	if !rd.peeked {
		if err := rd.find(context.Background(), rd.peek, false); err != nil {
			return Block{}, err
		}
		rd.peeked = true
	}
	return rd.Next(context.Background())
}

// read reads up to n groups, and checks them.
func (w *world) read(n int) {
	for range n {
		var b Block
		var texts []string
		for {
			var err error
			b, err = readNow(w.r)
			if errors.Is(err, errNothingYet) {
				require.Empty(w.t, texts, "a group without its end")
				return
			}
			if err != nil {
				continue // a fault; it is tried again
			}
			texts = append(texts, string(b.Payload))
			w.check(b)
			if b.Last {
				break
			}
		}
		w.whole(texts)
		w.unread = append(w.unread, b.Sequence)
	}
}

// check checks one delivered block against what is known. It is called so often
// that it does without package require where all is well.
func (w *world) check(b Block) {
	fail := func(format string, args ...any) {
		require.FailNow(w.t, fmt.Sprintf(format, args...), "sequence %d: %.20q", b.Sequence, b.Payload)
	}
	if b.Sequence <= w.position {
		fail("delivered twice or out of order, after %d", w.position)
	}
	w.position = b.Sequence
	s := w.byText[string(b.Payload)]
	if s == nil {
		fail("a block that nobody appended")
	}
	if s.gone {
		fail("a group came back that had been lost")
	}
	old, ok := w.seen[b.Sequence]
	if !ok {
		old, ok = w.before[b.Sequence]
	}
	if !ok {
		w.seen[b.Sequence] = string(b.Payload)
	} else if old != string(b.Payload) {
		fail("the sequence stood for something else: %.20q", old)
	}
	w.greatest = max(w.greatest, b.Sequence)
	if s.acked && s.payloads[b.Sequence-s.first] != string(b.Payload) {
		fail("not what was appended")
	}
}

// whole checks that the texts are exactly one group.
func (w *world) whole(texts []string) {
	s := w.byText[texts[0]]
	require.Len(w.t, texts, len(s.payloads), "not a whole group")
	for i := range texts {
		require.True(w.t, s.payloads[i] == texts[i], "%.20q and not %.20q", texts[i], s.payloads[i])
	}
}

// step does one random thing.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.rng.IntN(1000)) * time.Millisecond)
	if w.rng.IntN(50) == 0 {
		w.now = w.now.Add(-time.Hour) // somebody sets the clock
	}
	switch n := w.rng.IntN(100); {
	case n < 45:
		w.append()
	case n < 65:
		w.read(1 + w.rng.IntN(6))
	case n < 80:
		w.ack()
	case n < 88:
		w.q.tend()
		w.noteSaved()
	case n < 91:
		_ = w.r.Close()
		w.reader()
	case n < 94 && w.drops:
		w.limits()
	case n < 95 && w.drops:
		_, _ = w.q.Purge()
	case n < 97:
		w.reopen()
	case n < 99:
		w.q.active = time.Time{} // idle for long
		w.q.tend()
		w.noteSaved()
	default:
		w.skip()
	}
	if w.lossy {
		w.durable = max(w.durable, min(w.q.writer.durable, w.greatest))
	}
}

// skip makes a gap in the numbers. What it promised counts as seen: no block may bear it.
func (w *world) skip() {
	seq := w.q.Next() + Sequence(w.rng.IntN(100))
	if err := w.q.SkipTo(seq); err == nil {
		w.greatest = max(w.greatest, seq)
	}
}

func (w *world) ack() {
	if len(w.unread) == 0 {
		return
	}
	i := w.rng.IntN(len(w.unread))
	seq := w.unread[i]
	w.unread = w.unread[i+1:]
	require.NoError(w.t, w.q.Ack(seq))
	w.cursor = max(w.cursor, seq)
}

func (w *world) noteSaved() { w.saved = max(w.saved, w.q.head.saved) }

func (w *world) limits() {
	l := Limits{MaxBytes: int64(64<<10) << w.rng.IntN(4), Policy: Policy(w.rng.IntN(3))}
	if w.rng.IntN(3) == 0 {
		l.MaxAge = time.Duration(w.rng.IntN(60)) * time.Second
	}
	w.q.SetLimits(l)
	w.cfg.Limits = l
}

func (w *world) reopen() {
	_ = w.r.Close()
	if w.lossy {
		// A new process cannot know that an earlier one's sync has failed, and takes
		// what it reads for durable. Without SyncAlways that is not promised.
		fault := w.disk.OnFault
		w.disk.OnFault = nil
		defer func() { w.disk.OnFault = fault }()
	}
	err := w.q.Close()
	if err == nil {
		w.noteSaved()
	}
	for range 100 {
		if err = w.open(); err == nil {
			return
		}
	}
	require.NoError(w.t, err)
}

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
