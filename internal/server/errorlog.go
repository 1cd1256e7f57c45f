package server

import (
	"log"
	"strings"
)

// What net/http says about connections that never come to be a request, by how it begins.
const (
	handshakeError = "http: TLS handshake error from "
	acceptError    = "http: Accept error: "
)

// errorLog turns what net/http logs into lines of ours. What strangers cause goes where refusals go, once a
// second at most; the rest is detail.
func (s *Server) errorLog() *log.Logger { return log.New(errorLog{s}, "", 0) }

type errorLog struct{ s *Server }

// Write implements io.Writer; log.Logger calls it once for each line.
func (l errorLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if rest, ok := strings.CutPrefix(text, handshakeError); ok {
		client, reason, _ := strings.Cut(rest, ": ")
		l.s.refusals.add(refusalKind{route: "TLS handshake"}, reason, hostOf(address(client)))
	} else if reason, ok := strings.CutPrefix(text, acceptError); ok {
		l.s.refusals.add(refusalKind{route: "accept"}, reason, "")
	} else {
		l.s.deps.Log.Debug("the HTTP server says", "message", text)
	}
	return len(line), nil
}

// address is a net.Addr as text.
type address string

// Network implements net.Addr.
func (address) Network() string { return "tcp" }

// String implements net.Addr.
func (a address) String() string { return string(a) }
