package memory

import (
	"context"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// Config is how a Target behaves. The zero Config is a target without constraints and faults.
type Config struct {
	// Traits are what the target says of itself; by default Transactional. A target that is not
	// Transactional behaves the same: it only says less.
	Traits *logical.Traits
	// Unique lists secondary unique constraints.
	Unique []Unique
	// Reject is asked about each mutation that is applied. An error that it returns is given to the
	// caller, with logical.ClassReject unless it has a class of its own.
	Reject func(m *logical.Mutation) error
	// Hook injects faults; nil injects none.
	Hook Hook
	// Observe is told of every commit, in commit order, while the target is locked: it must not
	// call the target.
	Observe func(Commit)
	// Record keeps all applications of each key for [Target.History]. It grows without bound.
	Record bool
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

// Unique is a secondary unique constraint. Rows with a null in one of its columns are not bound by
// it.
type Unique struct {
	// Table is the qualified name, as logical.Relation.String returns it.
	Table string
	// Columns are the names of the columns.
	Columns []string
}

// A Commit is what Config.Observe is told. What it points to may be kept, and must not be changed.
type Commit struct {
	Loop      string
	Mutations []logical.Mutation
	Memo      *logical.MemoState // nil if the transaction did not set it
	Letters   []logical.DeadLetter
}

// A Target is a database in memory. It implements logical.Target and logical.DeadLetters.
type Target struct {
	cfg Config

	mu      sync.Mutex
	changed chan struct{} // closed and forgotten when something changed that somebody waits for
	tables  map[string]*table
	locks   map[string]*lock
	loops   map[string]*loop
	letters []logical.DeadLetter
	history map[string][]logical.Mutation
	counts  map[site]uint64
	lastID  int64
	closed  bool
	late    sync.WaitGroup // commits whose caller has been told already
}

var (
	_ logical.Target      = (*Target)(nil)
	_ logical.DeadLetters = (*Target)(nil)
)

// A loop is what the target keeps for one loop.
type loop struct {
	epoch   uint64
	session *session // the one that holds the lease, or held it last
	open    map[*tx]struct{}
	memo    logical.MemoState
}

// Open returns an empty target.
func Open(cfg Config) *Target {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Traits == nil {
		cfg.Traits = &logical.Traits{Transactional: true}
	}
	return &Target{
		cfg:     cfg,
		tables:  map[string]*table{},
		locks:   map[string]*lock{},
		loops:   map[string]*loop{},
		history: map[string][]logical.Mutation{},
		counts:  map[site]uint64{},
	}
}

// Traits implements logical.Target.
func (t *Target) Traits() logical.Traits { return *t.cfg.Traits }

// Close implements logical.Target. It waits for commits that are on their way.
func (t *Target) Close() error {
	t.mu.Lock()
	t.closed = true
	t.broadcast()
	t.mu.Unlock()
	t.late.Wait()
	return nil
}

// Take implements logical.Target.
func (t *Target) Take(ctx context.Context, claim logical.Claim) (logical.Session, error) {
	f, err := t.before(ctx, claim.Loop, SiteTake)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.loops[claim.Loop]
	if l == nil {
		l = &loop{open: map[*tx]struct{}{}}
		t.loops[claim.Loop] = l
	}
	for !l.session.free(claim.Holder, t.cfg.Now()) {
		if err := t.waitLease(ctx, l.session); err != nil {
			return nil, err
		}
	}
	s := &session{target: t, claim: claim, loop: l, lost: make(chan struct{})}
	l.session.end()
	l.session = s
	if err := t.bump(ctx, l, true); err != nil {
		return nil, err
	}
	if l.session != s {
		return nil, fenced(claim.Loop)
	}
	if err := f.after(); err != nil {
		return nil, err
	}
	return s, nil
}

// bump raises the epoch of a loop, and waits until all transactions of older epochs have ended. With
// kill set, those among them that are not in the middle of a call are rolled back, as a database
// does with the sessions of a client that is gone. Callers hold mu.
func (t *Target) bump(ctx context.Context, l *loop, kill bool) error {
	l.epoch++
	epoch := l.epoch
	for {
		older := 0
		for x := range l.open {
			switch {
			case x.epoch >= epoch:
			case kill && !x.busy && !x.late:
				x.dead = true
				x.end()
			default:
				older++
			}
		}
		if older == 0 {
			return nil
		}
		if err := t.wait(ctx); err != nil {
			return err
		}
	}
}

// wait releases mu until something has changed. Callers hold mu.
func (t *Target) wait(ctx context.Context) error {
	if t.closed {
		return errors.New("memory: target is closed")
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	changed := t.changed
	t.mu.Unlock()
	defer t.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return errors.WithStack(context.Cause(ctx))
	}
}

// broadcast wakes whoever waits. Callers hold mu.
func (t *Target) broadcast() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

func classed(class logical.Class, err error) error {
	return &logical.Error{Err: err, Class: class}
}

func fenced(loop string) error {
	return classed(logical.ClassFenced, errors.Errorf("memory: loop %s belongs to somebody else", loop))
}
