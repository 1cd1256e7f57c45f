package influx

import (
	"context"
	"net/http"
	"net/url"
	"sync"

	"github.com/pkg/errors"

	"github.com/tailrace-cdc/tailrace/logical"
)

// A Target is one remote that loops write to. Its methods may be called concurrently.
type Target struct {
	cfg    Config
	base   *url.URL
	client *http.Client
	gzip   bool

	sizer sizer
	calm  calm
	facts recorder
	peer  peer

	mu     sync.Mutex
	loops  map[string]*session // the one that holds the lease
	freed  chan struct{}       // closed and forgotten when a lease becomes free
	closed bool
}

var (
	_ logical.Target      = (*Target)(nil)
	_ logical.DeadLetters = (*Target)(nil)
)

// Open returns the target. It does not speak to the remote.
func Open(cfg Config) (*Target, error) {
	cfg, base, err := cfg.normal()
	if err != nil {
		return nil, err
	}
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	t := &Target{
		cfg: cfg, base: base, client: client, gzip: compresses(cfg.Compression, base.Hostname()),
		sizer: newSizer(cfg.MaxRequestBytes), loops: map[string]*session{},
	}
	t.facts.init(cfg.ID)
	return t, nil
}

// Name returns the URL without secrets, and where in it points go.
func (t *Target) Name() string { return t.cfg.URL + " bucket " + t.cfg.Bucket }

// Traits says that delivery is at least once, and that lines are forwarded as they came.
func (t *Target) Traits() logical.Traits {
	return logical.Traits{WantsRaw: true, MaxParallel: t.cfg.Parallel}
}

// Close ends the connections. Sessions lose their leases.
func (t *Target) Close() error {
	t.mu.Lock()
	t.closed = true
	for _, s := range t.loops {
		s.lose()
	}
	t.wake()
	t.mu.Unlock()
	t.client.CloseIdleConnections()
	return nil
}

// Take takes a loop over, in this process: another holder's session is waited for, the same holder's
// ends at once.
func (t *Target) Take(ctx context.Context, claim logical.Claim) (logical.Session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, errors.Wrap(err, "influx: take")
	}
	t.mu.Lock()
	for {
		old := t.loops[claim.Loop]
		if t.closed {
			t.mu.Unlock()
			return nil, errClosed()
		}
		if old == nil || old.claim.Holder == claim.Holder {
			s := newSession(t, claim)
			t.loops[claim.Loop] = s
			t.mu.Unlock()
			if old != nil {
				old.lose()
				if err := old.quiet(ctx); err != nil {
					s.free()
					return nil, err
				}
			}
			return s, nil
		}
		if t.freed == nil {
			t.freed = make(chan struct{})
		}
		freed := t.freed
		t.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, errors.Wrapf(context.Cause(ctx), "influx: loop %s is held by another", claim.Loop)
		}
		t.mu.Lock()
	}
}

// wake tells those who wait for a lease. Callers hold mu.
func (t *Target) wake() {
	if t.freed != nil {
		close(t.freed)
		t.freed = nil
	}
}

func (t *Target) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

func errClosed() error { return errors.New("influx: the target is closed") }
