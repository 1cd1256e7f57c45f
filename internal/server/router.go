package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/pkg/errors"
)

// A route is a path with its handlers by method.
type route struct {
	pattern string
	parts   []string // of a pattern with wildcards
	form    form
	methods map[string]handler
	allow   string
}

// An endpoint is one method of one route.
type endpoint struct {
	method, pattern string
	form            form
	handle          handler
}

// A router finds the route of a request. A pattern is a path, in which {name} stands for one part.
type router struct {
	exact map[string]*route
	wild  []*route
}

func newRouter(endpoints []endpoint) (router, error) {
	rt := router{exact: map[string]*route{}}
	all := map[string]*route{}
	for _, e := range endpoints {
		r := all[e.pattern]
		if r == nil {
			r = &route{pattern: e.pattern, form: e.form, methods: map[string]handler{}}
			all[e.pattern] = r
			if strings.Contains(e.pattern, "{") {
				r.parts = strings.Split(e.pattern, "/")
				rt.wild = append(rt.wild, r)
			} else {
				rt.exact[e.pattern] = r
			}
		}
		if r.methods[e.method] != nil {
			return rt, errors.Errorf("server: two routes %s %s", e.method, e.pattern)
		}
		r.methods[e.method] = e.handle
		if e.method == http.MethodGet && !strings.HasSuffix(e.pattern, "/query") {
			r.methods[http.MethodHead] = e.handle
		}
		r.allow = strings.Join(slices.Sorted(maps.Keys(r.methods)), ", ")
	}
	return rt, nil
}

// find returns the request's route, or nil, and gives the request the values of the wildcards.
func (rt router) find(r *http.Request) *route {
	if found := rt.exact[r.URL.Path]; found != nil {
		return found
	}
	parts := strings.Split(r.URL.Path, "/")
	for _, candidate := range rt.wild {
		if candidate.take(parts, r) {
			return candidate
		}
	}
	return nil
}

// take reports whether the path is the route's.
func (rt *route) take(parts []string, r *http.Request) bool {
	if len(parts) != len(rt.parts) {
		return false
	}
	for i, want := range rt.parts {
		if !strings.HasPrefix(want, "{") && want != parts[i] {
			return false
		}
	}
	for i, want := range rt.parts {
		if strings.HasPrefix(want, "{") {
			r.SetPathValue(strings.Trim(want, "{}"), parts[i])
		}
	}
	return true
}
