package server

import (
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"
)

// A Server answers HTTP requests. It is an http.Handler; Listen and Serve run it by itself.
type Server struct {
	cfg        Config
	deps       Deps
	routes     router
	budget     *budget
	metrics    *metrics
	refusals   *refusalLog
	workspaces sync.Pool // of *workspace
	started    time.Time
	stopping   atomic.Bool

	http     *http.Server
	conns    *connections
	mu       sync.Mutex
	listener net.Listener
}

// A handler answers a request, or returns why it does not.
type handler func(http.ResponseWriter, *http.Request) *problem

// New returns a Server. It does not listen yet.
func New(cfg Config, deps Deps) (*Server, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Intake == nil || deps.Authorizer == nil {
		return nil, errors.New("server: Deps.Intake and Deps.Authorizer are required")
	}
	if deps.Log == nil {
		deps.Log = slog.Default()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if n, known := openFiles(); known && cfg.MaxConns > n-n/4 {
		deps.Log.Warn("fewer connections may be open than configured, because the process may not open more files (ulimit -n)",
			"files", n, "connections", n-n/4, "configured", cfg.MaxConns)
		cfg.MaxConns = n - n/4 // The rest is for queues and targets.
	}
	s := &Server{cfg: cfg, deps: deps, started: time.Now(), budget: newBudget(cfg.BodyMemory, 2*cfg.MaxBodySize, cfg.BodyWait)}
	s.workspaces.New = func() any { return new(workspace) }
	s.refusals = newRefusalLog(deps.Log)
	var err error
	s.conns = &connections{cfg: &s.cfg, host: map[string]int{}, refused: s.refuseConnection}
	if s.metrics, err = newMetrics(deps.Registerer, s.budget, s.conns); err != nil {
		return nil, err
	}
	if s.routes, err = newRouter(append(s.table(), s.added()...)); err != nil {
		return nil, err
	}
	s.http = s.httpServer()
	return s, nil
}

// table returns the routes that the server has of its own.
func (s *Server) table() []endpoint {
	table := []endpoint{
		{http.MethodPost, "/api/v2/write", formV2, s.writeV2},
		{http.MethodPost, "/write", formV1, s.writeV1},
		{http.MethodPost, "/query", formV1, s.query},
		{http.MethodGet, "/query", formV1, s.query},
		{http.MethodGet, "/ping", formV2, s.ping},
		{http.MethodGet, "/health", formV2, s.health},
		{http.MethodGet, "/ready", formV2, s.ready},
		{http.MethodPost, "/api/v2/query", formV2, notImplemented(noStore)},
		{http.MethodPost, "/api/v2/delete", formV2, notImplemented(
			"deletes are not replicated, and Tailrace stores nothing to delete from: delete at the target")},
	}
	if s.deps.Gatherer != nil {
		table = append(table, endpoint{http.MethodGet, "/metrics", formV2, metricsHandler(s.deps.Gatherer)})
	}
	return table
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	setHeaders(w.Header(), r, s.cfg.Version)
	rec := &recorder{ResponseWriter: w, conn: http.NewResponseController(w)}
	_ = rec.conn.SetWriteDeadline(time.Time{}) // that of the connection's last answer
	if r.ContentLength != 0 {
		// A body that nobody reads is read by net/http before the answer, or after it, and not for ever.
		_ = rec.conn.SetReadDeadline(begun.Add(s.cfg.BodyTimeout))
	}
	rt := s.routes.find(r)
	name := "other" // A path is the client's choice, and a label must not be.
	if rt != nil {
		name = rt.pattern
	} else {
		rt = &route{}
	}
	if p := s.dispatch(rec, r, rt); p != nil {
		if rec.status == 0 {
			p.answer(rec, rt.form)
		}
		s.refusals.add(refusalKind{name, p.status}, p.message, clientOf(r))
	}
	s.metrics.observe(name, rec.code(), time.Since(begun))
}

// dispatch calls the route's handler, and turns a panic into an answer.
func (s *Server) dispatch(w *recorder, r *http.Request, rt *route) (p *problem) {
	if rt.pattern == "" {
		return problemf(http.StatusNotFound, "path not found")
	}
	h, ok := rt.methods[r.Method]
	if !ok {
		p := problemf(http.StatusMethodNotAllowed, "method not allowed: use %s", rt.allow)
		p.allow = rt.allow
		return p
	}
	defer func() {
		if v := recover(); v != nil {
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			s.deps.Log.Error("a request handler panicked", "route", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			p = problemf(http.StatusInternalServerError, "an internal error; the server's log says more")
			p.hangUp = true
		}
	}()
	return h(w, r)
}

// refuseConnection counts and logs a connection that a limit stands against.
func (s *Server) refuseConnection(limit, message, client string) {
	s.metrics.connsRefused.WithLabelValues(limit).Inc()
	s.refusals.add(refusalKind{"connection", http.StatusServiceUnavailable}, message, client)
}

// clientOf returns the client's address without its port.
func clientOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
