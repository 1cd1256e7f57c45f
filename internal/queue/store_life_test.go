package queue

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/tailrace-cdc/tailrace/internal/queue/disk"
	"github.com/tailrace-cdc/tailrace/internal/queue/disk/simdisk"
)

// gate is a file system that stops at the first look at one directory, until it is let through.
type gate struct {
	disk.FS
	dir      string
	once     sync.Once
	in, goOn chan struct{}
}

func newGate(fs disk.FS, dir string) *gate {
	return &gate{FS: fs, dir: dir, in: make(chan struct{}), goOn: make(chan struct{})}
}

func (g *gate) List(dir string) ([]disk.Entry, error) {
	if dir == g.dir {
		g.once.Do(func() {
			close(g.in)
			<-g.goOn
		})
	}
	return g.FS.List(dir)
}

// TestFencedCloseDuringOpen: a store that is closed gives its lock back, so no queue may live on.
func TestFencedCloseDuringOpen(t *testing.T) {
	t.Parallel()
	d := simdisk.New(1)
	g := newGate(d, "/data/a")
	s, err := OpenStore(StoreConfig{Dir: "/data", FS: g})
	require.NoError(t, err)
	opened, closed := make(chan error), make(chan error)
	go func() {
		q, err := s.Open("a", Config{})
		if q != nil {
			t.Error("a queue was handed out by a store that is closed")
		}
		opened <- err
	}()
	<-g.in
	go func() { closed <- s.Close() }()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.closed
	}, time.Minute, time.Millisecond)
	_, err = OpenStore(StoreConfig{Dir: "/data", FS: d})
	var locked *LockedError
	require.ErrorAs(t, err, &locked, "what is being opened is under the store's lock")
	close(g.goOn)
	require.ErrorIs(t, <-opened, ErrClosed)
	require.NoError(t, <-closed)
	require.Zero(t, d.Handles(), "a file is left open")
	s, err = OpenStore(StoreConfig{Dir: "/data", FS: d})
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// TestAckedOpenDuringDelete: a queue cannot be opened, and appended to, while its files are removed.
func TestAckedOpenDuringDelete(t *testing.T) {
	t.Parallel()
	d := simdisk.New(1)
	g := newGate(d, "/data/a/aside")
	s, err := OpenStore(StoreConfig{Dir: "/data", FS: g})
	require.NoError(t, err)
	q, err := s.Open("a", Config{})
	require.NoError(t, err)
	old := q.ID()
	put(t, q, "of the queue that is deleted")
	require.NoError(t, q.Close())
	deleted := make(chan error)
	go func() { deleted <- s.Delete("a") }()
	<-g.in
	_, err = s.Open("a", Config{})
	require.ErrorContains(t, err, "a is being opened or deleted")
	require.ErrorContains(t, s.Delete("a"), "a is being opened or deleted")
	b, err := s.Open("b", Config{})
	require.NoError(t, err, "others are not concerned")
	put(t, b, "x")
	stats, err := s.Stats()
	require.NoError(t, err)
	require.Equal(t, 1, stats.Queues)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.closed
	}, time.Minute, time.Millisecond)
	select {
	case <-closed:
		t.Fatal("the store was closed while it removed files")
	default:
	}
	close(g.goOn)
	require.NoError(t, <-deleted)
	require.NoError(t, <-closed)
	require.ErrorIs(t, s.Delete("b"), ErrClosed, "its files may be another's by now")

	s, err = OpenStore(StoreConfig{Dir: "/data", FS: d})
	require.NoError(t, err)
	defer s.Close()
	names, err := s.List()
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, names)
	q, err = s.Open("a", Config{})
	require.NoError(t, err)
	require.NotEqual(t, old, q.ID())
	require.Empty(t, drain(t, q))
}

// TestDeleteTakesOnlyNamesOfQueues: others would lead to files that are not a queue's.
func TestDeleteTakesOnlyNamesOfQueues(t *testing.T) {
	t.Parallel()
	d := simdisk.New(1)
	s, err := OpenStore(StoreConfig{Dir: "/data/queues", FS: d})
	require.NoError(t, err)
	q, err := s.Open("b", Config{manual: true})
	require.NoError(t, err)
	put(t, q, "x")
	require.NoError(t, q.Close())
	for _, bad := range []string{"", ".", "..", "a/b", "../queues", ".x", "lock"} {
		require.Error(t, s.Delete(bad), "%q", bad)
	}
	q, err = s.Open("b", Config{manual: true})
	require.NoError(t, err)
	require.Len(t, drain(t, q), 1)
	require.NoError(t, s.Close())
}

// storeLife is what is known about the queues of a store that many use at once.
type storeLife struct {
	t       *testing.T
	names   []string
	disk    *simdisk.Disk
	changes atomic.Int64 // of the disk
	texts   atomic.Int64

	mu   sync.Mutex
	life map[string]*queueLife
}

type queueLife struct {
	id     ID
	owner  int64 // a number for each time that it was handed out, zero while nobody has it
	opened int64
	acked  []string

	deleting int  // how many are at it
	deleted  bool // by someone, so that it may be another queue
}

// owned is a queue in the hands of one of the users.
type owned struct {
	*Queue
	name  string
	owner int64
}

// TestAckedStoreLife opens, appends to, closes and deletes queues from many goroutines while their store is
// closed, over and over. A queue is in one hand at a time, has all that was acknowledged until someone
// deletes it, and nothing happens on the disk any more when the store has closed. Goroutines take turns as
// they like, so a seed gives the same choices but not the same turns.
func TestAckedStoreLife(t *testing.T) {
	t.Parallel()
	seeds(t, count(15, 500), func(t *testing.T, seed uint64) bool {
		l := &storeLife{t: t, names: []string{"a", "b", "c"}, disk: simdisk.New(seed), life: map[string]*queueLife{}}
		l.disk.OnChange = func(simdisk.Op) { l.changes.Add(1) }
		for _, name := range l.names {
			l.life[name] = &queueLife{}
		}
		for round := range uint64(6) {
			l.round(seed<<8 + round)
		}
		return true
	})
}

// round is one store from its opening to its closing, and a look at what is left.
func (l *storeLife) round(seed uint64) {
	s, err := OpenStore(StoreConfig{Dir: "/data", FS: l.disk})
	require.NoError(l.t, err)
	rng := rand.New(rand.NewPCG(seed, 1))
	closeAfter := 1 + int64(rng.IntN(60))
	var steps atomic.Int64
	enough := make(chan struct{})
	var users sync.WaitGroup
	for range 6 {
		mine := rand.New(rand.NewPCG(rng.Uint64(), 2))
		users.Go(func() {
			for goesOn := true; goesOn; {
				goesOn = l.step(s, mine)
				if steps.Add(1) == closeAfter {
					close(enough)
				}
			}
		})
	}
	<-enough
	require.NoError(l.t, s.Close())
	changes := l.changes.Load()
	users.Wait()
	require.Equal(l.t, changes, l.changes.Load(), "the disk was written to when the store had closed")
	require.Zero(l.t, l.disk.Handles(), "a file is left open")

	s, err = OpenStore(StoreConfig{Dir: "/data", FS: l.disk})
	require.NoError(l.t, err)
	for _, name := range l.names {
		q := l.open(s, name)
		require.NotNil(l.t, q)
		l.close(q)
	}
	require.NoError(l.t, s.Close())
}

// step does something, and reports whether the store goes on.
func (l *storeLife) step(s *Store, rng *rand.Rand) bool {
	name := l.names[rng.IntN(len(l.names))]
	switch rng.IntN(6) {
	case 0:
		return l.delete(s, name)
	case 1:
		s.SetLimits(StoreLimits{MaxBytes: int64(rng.IntN(3)) << 26})
		if _, err := s.List(); err != nil {
			l.t.Errorf("list: %v", err)
		}
		if _, err := s.Stats(); err != nil {
			l.t.Errorf("stats: %v", err)
		}
		return true
	}
	q := l.open(s, name)
	if q == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.closed
	}
	var writers sync.WaitGroup
	for range 1 + rng.IntN(3) {
		n := rng.IntN(4)
		writers.Go(func() {
			for range n {
				l.put(q)
			}
		})
	}
	if rng.IntN(3) == 0 {
		writers.Wait()
	}
	l.close(q) // beside those that still append
	writers.Wait()
	return true
}

func (l *storeLife) delete(s *Store, name string) bool {
	l.mu.Lock()
	life := l.life[name]
	life.deleting++
	owner := life.owner
	l.mu.Unlock()
	err := s.Delete(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	life.deleting--
	life.deleted = life.deleted || err == nil
	if err == nil && owner != 0 && life.owner == owner {
		l.t.Errorf("%s was deleted while it was open", name)
	}
	if err != nil && !errors.Is(err, ErrClosed) && !taken(err) {
		l.t.Errorf("delete: %v", err)
	}
	return !errors.Is(err, ErrClosed)
}

func taken(err error) bool {
	return strings.Contains(err.Error(), "is open, close it first") || strings.Contains(err.Error(), "is being opened or deleted")
}

func (l *storeLife) put(q *owned) {
	text := strconv.FormatInt(l.texts.Add(1), 10)
	var g Group
	if err := g.Add(KindOpaque, 1, []byte(text)); err != nil {
		l.t.Errorf("add: %v", err)
	}
	res, err := q.Reserve(&g)
	if err == nil {
		_, _, err = q.Append(nilCtx, res, &g)
	}
	switch {
	case err == nil:
		l.mu.Lock()
		defer l.mu.Unlock()
		if life := l.life[q.name]; life.id == q.ID() {
			life.acked = append(life.acked, text)
		}
	case !errors.Is(err, ErrClosed):
		l.t.Errorf("append: %v", err)
	}
}

// open returns nil if the queue is in other hands, or the store is closed.
func (l *storeLife) open(s *Store, name string) *owned {
	q, err := s.Open(name, Config{Sync: SyncMode(l.texts.Load() % 3)})
	if err != nil {
		if !errors.Is(err, ErrClosed) && !taken(err) {
			l.t.Errorf("open: %v", err)
		}
		return nil
	}
	l.mu.Lock()
	life := l.life[name]
	if life.owner != 0 {
		l.t.Errorf("%s was handed out twice", name)
	}
	life.opened++
	life.owner = life.opened
	o := &owned{Queue: q, name: name, owner: life.owner}
	if life.id != q.ID() {
		if life.id != (ID{}) && life.deleting == 0 && !life.deleted {
			l.t.Errorf("%s is another queue, and nobody has deleted it", name)
		}
		life.id, life.acked, life.deleted = q.ID(), nil, false
	}
	acked := slices.Clone(life.acked)
	l.mu.Unlock()
	l.look(o, acked)
	return o
}

// look compares what is there with what has to be, unless the store is closed meanwhile.
func (l *storeLife) look(q *owned, acked []string) {
	r, err := q.NewReader(0)
	if err != nil {
		return
	}
	defer r.Close()
	there := map[string]bool{}
	for err == nil {
		var b Block
		if b, err = readNow(r); err == nil {
			there[string(b.Payload)] = true
		}
	}
	if errors.Is(err, ErrClosed) {
		return
	}
	if !errors.Is(err, errNothingYet) {
		l.t.Errorf("read: %v", err)
	}
	if lost := slices.DeleteFunc(acked, func(text string) bool { return there[text] }); len(lost) > 0 {
		l.t.Errorf("%s lacks %v, which were acknowledged", q.name, lost)
	}
	if losses := q.Stats().Losses; len(losses) > 0 {
		l.t.Errorf("%s has lost %v", q.name, losses)
	}
}

func (l *storeLife) close(q *owned) {
	l.mu.Lock()
	if life := l.life[q.name]; life.owner == q.owner {
		life.owner = 0
	}
	l.mu.Unlock()
	if err := q.Close(); err != nil {
		l.t.Errorf("close: %v", err)
	}
}
