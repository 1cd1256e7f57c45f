package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func policy(tb testing.TB, list ...string) *Policy {
	tb.Helper()
	p, err := NewPolicy(list)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list    string
		host    string // as named; empty if it is the address
		address string
		ok      bool
	}{
		// Without a list.
		{"", "", "8.8.8.8", true},
		{"", "", "127.0.0.1", true},
		{"", "", "10.1.2.3", true},
		{"", "any.example", "2001:db8::1", true},
		{"", "", "169.254.169.254", false},
		{"", "rebound.example", "169.254.169.254", false},
		{"", "", "::ffff:169.254.169.254", false},
		{"", "", "64:ff9b::a9fe:a9fe", false},
		{"", "", "2002:a9fe:a9fe::1", false},
		{"", "", "::a9fe:a9fe", false},
		{"", "", "fe80::1", false},
		{"", "", "fe80::1%eth0", false},
		{"", "", "fd00:ec2::254", false},
		{"", "", "100.100.100.200", false},
		{"", "", "0.0.0.0", false},
		{"", "", "0.1.2.3", false},
		{"", "", "::", false},
		{"", "", "::ffff:0.0.0.0", false},
		{"", "", "224.0.0.1", false},
		{"", "", "ff02::1", false},
		{"", "", "255.255.255.255", false},
		{"", "", "::1", true},
		// The metadata service, for who wants it.
		{"169.254.169.254", "", "169.254.169.254", true},
		{"169.254.0.0/16", "x.example", "169.254.169.254", true},
		{"169.254.169.254", "", "::ffff:169.254.169.254", true},
		{"*", "x.example", "169.254.169.254", false},
		{"0.0.0.0/0", "", "169.254.169.254", false},
		{"0.0.0.0/0", "", "10.0.0.1", true},
		{"::/0", "", "fe80::1", false},
		// Names lead to public addresses.
		{"influx.example.com", "influx.example.com", "93.184.216.34", true},
		{"influx.example.com", "INFLUX.example.com.", "93.184.216.34", true},
		{"influx.example.com", "influx.example.com", "10.0.0.1", false},
		{"influx.example.com", "influx.example.com", "127.0.0.1", false},
		{"influx.example.com", "influx.example.com", "::1", false},
		{"influx.example.com", "influx.example.com", "::ffff:127.0.0.1", false},
		{"influx.example.com 10.0.0.0/8", "influx.example.com", "10.0.0.1", true},
		{"influx.example.com", "other.example.com", "93.184.216.34", false},
		{"influx.example.com", "influx.example.com.evil.org", "93.184.216.34", false},
		{"influx.example.com", "", "93.184.216.34", false},
		{"*.example.com", "a.b.example.com", "93.184.216.34", true},
		{"*.example.com", "example.com", "93.184.216.34", false},
		{"*.example.com", "evilexample.com", "93.184.216.34", false},
		{"in*.example.com", "influx.example.com", "93.184.216.34", true},
		{"*", "x.example", "93.184.216.34", true},
		{"*", "x.example", "192.168.1.1", false},
		// Ranges.
		{"10.20.0.0/16", "", "10.20.30.40", true},
		{"10.20.0.0/16", "", "10.21.30.40", false},
		{"10.20.0.0/16", "whatever.example", "10.20.30.40", true},
		{"10.20.0.0/16", "whatever.example", "93.184.216.34", false},
		{"2001:db8::/32", "", "2001:db8::5", true},
		{"[2001:db8::5]", "", "2001:db8::5", true},
		{"127.0.0.1", "localhost", "127.0.0.1", true},
		{"127.0.0.1", "localhost", "::1", false},
	} {
		p, addr := policy(t, strings.Fields(c.list)...), netip.MustParseAddr(c.address)
		err := p.checkAddr(c.host, addr)
		var refused *RefusedError
		if (err == nil) != c.ok || err != nil && (!errors.As(err, &refused) || !strings.Contains(err.Error(), "--allowRemoteHosts")) {
			t.Errorf("%q, %s at %s: %v", c.list, c.host, c.address, err)
		}
		// What is refused when it is named must not be allowed when it is used.
		named := c.host
		if named == "" {
			named = c.address
		}
		if early := p.CheckHost(named); early != nil && err == nil {
			t.Errorf("%q: %s is refused when named (%v), and allowed when used", c.list, named, early)
		}
	}
	var none *Policy
	if none.CheckHost("169.254.169.254") == nil || none.CheckHost("x.example") != nil {
		t.Error("no policy is not that without a list")
	}
}

func TestNamesThatCanBeToldBefore(t *testing.T) {
	t.Parallel()
	p := policy(t, "*.example.com")
	for host, ok := range map[string]bool{
		"a.example.com": true, "other.org": false, "127.0.0.1": false, "[::1]": false, "/var/run/x.sock": false, "2130706433": false,
		"0x7f000001": false, "localhost": false, "a.example.com@other.org": false,
	} {
		if err := p.CheckHost(host); (err == nil) != ok {
			t.Errorf("%s: %v", host, err)
		}
	}
	if err := policy(t, "unix").CheckHost("/var/run/x.sock"); err != nil {
		t.Error(err)
	}
}

func TestListThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{"", " ", "http://x.example", "x.example:80", "10.0.0.1/8", "10.0.*", "x/y", "a b", "::1%lo", "user@x.example"} {
		if p, err := NewPolicy([]string{"ok.example", entry}); err == nil {
			t.Errorf("%q becomes %+v", entry, p)
		}
	}
}

// A server that listens on the loopback, and counts who comes.
func counted(t *testing.T) (address string, hits *atomic.Int64) {
	t.Helper()
	hits = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), hits
}

// A name that leads elsewhere at each look must not pass: it is the address that is connected to which is
// checked. The DNS server is real, and gives a public address first.
func TestReboundNameDoesNotPass(t *testing.T) {
	t.Parallel()
	address, hits := counted(t)
	_, port, _ := net.SplitHostPort(address)
	var asked atomic.Int64
	dns := newDNS(t, func(name string) netip.Addr {
		if asked.Add(1) == 1 {
			return netip.MustParseAddr("93.184.216.34")
		}
		return netip.MustParseAddr("127.0.0.1")
	})
	dialer := &net.Dialer{Timeout: 10 * time.Second, Resolver: dns}
	p := policy(t, "*.example.com")
	if addrs, err := dns.LookupHost(t.Context(), "rebound.example.com"); err != nil || addrs[0] != "93.184.216.34" {
		t.Fatalf("%v, %v", addrs, err)
	}
	get := func(p *Policy) error {
		client := http.Client{Transport: &http.Transport{DialContext: p.DialContext(dialer), DisableKeepAlives: true}}
		resp, err := client.Get("http://rebound.example.com:" + port)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	var refused *RefusedError
	if err := get(p); !errors.As(err, &refused) || hits.Load() > 0 || refused.Host != "rebound.example.com" || refused.Address.String() != "127.0.0.1" {
		t.Errorf("%v, and %d came", err, hits.Load())
	}
	if err := get(policy(t, "*.example.com", "127.0.0.0/8")); err != nil || hits.Load() != 1 {
		t.Errorf("with its range listed: %v, and %d came", err, hits.Load())
	}
}

func TestRedirectToAnotherHostIsChecked(t *testing.T) {
	t.Parallel()
	inside, hits := counted(t)
	_, port, _ := net.SplitHostPort(inside)
	outside := httptest.NewServer(http.RedirectHandler("http://127.0.0.2:"+port, http.StatusFound))
	defer outside.Close()
	client := http.Client{Transport: &http.Transport{DialContext: policy(t, "127.0.0.1").DialContext(&net.Dialer{}), DisableKeepAlives: true}}
	var refused *RefusedError
	if _, err := client.Get(outside.URL); !errors.As(err, &refused) || hits.Load() > 0 {
		t.Errorf("%v, and %d came", err, hits.Load())
	}
}

// A driver that cancels a statement connects to the address of its connection, not to the name.
func TestAddressThatANameLedTo(t *testing.T) {
	t.Parallel()
	address, _ := counted(t)
	_, port, _ := net.SplitHostPort(address)
	dns := newDNS(t, func(string) netip.Addr { return netip.MustParseAddr("127.0.0.1") })
	p := &Policy{listed: true, names: []string{"db.example.com"}}
	g := &guard{policy: p, base: &net.Dialer{Resolver: dns}, known: map[netip.Addr]string{}}
	var refused *RefusedError
	if _, err := g.dial(t.Context(), "tcp", address); !errors.As(err, &refused) {
		t.Fatalf("an address that nothing led to: %v", err)
	}
	if _, err := g.dial(t.Context(), "tcp", "db.example.com:"+port); !errors.As(err, &refused) {
		t.Fatalf("a name that leads inside: %v", err)
	}
	// As if it had led to a public address: the address is judged as what the name leads to.
	public := netip.MustParseAddr("93.184.216.34")
	if err := p.checkAddr("", public); err == nil {
		t.Error("the address is allowed by itself")
	}
	if err := g.control(t.Context(), "db.example.com", "tcp", "93.184.216.34:5432", nil); err != nil || g.nameOf(public) != "db.example.com" {
		t.Errorf("%v, known %v", err, g.known)
	}
	if err := g.control(t.Context(), g.nameOf(public), "tcp", "93.184.216.34:5432", nil); err != nil {
		t.Errorf("the address that the name led to: %v", err)
	}
	for i := range 1000 {
		g.learn(netip.AddrFrom4([4]byte{9, 9, byte(i >> 8), byte(i)}), "x")
	}
	if len(g.known) > 64 {
		t.Errorf("%d addresses are remembered", len(g.known))
	}
}

func TestBehindAProxyTheNameIsChecked(t *testing.T) {
	t.Parallel()
	proxied, hits := counted(t)
	proxy := http.ProxyURL(&url.URL{Scheme: "http", Host: proxied})
	p := policy(t, "127.0.0.1", "influx.example.com")
	client := http.Client{Transport: &http.Transport{Proxy: p.Proxy(proxy), DialContext: p.DialContext(&net.Dialer{}), DisableKeepAlives: true}}
	resp, err := client.Get("http://influx.example.com/write")
	if err != nil || hits.Load() != 1 {
		t.Fatalf("%v, and %d came", err, hits.Load())
	}
	_ = resp.Body.Close()
	var refused *RefusedError
	if _, err := client.Get("http://169.254.169.254/latest"); !errors.As(err, &refused) || hits.Load() != 1 {
		t.Errorf("%v, and %d came", err, hits.Load())
	}
}

func TestControlOfTheDialerIsCalledToo(t *testing.T) {
	t.Parallel()
	address, _ := counted(t)
	stop := errors.New("stop")
	control := func(string, string, syscall.RawConn) error { return stop }
	for _, d := range []*net.Dialer{
		{Control: control},
		{ControlContext: func(_ context.Context, n, a string, c syscall.RawConn) error { return control(n, a, c) }},
	} {
		if _, err := policy(t).DialContext(d)(t.Context(), "tcp", address); !errors.Is(err, stop) {
			t.Error(err)
		}
	}
}

func TestSocketsOfTheFileSystem(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "out") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for list, ok := range map[string]bool{"": true, "unix": true, "10.0.0.0/8": false} {
		conn, err := policy(t, strings.Fields(list)...).DialContext(&net.Dialer{})(t.Context(), "unix", path)
		if (err == nil) != ok {
			t.Errorf("%q: %v", list, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

// How pgx is made to leave names to the dialer.
func TestWithPGX(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var hangingUp sync.WaitGroup
	hangingUp.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_ = conn.Close()
		}
	})
	defer hangingUp.Wait()
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	dns := newDNS(t, func(string) netip.Addr { return netip.MustParseAddr("127.0.0.1") })
	connect := func(p *Policy) error {
		config, err := pgconn.ParseConfig(fmt.Sprintf("postgres://u@db.example.com:%s/d?sslmode=disable&connect_timeout=10", port))
		if err != nil {
			t.Fatal(err)
		}
		config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
		config.DialFunc = p.DialContext(&net.Dialer{Resolver: dns})
		conn, err := pgconn.ConnectConfig(t.Context(), config)
		if err == nil {
			_ = conn.Close(t.Context())
		}
		return err
	}
	var refused *RefusedError
	if err := connect(policy(t, "db.example.com")); !errors.As(err, &refused) || refused.Host != "db.example.com" {
		t.Errorf("%v", err)
	}
	if err := connect(policy(t, "db.example.com", "127.0.0.1")); err == nil || strings.Contains(err.Error(), "not allowed") {
		t.Errorf("what hangs up: %v", err)
	}
}

func FuzzNewPolicy(f *testing.F) {
	for _, entry := range []string{"*.example.com", "10.0.0.0/8", "::1", "unix", "a*b*c"} {
		f.Add(entry, "x.example.com", uint32(0x7f000001))
	}
	f.Fuzz(func(t *testing.T, entry, host string, ip uint32) {
		p, err := NewPolicy([]string{entry})
		if err != nil || strings.Count(entry, "*") > 5 || len(host) > 300 {
			return
		}
		addr := netip.AddrFrom4([4]byte{byte(ip >> 24), byte(ip >> 16), byte(ip >> 8), byte(ip)})
		verdict := p.checkAddr(host, addr)
		if verdict != nil && host != "" && p.CheckHost(host) == nil && !p.named(host) && len(p.ranges) == 0 && !p.unix {
			t.Fatalf("%q allows %q when it is named: %v", entry, host, verdict)
		}
		if verdict == nil && kindOf(addr) != public && len(p.ranges) == 0 {
			t.Fatalf("%q lets %q lead to %s", entry, host, addr)
		}
	})
}
