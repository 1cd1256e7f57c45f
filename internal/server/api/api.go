package api

import (
	"net/http"

	"github.com/tailrace-cdc/tailrace/internal/replication"
	"github.com/tailrace-cdc/tailrace/internal/server"
)

// An API answers requests about a service's streams.
type API struct {
	service *replication.Service
	backUp  Backup
}

// New returns the API of a service. With a nil backup there are no backups.
func New(service *replication.Service, backup Backup) *API { return &API{service, backup} }

// Routes returns the API's routes.
func (a *API) Routes() []server.Route {
	const (
		get, post, patch, del                                = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
		orgs, buckets, remotes, replications, authorizations = "/api/v2/orgs", "/api/v2/buckets", "/api/v2/remotes", "/api/v2/replications", "/api/v2/authorizations"
	)
	route := func(method, pattern string, handle func(*call) error) server.Route {
		return server.Route{Method: method, Pattern: pattern, Handle: func(w http.ResponseWriter, r *http.Request, who server.Principal) error {
			return failure(handle(&call{w: w, Request: r, who: who}))
		}}
	}
	document := route(get, "/api/v2/openapi.yaml", openAPI)
	document.Public = true
	return []server.Route{
		document,
		route(get, orgs, a.listOrgs),
		route(post, orgs, a.createOrg),
		route(get, orgs+"/{id}", a.getOrg),
		route(patch, orgs+"/{id}", a.updateOrg),
		route(del, orgs+"/{id}", a.deleteOrg),
		route(get, buckets, a.listBuckets),
		route(post, buckets, a.createBucket),
		route(get, buckets+"/{id}", a.getBucket),
		route(patch, buckets+"/{id}", a.updateBucket),
		route(del, buckets+"/{id}", a.deleteBucket),
		route(get, authorizations, a.listTokens),
		route(post, authorizations, a.createToken),
		route(get, authorizations+"/{id}", a.getToken),
		route(patch, authorizations+"/{id}", a.updateToken),
		route(del, authorizations+"/{id}", a.deleteToken),
		route(get, remotes, a.listRemotes),
		route(post, remotes, a.createRemote),
		route(get, remotes+"/{id}", a.getRemote),
		route(patch, remotes+"/{id}", a.updateRemote),
		route(del, remotes+"/{id}", a.deleteRemote),
		route(get, replications, a.listReplications),
		route(post, replications, a.createReplication),
		route(get, replications+"/{id}", a.getReplication),
		route(patch, replications+"/{id}", a.updateReplication),
		route(del, replications+"/{id}", a.deleteReplication),
		route(post, replications+"/{id}/validate", a.validateReplication),
		route(post, replications+"/{id}/pause", a.pause),
		route(post, replications+"/{id}/resume", a.resume),
		route(post, replications+"/{id}/flush", a.flush),
		route(post, replications+"/{id}/purge", a.purge),
		route(get, replications+"/{id}/deadletters", a.listLetters),
		route(post, replications+"/{id}/deadletters/replay", a.replayLetters),
		route(post, replications+"/{id}/deadletters/drop", a.dropLetters),
		route(post, "/api/v2/backup", a.backup),
	}
}
