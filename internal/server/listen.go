package server

import (
	"context"
	"net"
	"net/http"
	"syscall"

	"github.com/pkg/errors"
)

// streamBuffer is what a connection of HTTP/2 may send before somebody reads it; a megabyte, which is what
// net/http gives, would be gigabytes for thousands of connections.
const streamBuffer = 256 << 10

func (s *Server) httpServer() *http.Server {
	return &http.Server{
		TLSConfig:         s.cfg.TLS,
		ConnState:         s.conns.state,
		HTTP2:             &http.HTTP2Config{MaxReceiveBufferPerConnection: streamBuffer, MaxReceiveBufferPerStream: streamBuffer},
		Handler:           s,
		ReadHeaderTimeout: s.cfg.ReadHeaderTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    s.cfg.MaxHeaderBytes,
		ErrorLog:          s.errorLog(),
	}
}

// Listen takes the address, so that Addr is known and connections wait. It may be called once.
func (s *Server) Listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return errors.New("server: it listens already")
	}
	l, err := net.Listen("tcp", s.cfg.BindAddr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return errors.Wrapf(err, "server: another process uses %s: stop it, or take another address (port 0 takes a free port)", s.cfg.BindAddr)
	}
	if err != nil {
		return errors.Wrapf(err, "server: cannot listen on %s", s.cfg.BindAddr)
	}
	s.conns.Listener = l
	s.listener = s.conns
	return nil
}

// Addr returns the address that is listened on, or nil before Listen.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Serve answers requests until Shutdown, and then returns nil. It calls Listen if nobody has.
func (s *Server) Serve() error {
	if s.Addr() == nil {
		if err := s.Listen(); err != nil {
			return err
		}
	}
	serve := s.http.Serve
	if s.cfg.TLS != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return errors.Wrap(err, "server: serve")
	}
	return nil
}

// Shutdown takes no more requests and waits for those under way; when ctx ends first, their
// connections are cut and its error is returned. It may be called more than once, and without Serve.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	defer s.refusals.close()
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
	}
	if s.Addr() != nil {
		_ = s.listener.Close() // If Serve was never called.
	}
	return errors.Wrap(err, "server: shutdown")
}
