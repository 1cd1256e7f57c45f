package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
)

// need is what a route asks of a token: the smallest grants, as action:type, or bucket scopes by name.
// Every route has a row; a route without one fails the test.
var needs = map[string][]string{
	"GET /api/v2/openapi.yaml":                          nil,
	"GET /api/v2/orgs":                                  {"any"},
	"POST /api/v2/orgs":                                 {"write:orgs"},
	"GET /api/v2/orgs/{id}":                             {"any"},
	"PATCH /api/v2/orgs/{id}":                           {"write:orgs"},
	"DELETE /api/v2/orgs/{id}":                          {"write:orgs"},
	"GET /api/v2/buckets":                               {"any"},
	"POST /api/v2/buckets":                              {"write:buckets"},
	"GET /api/v2/buckets/{id}":                          {"read:buckets"},
	"PATCH /api/v2/buckets/{id}":                        {"write:buckets"},
	"DELETE /api/v2/buckets/{id}":                       {"write:buckets", "write:replications"},
	"GET /api/v2/authorizations":                        {"any"},
	"POST /api/v2/authorizations":                       {"write:authorizations", "read:buckets"},
	"GET /api/v2/authorizations/{id}":                   {"read:authorizations"},
	"PATCH /api/v2/authorizations/{id}":                 {"write:authorizations"},
	"DELETE /api/v2/authorizations/{id}":                {"write:authorizations"},
	"GET /api/v2/remotes":                               {"any"},
	"POST /api/v2/remotes":                              {"write:remotes"},
	"GET /api/v2/remotes/{id}":                          {"read:remotes"},
	"PATCH /api/v2/remotes/{id}":                        {"write:remotes"},
	"DELETE /api/v2/remotes/{id}":                       {"write:remotes"},
	"GET /api/v2/replications":                          {"any"},
	"POST /api/v2/replications":                         {"write:replications", "read:buckets", "read:remotes"},
	"GET /api/v2/replications/{id}":                     {"read:replications"},
	"PATCH /api/v2/replications/{id}":                   {"write:replications"},
	"DELETE /api/v2/replications/{id}":                  {"write:replications"},
	"POST /api/v2/replications/{id}/validate":           {"read:replications"},
	"POST /api/v2/replications/{id}/pause":              {"write:replications"},
	"POST /api/v2/replications/{id}/resume":             {"write:replications"},
	"POST /api/v2/replications/{id}/flush":              {"write:replications"},
	"POST /api/v2/replications/{id}/purge":              {"write:replications"},
	"GET /api/v2/replications/{id}/deadletters":         {"read:replications"},
	"POST /api/v2/replications/{id}/deadletters/replay": {"write:replications"},
	"POST /api/v2/replications/{id}/deadletters/drop":   {"write:replications"},
	"POST /api/v2/backup":                               {"operator"},
}

// guarded is a site with one of each, and what names them.
type guarded struct {
	*site
	remote, replication document
	victim              document // an authorization
}

func newGuarded(t *testing.T) *guarded {
	g := &guarded{site: start(t)}
	g.remote = g.site.remote("file")
	g.replication = g.site.replication("up", g.remote, nil)
	g.do(http.MethodPost, "/api/v2/authorizations", text(document{"orgID": g.org.ID, "scope": "read"}), 201, &g.victim)
	return g
}

// token makes a token with these grants.
func (g *guarded) token(grants ...string) string {
	var permissions []document
	for _, grant := range grants {
		action, kind, _ := strings.Cut(grant, ":")
		resource := document{"type": kind, "orgID": g.org.ID}
		if kind == "orgs" {
			delete(resource, "orgID") // it is for those too that do not exist yet
		}
		permissions = append(permissions, document{"action": action, "resource": resource})
	}
	return g.made(document{"orgID": g.org.ID, "permissions": permissions})
}

func (g *guarded) made(body document) string {
	g.t.Helper()
	var made document
	g.do(http.MethodPost, "/api/v2/authorizations", text(body), 201, &made)
	return made["token"].(string)
}

// call calls a route so that it would change nothing that others need: what would succeed is tried on
// a thing that is there, with a body that is good or that changes nothing.
func (g *guarded) call(token, key string) reply {
	method, path, _ := strings.Cut(key, " ")
	id, body := "", document{"name": "new " + token, "orgID": g.org.ID}
	switch {
	case strings.HasPrefix(path, "/api/v2/orgs"):
		id = g.org.ID.String()
		if method == http.MethodPatch {
			body = document{"description": "changed"}
		}
	case strings.HasPrefix(path, "/api/v2/buckets"):
		id = g.bucket.ID.String()
		if method == http.MethodPatch {
			body = document{"description": "changed"}
		}
	case strings.HasPrefix(path, "/api/v2/authorizations"):
		id, body = g.victim.id(), document{"orgID": g.org.ID, "permissions": []document{{"action": "read", "resource": document{"type": "buckets", "orgID": g.org.ID}}}}
	case strings.HasPrefix(path, "/api/v2/remotes"):
		id = g.remote.id()
		if method == http.MethodPost {
			body["remoteURL"] = "sqlite:other.db"
		} else {
			body = document{"description": "changed"}
		}
	case strings.HasPrefix(path, "/api/v2/replications"):
		id = g.replication.id()
		switch {
		case strings.Contains(path, "deadletters"):
			body = document{"all": true}
		case method == http.MethodPost:
			body["remoteID"], body["localBucketID"] = g.remote.id(), g.bucket.ID
		default:
			body = document{"description": "changed"}
		}
	}
	path = strings.ReplaceAll(path, "{id}", id)
	if method == http.MethodGet && (id == "" || !strings.Contains(path, id)) {
		path += "?orgID=" + g.org.ID.String()
	}
	return g.as(token, method, path, text(body))
}

// TestEveryRouteAsksForItsPermission calls every route without a token, with a wrong one, with grants that
// are one too few, with all others and with just the right ones.
func TestEveryRouteAsksForItsPermission(t *testing.T) {
	t.Parallel()
	all := []string{}
	for _, kind := range resourceTypes {
		all = append(all, "read:"+kind, "write:"+kind)
	}
	for _, r := range New(nil, nil).Routes() {
		key := r.Method + " " + r.Pattern
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			needed, ok := needs[key]
			if !ok {
				t.Fatal("the route has no row in the table of permissions")
			}
			g := newGuarded(t)
			if needed == nil {
				if r := g.call("", key); r.status != http.StatusOK {
					t.Errorf("without a token: %d %s", r.status, r.body)
				}
				return
			}
			for name, token := range map[string]string{"no token": "", "a wrong token": operator + "x"} {
				if r := g.call(token, key); r.status != http.StatusUnauthorized {
					t.Errorf("%s: %d %s", name, r.status, r.body)
				}
			}
			if needed[0] == "operator" {
				if r := g.call(g.token(all...), key); r.status != http.StatusForbidden {
					t.Errorf("everything that can be given away: %d %s, want 403", r.status, r.body)
				}
				if r := g.call(operator, key); r.status != http.StatusOK {
					t.Errorf("the operator: %d %s", r.status, r.body)
				}
				return
			}
			if needed[0] == "any" {
				needed = []string{"read:orgs"}
			} else {
				for _, missing := range needed {
					var others []string
					for _, grant := range all {
						// Who may write a bucket sees it.
						if grant != missing && (missing != "read:buckets" || grant != "write:buckets" || key != "GET /api/v2/buckets/{id}") {
							others = append(others, grant)
						}
					}
					if r := g.call(g.token(others...), key); r.status != http.StatusForbidden {
						t.Errorf("everything but %s: %d %s, want 403", missing, r.status, r.body)
					}
				}
			}
			if r := g.call(g.token(needed...), key); r.status == http.StatusUnauthorized || r.status == http.StatusForbidden || r.status >= 500 {
				t.Errorf("just %v: %d %s", needed, r.status, r.body)
			}
		})
	}
	for key := range needs {
		found := false
		for _, r := range New(nil, nil).Routes() {
			found = found || key == r.Method+" "+r.Pattern
		}
		if !found {
			t.Errorf("%s is in the table and is no route", key)
		}
	}
}

// TestScopes shows what the three scopes may do.
func TestScopes(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	var other document
	g.do(http.MethodPost, "/api/v2/buckets", text(document{"orgID": g.org.ID, "name": "other"}), 201, &other)
	g.bucket = metadata.Bucket{ID: parseID(t, other.id())}
	g.site.replication("other", g.remote, nil)
	write := g.made(document{"orgID": g.org.ID, "scope": "write", "bucketID": g.replication["localBucketID"]})
	read := g.made(document{"orgID": g.org.ID, "scope": "read"})
	manage := g.made(document{"orgID": g.org.ID, "scope": "manage"})
	for _, c := range []struct {
		name, token, method, path, body string
		want                            int
	}{
		{"write its bucket", write, "POST", "/api/v2/write?bucket=default", "m v=1 1", 204},
		{"write another bucket", write, "POST", "/api/v2/write?bucket=other", "m v=1 1", 403},
		{"write its bucket in 1.x", write, "POST", "/write?db=default", "m v=1 1", 204},
		{"see the replication", write, "GET", "/api/v2/replications/" + g.replication.id(), "", 403},
		{"delete its bucket", write, "DELETE", "/api/v2/buckets/" + g.replication["localBucketID"].(string), "", 403},
		{"read the replication", read, "GET", "/api/v2/replications/" + g.replication.id(), "", 200},
		{"write with read", read, "POST", "/api/v2/write?bucket=default", "m v=1 1", 403},
		{"pause with read", read, "POST", "/api/v2/replications/" + g.replication.id() + "/pause", "", 403},
		{"manage", manage, "POST", "/api/v2/replications/" + g.replication.id() + "/pause", "", 200},
		{"manage writes", manage, "POST", "/api/v2/write?bucket=other", "m v=1 1", 204},
		{"manage is for one organization", manage, "POST", "/api/v2/orgs", `{"name":"x"}`, 403},
		{"give away what one has not", g.token("write:authorizations"), "POST", "/api/v2/authorizations", text(document{"orgID": g.org.ID, "scope": "manage"}), 403},
	} {
		if r := g.as(c.token, c.method, c.path, c.body); r.status != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, r.status, r.body, c.want)
		}
	}
	// Lists show what may be seen.
	for name, c := range map[string]struct {
		path, list string
		want       map[string]int
	}{
		"replications": {"/api/v2/replications?orgID=" + g.org.ID.String(), "replications", map[string]int{write: 0, read: 2, manage: 2}},
		"remotes":      {"/api/v2/remotes?orgID=" + g.org.ID.String(), "remotes", map[string]int{write: 0, read: 1, manage: 1}},
		"buckets":      {"/api/v2/buckets", "buckets", map[string]int{write: 1, read: 2, manage: 2}},
		"tokens":       {"/api/v2/authorizations", "authorizations", map[string]int{write: 0}},
	} {
		for token, want := range c.want {
			var doc map[string]json.RawMessage
			r := g.as(token, http.MethodGet, c.path, "")
			must(t, json.Unmarshal([]byte(r.body), &doc))
			var list []document
			must(t, json.Unmarshal(doc[c.list], &list))
			if list == nil || len(list) != want {
				t.Errorf("%s: %s, want %d", name, r.body, want)
			}
		}
	}
	// A token that is inactive or deleted is nobody's.
	var all struct{ Authorizations []document }
	g.do("GET", "/api/v2/authorizations", "", 200, &all)
	for _, a := range all.Authorizations {
		g.do("PATCH", "/api/v2/authorizations/"+a.id(), `{"status":"inactive"}`, 200, nil)
	}
	if r := g.as(write, "POST", "/api/v2/write?bucket=default", "m v=1 1"); r.status != http.StatusUnauthorized {
		t.Errorf("an inactive token: %d %s", r.status, r.body)
	}
}

func parseID(t *testing.T, text string) metadata.ID {
	t.Helper()
	id, err := metadata.ParseID(text)
	must(t, err)
	return id
}
