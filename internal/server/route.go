package server

import (
	"net/http"
	"time"

	"github.com/pkg/errors"
)

// A Route is a route that somebody else answers: the server checks the token, bounds the body, and words
// the errors.
type Route struct {
	// Method and Pattern say which requests it answers. In a pattern, {name} stands for one part of the
	// path; see http.Request.PathValue. HEAD comes with GET.
	Method, Pattern string
	// Public says that no token is needed.
	Public bool
	// Handle answers the request. An error that it returns before it has written anything becomes the
	// answer: a *Failure as it says, and any other as an internal error.
	Handle func(w http.ResponseWriter, r *http.Request, who Principal) error
}

// A Failure is why a request is not answered with success.
type Failure struct {
	Status int
	// Code is InfluxDB's word for it. Default: the one that belongs to the status.
	Code string
	// Message is for the client, and holds no secret.
	Message string
	// RetryAfter goes into the header of that name if it is not 0.
	RetryAfter time.Duration
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// MaxRouteBody is the most that the body of a request to a Route may have, in bytes.
const MaxRouteBody = 1 << 20

// added returns the routes of others as the server's own.
func (s *Server) added() []endpoint {
	var all []endpoint
	for _, r := range s.deps.Routes {
		all = append(all, endpoint{r.Method, r.Pattern, formV2, s.guard(r)})
	}
	return all
}

// guard checks the token and bounds the body.
func (s *Server) guard(route Route) handler {
	return func(w http.ResponseWriter, r *http.Request) *problem {
		var who Principal
		if !route.Public {
			var p *problem
			if who, p = s.principal(r, r.URL.Query()); p != nil {
				return p
			}
		}
		var b body
		b.reset(w, r, &s.cfg, MaxRouteBody)
		r.Body = struct {
			*body
			noClose
		}{body: &b}
		err := route.Handle(w, r, who)
		switch {
		case err == nil:
			return nil
		case b.err != nil:
			return b.problem()
		}
		if failure := new(Failure); errors.As(err, &failure) {
			return &problem{status: failure.Status, word: failure.Code, message: failure.Message, retryAfter: failure.RetryAfter}
		}
		s.deps.Log.Error("a request failed", "route", route.Pattern, "method", route.Method, "error", err.Error())
		return problemf(http.StatusInternalServerError, "an internal error: %v", err)
	}
}
