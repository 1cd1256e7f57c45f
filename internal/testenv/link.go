package testenv

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// A Link forwards connections to a server, and can fail as networks do. Its methods may be called
// concurrently.
type Link struct {
	to string
	l  net.Listener
	wg sync.WaitGroup

	mu     sync.Mutex
	thawed *sync.Cond
	frozen bool
	closed bool
	conns  map[net.Conn]bool
}

// NewLink returns a link to a port of the loopback address, which lasts as long as the test.
func NewLink(t testing.TB, port int) *Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	k := &Link{to: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), l: l, conns: map[net.Conn]bool{}}
	k.thawed = sync.NewCond(&k.mu)
	k.wg.Go(k.accept)
	t.Cleanup(k.close)
	return k
}

// Port is where clients connect to.
func (k *Link) Port() int { return k.l.Addr().(*net.TCPAddr).Port }

// Freeze stops all traffic in both directions, without a word to either side: a cable pulled, a
// process stopped.
func (k *Link) Freeze() { k.setFrozen(true) }

// Thaw lets the traffic go on, from where it stopped.
func (k *Link) Thaw() { k.setFrozen(false) }

func (k *Link) setFrozen(frozen bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frozen = frozen
	k.thawed.Broadcast()
}

// Cut closes all connections that there are. New ones are taken.
func (k *Link) Cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.conns {
		_ = c.Close() // The other side's read ends.
	}
}

func (k *Link) close() {
	_ = k.l.Close()
	k.mu.Lock()
	k.closed, k.frozen = true, false
	k.thawed.Broadcast()
	k.mu.Unlock()
	k.Cut()
	k.wg.Wait()
}

func (k *Link) accept() {
	for {
		client, err := k.l.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", k.to)
		if err != nil {
			_ = client.Close() // The client learns that nobody listens.
			continue
		}
		k.mu.Lock()
		k.conns[client], k.conns[server] = true, true
		closed := k.closed
		k.mu.Unlock()
		if closed {
			_, _ = client.Close(), server.Close()
		}
		k.wg.Go(func() { k.forward(client, server) })
		k.wg.Go(func() { k.forward(server, client) })
	}
}

// forward copies one direction until either side closes.
func (k *Link) forward(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		k.mu.Lock()
		for k.frozen {
			k.thawed.Wait()
		}
		k.mu.Unlock()
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = from.Close()
			}
			_ = to.Close()
			break
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.conns, from)
	delete(k.conns, to)
}
