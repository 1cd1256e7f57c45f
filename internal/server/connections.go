package server

import (
	"container/list"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// connections is a listener that bounds how many connections are open, in all and per remote address. When
// all are taken, the one that has been idle the longest is closed for a new one; if none is idle, the new
// one is refused. A connection that has not sent anything is not idle: its header has a time limit.
type connections struct {
	net.Listener
	cfg     *Config
	refused func(limit, message, client string)

	mu   sync.Mutex
	open int
	host map[string]int // connections by remote address, if that is bounded
	idle list.List      // of *connection, the longest first
}

// A connection gives its place back when it is closed.
type connection struct {
	net.Conn
	all  *connections
	host string
	rest *list.Element // in connections.idle
	gone bool
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(c.RemoteAddr())
		limit, message, victim := l.admit(host)
		if victim != nil {
			_ = victim.Close()
		}
		if limit == "" {
			return &connection{Conn: c, all: l, host: host}, nil
		}
		l.refused(limit, message, host)
		l.turnAway(c)
	}
}

// admit takes a place for a connection of the host, or says which limit stands against it. The victim is
// to be closed.
func (l *connections) admit(host string) (limit, message string, victim *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if most := l.cfg.MaxConnsPerHost; most > 0 {
		if l.host[host] >= most {
			return "host", fmt.Sprintf("%d connections from one address are open, as many as there may be", most), nil
		}
	}
	if l.open >= l.cfg.MaxConns {
		first := l.idle.Front()
		if first == nil {
			return "all", fmt.Sprintf("%d connections are open, as many as there may be", l.cfg.MaxConns), nil
		}
		victim = first.Value.(*connection)
		l.leave(victim)
	}
	l.open++
	if l.cfg.MaxConnsPerHost > 0 {
		l.host[host]++
	}
	return "", "", victim
}

// leave gives a connection's place back.
func (l *connections) leave(c *connection) {
	if c.gone {
		return
	}
	c.gone = true
	l.open--
	if l.cfg.MaxConnsPerHost > 0 {
		if l.host[c.host]--; l.host[c.host] == 0 {
			delete(l.host, c.host)
		}
	}
	l.wake(c)
}

func (l *connections) wake(c *connection) {
	if c.rest != nil {
		l.idle.Remove(c.rest)
		c.rest = nil
	}
}

// turnAway tells a client to come again, where it can be told in clear, and closes the connection.
func (l *connections) turnAway(c net.Conn) {
	if l.cfg.TLS == nil {
		const patience = 100 * time.Millisecond // more than a fresh socket ever needs
		_ = c.SetWriteDeadline(time.Now().Add(patience))
		_, _ = c.Write([]byte("HTTP/1.1 503 Service Unavailable\r\nRetry-After: " + strconv.Itoa(retrySeconds(l.cfg.RetryAfter)) +
			"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	}
	_ = c.Close()
}

// state is an http.Server's ConnState.
func (l *connections) state(conn net.Conn, state http.ConnState) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	c, ok := conn.(*connection)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake(c)
	if state == http.StateIdle && !c.gone {
		c.rest = l.idle.PushBack(c)
	}
}

// count returns how many connections are open.
func (l *connections) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.all.mu.Lock()
	c.all.leave(c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

func hostOf(addr net.Addr) string {
	if host, _, err := net.SplitHostPort(addr.String()); err == nil {
		return host
	}
	return addr.String()
}
