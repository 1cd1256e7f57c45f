package outbound

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"

	"github.com/pkg/errors"
)

// A DialFunc opens connections.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext returns a function that dials as base does and refuses, with a *RefusedError, what the policy
// does. It fits http.Transport.DialContext and pgconn.Config.DialFunc. The address must hold the host as it
// was named. A Control or ControlContext of the base is called too.
//
// The function belongs to one remote: an address to which a name has led it may be given to it later instead
// of the name, as a driver does that cancels a statement.
func (p *Policy) DialContext(base *net.Dialer) DialFunc {
	g := &guard{policy: p, base: base, known: map[netip.Addr]string{}}
	return g.dial
}

// A guard dials for one remote.
type guard struct {
	policy *Policy
	base   *net.Dialer

	mu    sync.Mutex
	known map[netip.Addr]string // addresses that were connected to, by the name that led there
}

func (g *guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if strings.HasPrefix(network, "unix") {
		if err := g.policy.checkUnix(address); err != nil {
			return nil, err
		}
		return g.base.DialContext(ctx, network, address)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	name := host
	if addr, err := netip.ParseAddr(host); err == nil {
		name = g.nameOf(addr)
	}
	if err := g.policy.CheckHost(host); err != nil && (name == "" || name == host) {
		return nil, err
	}
	d := *g.base
	d.Control = nil
	d.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
		return g.control(ctx, name, network, address, c)
	}
	conn, err := d.DialContext(ctx, network, address)
	var refused *RefusedError
	if errors.As(err, &refused) {
		return nil, refused // without what net wraps around it, which has it twice
	}
	return conn, err
}

// control checks the address that is about to be connected to; the name is empty if it is what was given.
func (g *guard) control(ctx context.Context, name, network, address string, c syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return errors.WithStack(err)
	}
	if err := g.policy.checkAddr(name, to.Addr()); err != nil {
		return err
	}
	if name != "" {
		g.learn(to.Addr(), name)
	}
	switch {
	case g.base.ControlContext != nil:
		return g.base.ControlContext(ctx, network, address, c)
	case g.base.Control != nil:
		return g.base.Control(network, address, c)
	}
	return nil
}

func (g *guard) nameOf(addr netip.Addr) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known[addr.Unmap()]
}

// learn remembers which name led to an address. A name that leads to ever new ones is not remembered whole.
func (g *guard) learn(addr netip.Addr, name string) {
	const most = 64
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.known) >= most {
		clear(g.known)
	}
	g.known[addr.Unmap()] = name
}

// Proxy returns a function for http.Transport.Proxy that asks next for the proxy of a request, and refuses
// what can be told to be refused by the host that the request names: behind a proxy, its address cannot be
// seen. The proxy itself is connected to like any host.
func (p *Policy) Proxy(next func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if err := p.CheckHost(r.URL.Hostname()); err != nil {
			return nil, err
		}
		return next(r)
	}
}
