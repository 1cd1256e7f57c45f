package api

import (
	"net/http"
	"testing"

	"github.com/tailrace-cdc/tailrace/internal/metadata"
)

// TestNothingOfAnotherOrganizationIsUsed has a token that may do everything in its organisation try each route on
// what belongs to another one, and bring the two together.
func TestNothingOfAnotherOrganizationIsUsed(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	mine, err := g.service.CreateOrg(t.Context(), metadata.Org{Name: "mine"})
	must(t, err)
	bucket, err := g.service.CreateBucket(t.Context(), metadata.Bucket{OrgID: mine.ID, Name: "mine"})
	must(t, err)
	token := g.made(document{"orgID": mine.ID, "scope": "manage"})
	for key, needed := range needs {
		if needed == nil || needed[0] == "any" || needed[0] == "operator" {
			continue
		}
		if r := g.call(token, key); r.status != http.StatusForbidden {
			t.Errorf("%s: %d %s, want 403", key, r.status, r.body)
		}
	}
	remote, err := g.service.CreateRemote(t.Context(), metadata.Remote{OrgID: mine.ID, Name: "mine", URL: "sqlite:mine.db"})
	must(t, err)
	mixed := func(remote, bucket any) string {
		return text(document{"name": "x", "orgID": mine.ID, "remoteID": remote, "localBucketID": bucket, "remoteBucketName": "any"})
	}
	for name, body := range map[string]string{
		"their remote": mixed(g.remote.id(), bucket.ID), "their bucket": mixed(remote.ID, g.bucket.ID),
	} {
		for _, path := range []string{"/api/v2/replications", "/api/v2/replications?validate=true"} {
			if r := g.as(token, http.MethodPost, path, body); r.status != http.StatusForbidden {
				t.Errorf("%s, POST %s: %d %s, want 403", name, path, r.status, r.body)
			}
			if r := g.as(operator, http.MethodPost, path, body); r.status != http.StatusBadRequest {
				t.Errorf("%s, POST %s by one who may use both: %d %s, want 400", name, path, r.status, r.body)
			}
		}
	}
	var made document
	g.do(http.MethodPost, "/api/v2/replications", mixed(remote.ID, bucket.ID), 201, &made)
	for _, path := range []string{made.id(), made.id() + "?validate=true"} {
		body := text(document{"remoteID": g.remote.id()})
		if r := g.as(token, http.MethodPatch, "/api/v2/replications/"+path, body); r.status != http.StatusForbidden {
			t.Errorf("PATCH to their remote %s: %d %s, want 403", path, r.status, r.body)
		}
		if r := g.as(operator, http.MethodPatch, "/api/v2/replications/"+path, body); r.status != http.StatusBadRequest {
			t.Errorf("PATCH by one who may use both %s: %d %s, want 400", path, r.status, r.body)
		}
	}
}
