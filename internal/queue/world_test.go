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
	// setBack says that the clock was, so that times of blocks are not in order.
	setBack bool

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
