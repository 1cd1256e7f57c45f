package postgres

import (
	"encoding/binary"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// A recorder stands before a server and notes the SQL that it is sent. It can tell clients that the server is
// CockroachDB.
type recorder struct {
	cockroach bool

	mu    sync.Mutex
	known map[string]bool
	sql   []string // each once, in the order of their first coming
}

// listen returns the port at which connections to the server at another port are recorded.
func (r *recorder) listen(t *testing.T, server string) int {
	t.Helper()
	r.known = map[string]bool{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close() // which its owner notices
				continue
			}
			open.Go(func() { r.requests(client, up) })
			open.Go(func() { r.answers(up, client) })
		}
	})
	t.Cleanup(func() { // the target is closed by then
		_ = l.Close()
		open.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}

// requests passes on what a client says.
func (r *recorder) requests(client, server net.Conn) {
	defer server.Close()
	kinds := 0 // of bytes before the length: the first messages have none
	for {
		head, body, err := message(client, kinds)
		if err != nil {
			return
		}
		if kinds == 0 && binary.BigEndian.Uint32(body) == 196608 {
			kinds = 1
		} else if kinds == 1 {
			r.note(head[0], body)
		}
		if _, err := server.Write(append(head, body...)); err != nil {
			return
		}
	}
}

// answers passes on what the server says. Once it lets the client in, it has more to say.
func (r *recorder) answers(server, client net.Conn) {
	defer client.Close()
	for {
		head, body, err := message(server, 1)
		if err != nil {
			return
		}
		out := append(head, body...)
		if r.cockroach && head[0] == 'R' && binary.BigEndian.Uint32(body) == 0 {
			status := "crdb_version\x00CockroachDB\x00"
			out = append(out, 'S')
			out = binary.BigEndian.AppendUint32(out, uint32(len(status)+4))
			out = append(out, status...)
		}
		if _, err := client.Write(out); err != nil {
			return
		}
	}
}

func message(from io.Reader, kinds int) (head, body []byte, err error) {
	head = make([]byte, kinds+4)
	if _, err = io.ReadFull(from, head); err != nil {
		return nil, nil, err
	}
	body = make([]byte, binary.BigEndian.Uint32(head[kinds:])-4)
	_, err = io.ReadFull(from, body)
	return head, body, err
}

// temporaryName matches what has an OID in it.
var temporaryName = regexp.MustCompile(`tailrace_[0-9a-f]{16}`)

// note remembers the SQL of a query, or of a statement that is prepared.
func (r *recorder) note(kind byte, body []byte) {
	parts := strings.Split(string(body), "\x00")
	sql := ""
	switch kind {
	case 'Q':
		sql = parts[0]
	case 'P':
		sql = parts[1]
	}
	sql = temporaryName.ReplaceAllString(strings.TrimSuffix(strings.TrimSpace(sql), ";"), "tailrace_HASH")
	r.mu.Lock()
	defer r.mu.Unlock()
	if sql == "" || sql == "-- ping" || r.known[sql] {
		return
	}
	r.known[sql] = true
	r.sql = append(r.sql, sql)
}

// drain returns what came since the last call.
func (r *recorder) drain() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	sql := r.sql
	r.sql = nil
	return sql
}
