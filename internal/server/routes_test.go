package server

import (
	"net/http"
	"strings"
	"testing"
)

// An access says what a route answers to whom.
type access struct {
	method, path, body string
	// open says that it needs no token.
	open bool
	// small is a token that may not do this; empty if there is none.
	small string
	// status is the answer to who may.
	status int
}

// accesses have a row for every route of the server's own. Whoever adds a route says here who may use it.
var accesses = map[string]access{
	"/api/v2/write":  {method: "POST", path: v2one, body: "m v=1 1", small: reader, status: http.StatusNoContent},
	"/write":         {method: "POST", path: "/write?db=one", body: "m v=1 1", small: reader, status: http.StatusNoContent},
	"/query":         {method: "POST", path: "/query?q=CREATE+DATABASE+new", small: writer, status: http.StatusOK},
	"/ping":          {method: "GET", path: "/ping", open: true, status: http.StatusNoContent},
	"/health":        {method: "GET", path: "/health", open: true, status: http.StatusOK},
	"/ready":         {method: "GET", path: "/ready", open: true, status: http.StatusOK},
	"/metrics":       {method: "GET", path: "/metrics", open: true, status: http.StatusOK},
	"/api/v2/query":  {method: "POST", path: "/api/v2/query", open: true, status: http.StatusNotImplemented},
	"/api/v2/delete": {method: "POST", path: "/api/v2/delete", open: true, status: http.StatusNotImplemented},
}

func TestWhoMayUseEveryRoute(t *testing.T) {
	t.Parallel()
	st := start(t, Config{}, nil)
	for route := range st.routes.exact {
		if _, ok := accesses[route]; !ok {
			t.Errorf("%s has no row: say who may use it", route)
		}
	}
	for route, a := range accesses {
		if _, ok := st.routes.exact[route]; !ok {
			t.Errorf("%s has a row and does not exist", route)
			continue
		}
		ask := func(token string) int {
			header := map[string]string{"Authorization": "Token " + token}
			if token == "" {
				header["Authorization"] = ""
			}
			return st.do(t, a.method, a.path, a.body, header).status
		}
		refused := http.StatusUnauthorized
		if a.open {
			refused = a.status
		}
		kept := st.intake.all()
		for _, token := range []string{"", "wrong", operator + "x", strings.ToUpper(operator)} {
			if got := ask(token); got != refused {
				t.Errorf("%s with the token %q: %d, want %d", route, token, got, refused)
			}
		}
		if a.small != "" {
			if got := ask(a.small); got != http.StatusForbidden {
				t.Errorf("%s with a token that may not: %d", route, got)
			}
		}
		if st.intake.all() != kept {
			t.Errorf("%s keeps what it refuses", route)
		}
		if got := ask(operator); got != a.status {
			t.Errorf("%s with the operator's token: %d, want %d", route, got, a.status)
		}
	}
}
