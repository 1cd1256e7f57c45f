package server

import (
	"net/http"
	"time"
)

// ping answers /ping. It needs no token.
func (s *Server) ping(w http.ResponseWriter, r *http.Request) *problem {
	if v := r.URL.Query().Get("verbose"); v != "" && v != "0" && v != "false" {
		writeJSON(w, http.StatusOK, struct {
			Version string `json:"version"`
		}{s.cfg.Version})
		return nil
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type check struct {
	Name    string `json:"name"`
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// health answers /health: the process lives and is not stopping. That it cannot take writes now is
// said, but is no reason to start it anew.
func (s *Server) health(w http.ResponseWriter, r *http.Request) *problem {
	doc := struct {
		Name    string  `json:"name"`
		Message string  `json:"message"`
		Status  string  `json:"status"`
		Checks  []check `json:"checks"`
		Version string  `json:"version"`
		Commit  string  `json:"commit"`
	}{"tailrace", "ready for writes", "pass", []check{{Name: "writes", Status: "pass"}}, s.cfg.Version, s.cfg.Commit}
	status := http.StatusOK
	if err := s.accepting(r); err != nil {
		doc.Message = "writes are not taken: " + err.Error()
		doc.Checks[0] = check{"writes", "fail", err.Error()}
	}
	if s.stopping.Load() {
		doc.Status, status = "fail", http.StatusServiceUnavailable
	}
	writeJSON(w, status, doc)
	return nil
}

// accepting returns nil if writes are taken.
func (s *Server) accepting(r *http.Request) error {
	if s.stopping.Load() {
		return &UnavailableError{Reason: "the server is stopping"}
	}
	if s.deps.Health == nil {
		return nil
	}
	return s.deps.Health.Accepting(r.Context())
}

// ready answers /ready: whether writes can be made durable now. A remote that is dead does not make
// the server unready, or a load balancer would take the intake away from all; ?stream=ID (or all)
// asks about streams too.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) *problem {
	doc := struct {
		Status  string         `json:"status"`
		Message string         `json:"message,omitempty"`
		Started time.Time      `json:"started"`
		Up      string         `json:"up"`
		Stalled []StreamHealth `json:"stalledStreams"`
	}{"ready", "", s.started.UTC(), time.Since(s.started).Round(time.Second).String(), []StreamHealth{}}
	asked := r.URL.Query().Get("stream")
	known, stalled := asked == "" || asked == "all", false
	if s.deps.Health != nil {
		for _, st := range s.deps.Health.Streams(r.Context()) {
			mine := asked == "all" || asked != "" && (asked == st.ID || asked == st.Name)
			known = known || mine
			if st.Stalled {
				doc.Stalled = append(doc.Stalled, st)
				stalled = stalled || mine
			}
		}
	}
	if !known {
		return problemf(http.StatusNotFound, "stream not found: %.40q", asked)
	}
	status := http.StatusOK
	if err := s.accepting(r); err != nil {
		doc.Status, doc.Message, status = "not ready", err.Error(), http.StatusServiceUnavailable
	} else if stalled {
		doc.Status, doc.Message, status = "not ready", "a stream makes no progress", http.StatusServiceUnavailable
	}
	writeJSON(w, status, doc)
	return nil
}
